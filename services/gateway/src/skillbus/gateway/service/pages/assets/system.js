"use strict";
// Switches of indexes that go on: their progress as it comes, and the part anew when a phase or a problem is another one.
// Without a switch nothing is followed; whoever comes back to the page, perhaps from a terminal, gets the part anew.

const indexes = document.querySelector("[data-live]");
let followed = false;

function loadIndexes() {
  htmx.ajax("GET", indexes.dataset.part, { target: indexes, swap: "innerHTML" });
}

function showProgress(listed) {
  for (const { alias, switch: state } of listed.indexes) {
    const row = indexes.querySelector(`[data-index="${CSS.escape(alias)}"]`);
    const shown = state ? `${state.id} ${state.phase} ${state.problem || ""}` : "";
    if (row === null || row.dataset.switch !== shown) { loadIndexes(); return; }
    const bar = row.querySelector("progress");
    if (bar === null) continue;
    bar.max = Math.max(state.total, 1);
    bar.value = state.done;
    row.querySelector("[data-done]").textContent = `${state.done} / ${state.total}`;
  }
}

document.addEventListener("visibilitychange", () => {
  if (!followed && document.visibilityState === "visible") loadIndexes();
});
document.addEventListener("htmx:load", () => {
  if (followed || indexes.querySelector("progress") === null) return;
  followed = true;
  followEvents(indexes.parentElement, indexes.dataset.live, {
    progress: showProgress,
    ended: () => { followed = false; loadIndexes(); },
  });
});
