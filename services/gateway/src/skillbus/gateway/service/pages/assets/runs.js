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

// The browser opens a broken stream again by itself, but not after a refusal: then a few times more, as services restart.
function watchRun(place, left = 12) {
  const events = new EventSource(place.dataset.live);
  const problem = place.querySelector("[data-error]");
  const say = (text) => { problem.textContent = text; problem.hidden = false; };
  events.addEventListener("running", () => { problem.hidden = true; });
  events.addEventListener("output", (event) => showOutput(place, JSON.parse(event.data).text));
  events.addEventListener("ended", () => {
    events.close();
    problem.hidden = true;
    const { part } = place.dataset;
    htmx.ajax("GET", location.href, { target: part, select: part, swap: "outerHTML" });
  });
  events.addEventListener("error", (event) => {
    if (event.data) {
      const { detail, code } = JSON.parse(event.data);
      say(`${detail} (${code})`);
    }
    if (events.readyState !== EventSource.CLOSED) return;
    if (left > 0) setTimeout(() => watchRun(place, left - 1), 5000);
    else say(place.dataset.lostText);
  });
}

for (const place of document.querySelectorAll("[data-live]")) watchRun(place);
