"use strict";
// Fills in what each run came to, and goes on asking about those that are still going.
const number = new Intl.NumberFormat("en");

async function fill(line) {
  const success = line.querySelector("[data-success]"), progress = line.querySelector("[data-progress]");
  let state;
  try {
    const reply = await fetch(line.dataset.state, { headers: { accept: "application/json" } });
    state = await reply.json();
    if (!reply.ok) throw new Error(state.error);
  } catch (error) {
    success.textContent = "–";
    progress.textContent = "";
    const said = document.createElement("p");
    said.className = "warning";
    said.textContent = error instanceof TypeError ? "The server does not answer." : error.message;
    progress.append(said);
    return;
  }
  success.textContent = state.success === null ? number.format(state.found) : `${(100 * state.success).toFixed(1)}\u00a0%`;
  const small = document.createElement("small");
  small.textContent = state.success === null ? "found" : `${number.format(state.solved)} of ${number.format(state.trials)}`;
  success.append(small);
  progress.textContent = "";
  if (state.whole === 0 || state.done < state.whole) {
    const bar = document.createElement("progress");
    bar.max = state.whole || 1;
    bar.value = state.done;
    bar.setAttribute("aria-label", "progress of the run");
    const told = document.createElement("span");
    told.className = "quiet";
    told.textContent = `${state.running ? "running" : "stopped"}: ${number.format(state.done)} of ${number.format(state.whole)} ${state.what}`;
    progress.append(bar, told);
    if (state.running) setTimeout(() => fill(line), 2000);
  }
}

const lines = [...document.querySelectorAll("[data-state]")];
(async () => { for (const line of lines) await fill(line); })();
