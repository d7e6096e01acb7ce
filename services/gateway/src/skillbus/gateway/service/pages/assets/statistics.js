"use strict";
// Draws the figures of the tables as plots, in the colours of the page, again when light changes to dark.

const figures = JSON.parse(document.getElementById("figures").textContent);
const DAY = 86400;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const writeDay = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);
const writeShare = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);
const writeCount = (value) => (value === null || value === undefined ? "–" : String(value));

function makeLine(label, stroke, options = {}) {
  return { label, stroke: colour(stroke), width: 2, points: { size: 5 }, value: (_, value) => writeCount(value), ...options };
}

function describePlot(place) {
  const { label } = place.dataset;
  if (place.dataset.plot === "requests") {
    return {
      names: ["searches", "contexts", "uses", "unanswered"],
      series: [
        makeLine(place.dataset.searches, "--blue"),
        makeLine(place.dataset.contexts, "--text", { dash: [8, 3] }),
        makeLine(place.dataset.uses, "--dim", { dash: [2, 3], show: false }),
        makeLine(place.dataset.unanswered, "--red", { dash: [4, 4] }),
      ],
      range: (_, low, high) => [0, Math.max(4, Math.ceil((high || 0) * 1.1))],
      values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? String(value) : "")),
      label,
    };
  }
  const value = (_, share) => writeShare(share);
  const edge = { value, width: 1, points: { show: true, size: 3 } };
  return {
    names: ["low", "high", "share"],
    series: [
      makeLine(place.dataset.low, "--dim", edge),
      makeLine(place.dataset.high, "--dim", edge),
      makeLine(place.dataset.share, "--blue", { value, points: { size: 7 } }),
    ],
    bands: [{ series: [2, 1], fill: colour("--tag") }],
    range: () => [0, 1],
    values: (_, splits) => splits.map(writeShare),
    label,
  };
}

function drawPlot(place) {
  const plot = describePlot(place);
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const days = { ...axis, incrs: [1, 2, 7, 14, 30].map((count) => count * DAY), space: 60,
    values: (_, splits) => splits.map((split) => writeDay(split).slice(5)) };
  const drawn = new uPlot({
    width: place.clientWidth,
    height: 220,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    series: [{ label: place.dataset.day, value: (_, day) => (day === null ? "–" : writeDay(day)) }, ...plot.series],
    bands: plot.bands,
    scales: { x: { time: true }, y: { range: plot.range } },
    axes: [days, { ...axis, values: plot.values, size: 56 }],
  }, [figures.days, ...plot.names.map((name) => figures[name])], place);
  return drawn;
}

const places = [...document.querySelectorAll("[data-plot]")];
let plots = places.map(drawPlot);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  plots.forEach((plot) => plot.destroy());
  plots = places.map(drawPlot);
});
window.addEventListener("resize", () => {
  plots.forEach((plot, at) => plot.setSize({ width: places[at].clientWidth, height: 220 }));
});
