"use strict";
// A run that goes on: its output as it comes, and its page anew when it ends. The output stays until the page is left.

const SHOWN = 200000; // characters: the end of a longer output is shown

function showOutput(place, text) {
  const pre = place.querySelector("pre");
  place.querySelector("[data-output]").hidden = false;
  const all = pre.textContent.length + text.length;
  if (all > SHOWN) pre.textContent = (pre.textContent + text).slice(-SHOWN / 2);
  else pre.append(text);
}

function watchRun(place) {
  followEvents(place, place.dataset.live, {
    running: () => {},
    output: ({ text }) => showOutput(place, text),
    ended: () => {
      const { part } = place.dataset;
      htmx.ajax("GET", location.href, { target: part, select: part, swap: "outerHTML" });
    },
  });
}

for (const place of document.querySelectorAll("[data-live]")) watchRun(place);
