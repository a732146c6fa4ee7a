"use strict";
// One image after the other. An answer goes into a queue that outlives the page, is sent until the server has it, and
// carries a key of its own: however often it is sent, it counts once. What is shown as saved is on disk.
const work = document.getElementById("work"), base = work.dataset.base;
const image = work.querySelector("[data-image]"), stage = work.querySelector("[data-stage]");
const waiting = work.querySelector("[data-waiting]"), saved = work.querySelector("[data-saved]");
const told = work.querySelector("[data-progress]"), bar = work.querySelector("progress");
const answering = work.querySelector("[data-answering]"), finished = work.querySelector("[data-finished]");
const search = work.querySelector("[data-search]");
const buttons = [...work.querySelectorAll("[data-choice]")];
const SLOT = `foible ${base}`;

// Answers that the server has not confirmed, each in a slot of its own: two tabs do not overwrite each other's.
let queue = Object.keys(localStorage).filter((key) => key.startsWith(`${SLOT} `))
  .map((key) => JSON.parse(localStorage.getItem(key))).sort((one, other) => one.order - other.order);
let turns = [];  // what comes: {turn, small}
const known = new Map();  // turn to what is known of it
let history = queue.filter((one) => one.choice !== null).map((one) => one.turn);  // turns answered, the last one last
let last = null;  // the turn answered last before this page was opened
let done = Number(work.dataset.done), whole = Number(work.dataset.whole);
let later = null, began = null, sending = false, filling = false, stopped = false, wait = 500;
let confirmed = 0;  // answers that the server has taken: what it said before it took one is out of date

const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (one) => one.toString(16).padStart(2, "0")).join("");
const pause = (time) => new Promise((go) => setTimeout(go, time));

function tell() {
  const here = done + queue.reduce((sum, one) => sum + (one.choice === null ? -1 : 1), 0);
  told.textContent = `${Math.min(here, whole)} of ${whole}`;
  bar.max = whole || 1;
  bar.value = Math.min(here, whole);
  if (stopped) return;
  saved.textContent = queue.length ? `${queue.length} to send` : "all saved";
  saved.dataset.state = queue.length ? (wait > 500 ? "away" : "sending") : "saved";
  if (queue.length && wait > 500) saved.textContent = `no connection: ${queue.length} kept here, sent later`;
}

function prefetch() {
  for (const one of turns.slice(1, 5)) if (!one.image) {
    one.image = new Image();
    one.image.src = `${base}image/${one.turn}`;
  }
}

function show() {
  const one = turns[0];
  began = null;
  stage.dataset.ready = "no";
  const end = !one && !queue.length && done >= whole;
  finished.hidden = !end;
  answering.hidden = stage.hidden = end;
  if (end) {  // unless others disagree, and one more is asked for
    clearTimeout(later);
    later = setTimeout(fill, 15000);
    return;
  }
  if (!one) {
    image.hidden = true;
    waiting.hidden = false;
    waiting.textContent = "Loading …";
    fill();
    return;
  }
  image.className = one.small ? "px" : "";
  waiting.hidden = true;
  image.hidden = false;
  image.src = `${base}image/${one.turn}`;
  image.decode().then(() => { if (turns[0] === one) ready(); }, () => missing(one));
  prefetch();
}

function ready() {
  began = performance.now();
  stage.dataset.ready = "yes";
}

async function missing(one) {  // the image did not come: try until it does
  if (turns[0] !== one || stopped) return;
  waiting.hidden = false;
  waiting.textContent = "The image does not come; trying again …";
  image.hidden = true;
  await pause(1000);
  if (turns[0] === one) show();
}

async function fill() {
  if (filling || stopped) return;
  filling = true;
  const before = confirmed;
  try {
    const reply = await fetch(`${base}next`, { headers: { accept: "application/json" } });
    if (reply.status === 403) return stop((await reply.json()).error);
    if (!reply.ok) throw new Error(String(reply.status));
    const next = await reply.json();
    const here = new Set([...turns.map((one) => one.turn), ...history]);
    const empty = !turns.length;
    if (!queue.length && before === confirmed) { done = next.done; whole = next.whole; }
    if (last === null && !history.length) last = next.last;
    for (const one of next.turns) if (!here.has(one.turn)) { turns.push(one); known.set(one.turn, one); }
    filling = false;
    tell();
    if (empty && (turns.length || (done >= whole && !queue.length))) show();
    else if (empty) setTimeout(fill, 1000);
    else prefetch();
  } catch {
    filling = false;
    await pause(1000);
    if (turns.length < 4) fill();
  }
}

function stop(text) {
  stopped = true;
  saved.dataset.state = "away";
  saved.textContent = text || "This link does not work any more.";
  answering.hidden = true;
}

async function send() {
  if (sending) return;
  sending = true;
  while (queue.length && !stopped) {
    const one = queue[0];
    let reply;
    try {
      reply = await fetch(`${base}answer`, {
        method: "POST", headers: { "content-type": "application/json", accept: "application/json" },
        body: JSON.stringify(one),
      });
      if (reply.status >= 500 || reply.status === 429 || reply.status === 408) throw new Error(String(reply.status));
    } catch {
      wait = Math.min(2 * wait, 4000);
      tell();
      await pause(wait);
      continue;
    }
    wait = 500;
    if (reply.status === 403) { sending = false; return stop((await reply.json()).error); }
    const state = await reply.json();
    queue.shift();  // saved; or refused for good: another device was first
    confirmed += 1;
    localStorage.removeItem(`${SLOT} ${one.key}`);
    if (state.whole !== undefined) { done = state.done; whole = state.whole; }
    tell();
  }
  sending = false;
  if (!turns.length) show();
}

function put(entry) {
  const one = { ...entry, key: fresh(), order: Date.now() };
  queue.push(one);
  localStorage.setItem(`${SLOT} ${one.key}`, JSON.stringify(one));
  tell();
  send();
}

function answer(choice) {
  const one = turns[0];
  if (!one || began === null || stopped) return;
  turns.shift();
  history.push(one.turn);
  put({ turn: one.turn, choice, seconds: Math.round(performance.now() - began) / 1000 });
  show();
  if (turns.length < 4) fill();
  if (search) { search.value = ""; narrow(); }
}

function undo() {
  const turn = history.pop() ?? last;
  if (!turn || stopped) return;
  last = null;
  turns = turns.filter((one) => one.turn !== turn);
  turns.unshift(known.get(turn) || { turn, small: image.classList.contains("px") });
  put({ turn, choice: null });
  show();
}

function zoom() {
  const large = stage.classList.toggle("large");
  work.querySelector("[data-zoom]").setAttribute("aria-pressed", String(large));
}

function narrow() {  // a long list: what has the typed part in its name, those that begin with it first
  const part = search.value.trim().toLowerCase();
  const names = buttons.map((button) => [button, button.querySelector("bdi").textContent.toLowerCase()]);
  for (const [button, name] of names) {
    button.hidden = !name.includes(part) && !button.classList.contains("other");
    button.style.order = part && name.startsWith(part) ? -1 : 0;
    button.classList.remove("first");
  }
  const first = best();
  if (part && first) first.classList.add("first");
}

function best() {
  const there = buttons.filter((button) => !button.hidden && !button.classList.contains("other"));
  return there.find((button) => button.style.order === "-1") || there[0];
}

const keys = new Map();
for (const button of buttons) {
  button.addEventListener("click", () => answer(Number(button.dataset.choice)));
  for (const key of button.dataset.keys.split(" ")) if (key) keys.set(key, button);
}
for (const button of work.querySelectorAll("[data-undo]")) button.addEventListener("click", undo);
work.querySelector("[data-zoom]").addEventListener("click", zoom);
stage.addEventListener("click", zoom);

addEventListener("keydown", (event) => {
  if (event.altKey || event.metaKey || event.repeat) return;
  if (event.ctrlKey) { if (event.key === "z") { undo(); event.preventDefault(); } return; }
  if (search && event.target === search) {
    if (event.key === "Enter" && search.value.trim()) { const first = best(); if (first) answer(Number(first.dataset.choice)); }
    else if (event.key === "Backspace" && !search.value) undo();
    else return;
    event.preventDefault();
    return;
  }
  const button = keys.get(event.key.toLowerCase());
  if (button) answer(Number(button.dataset.choice));
  else if (event.key === "Backspace") undo();
  else if (event.key === "+" || event.key === "=") zoom();
  else return;
  event.preventDefault();
});
if (search) { search.addEventListener("input", narrow); narrow(); search.focus(); }
addEventListener("online", () => { wait = 500; send(); });

tell();
send();
fill();
