"use strict";
// More cards when their turn comes, filters at once, and what can be done with what is ticked.
const grid = document.getElementById("grid"), end = document.getElementById("end");
const chosen = document.getElementById("chosen"), filter = document.getElementById("filter");

function withQuery(root) {  // a finding knows the view that it was opened from
  for (const link of root.querySelectorAll("a[data-open]")) if (location.search) link.search = location.search;
}

let loading = false;
async function more() {
  const from = Number(grid.dataset.from);
  if (loading || from >= Number(grid.dataset.total)) return;
  loading = true;
  end.textContent = "Loading more …";
  try {
    const reply = await fetch(`${grid.dataset.next}&from=${from}`);
    if (!reply.ok) throw new Error(String(reply.status));
    const holder = document.createElement("template");
    holder.innerHTML = await reply.text();
    const cards = [...holder.content.querySelectorAll("li.card")];
    withQuery(holder.content);
    grid.append(...cards);
    grid.dataset.from = from + cards.length;
    const all = !cards.length || from + cards.length >= Number(grid.dataset.total);
    end.textContent = all ? "That was all of them." : `${from + cards.length} of ${grid.dataset.total}`;
    loading = false;
    if (!all && end.getBoundingClientRect().top < innerHeight + 300) more();
  } catch {
    end.textContent = "The server does not answer. ";
    const again = document.createElement("button");
    again.textContent = "Try again";
    again.addEventListener("click", () => { loading = false; more(); });
    end.append(again);
  }
}

if (grid) {
  withQuery(grid);
  if (Number(grid.dataset.from) < Number(grid.dataset.total)) {
    new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) more(); }, { rootMargin: "300px" })
      .observe(end);
  }
  const all = chosen.querySelector("[name=all]");
  const count = () => {
    const many = grid.querySelectorAll("input:checked").length;
    chosen.hidden = !many && !all.checked;
    chosen.querySelector("[data-count]").textContent = all.checked ? grid.dataset.total : many;
  };
  grid.addEventListener("change", count);
  all.addEventListener("change", count);
  count();
}

for (const field of filter.querySelectorAll("select, input"))
  field.addEventListener("change", () => filter.requestSubmit());
filter.addEventListener("submit", () => {  // an address without what says nothing
  for (const field of filter.elements) if (field.name && !field.value) field.disabled = true;
});
addEventListener("pageshow", () => { for (const field of filter.elements) field.disabled = false; });
const asGiven = (select) => ([...select.options].find((one) => one.defaultSelected) ?? select.options[0]).selected;
if (![...filter.querySelectorAll("select")].every(asGiven)) filter.requestSubmit();  // chosen before this was loaded
