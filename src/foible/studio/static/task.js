"use strict";
// Figures that follow what people do, and copying of links.
const tiles = document.querySelector("[data-live]");
const shown = (value) => value === null ? "–" : Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(2).replace("-", "−");

async function refresh() {
  try {
    const reply = await fetch(tiles.dataset.live, { headers: { accept: "application/json" } });
    if (reply.ok) {
      const state = await reply.json();
      for (const place of tiles.querySelectorAll("[data-of]")) place.textContent = shown(state[place.dataset.of]);
    }
  } catch { /* the server is away: what is shown stays */ }
  setTimeout(refresh, 3000);
}
setTimeout(refresh, 3000);

for (const button of document.querySelectorAll("[data-copies]")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("[data-copy]").textContent);
    button.textContent = "Copied";
  });
}
