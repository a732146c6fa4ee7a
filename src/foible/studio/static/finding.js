"use strict";
// The slider, the steps by arrow keys, and copying.
const slide = document.querySelector("[data-slide]");
if (slide) {
  const cut = slide.querySelector("input");
  const move = () => slide.style.setProperty("--cut", `${cut.value}%`);
  cut.addEventListener("input", move);
  move();
}

const path = document.querySelector("[data-steps]");
if (path) {
  const steps = [...path.querySelectorAll(".step")], at = path.querySelector("[data-at]");
  let now = 0;
  const show = (to) => {
    now = Math.max(0, Math.min(steps.length - 1, to));
    steps.forEach((step, number) => { step.hidden = number !== now; });
    at.textContent = `step ${now} of ${steps.length - 1}`;
  };
  path.querySelector("[data-back]").addEventListener("click", () => show(now - 1));
  path.querySelector("[data-on]").addEventListener("click", () => show(now + 1));
  addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowRight") show(now + 1);
    else if (event.key === "ArrowLeft") show(now - 1);
    else if (event.key === "Home" && path.contains(event.target)) show(0);
    else if (event.key === "End" && path.contains(event.target)) show(steps.length - 1);
    else return;
    event.preventDefault();
  });
  path.classList.add("one-by-one");
  show(0);
}

for (const button of document.querySelectorAll("[data-copies]")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("[data-copy]").textContent);
    button.textContent = "Copied";
  });
}
