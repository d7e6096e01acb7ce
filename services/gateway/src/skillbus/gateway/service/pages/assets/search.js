"use strict";
// Queries kept for an evaluation: lines of JSON in this browser, for the key and project, as `skillbus eval` reads them.

const keptForm = document.querySelector("[data-keep]");
const keptPlace = document.querySelector("[data-kept]");
const keptKey = `skillbus evaluation ${page.caller} ${page.project} ${keptPlace.dataset.kept}`;
const mostKept = 1000;

function readKept() {
  try { return JSON.parse(localStorage.getItem(keptKey)) || []; } catch { return []; }
}

function writeKept(lines) {
  localStorage.setItem(keptKey, JSON.stringify(lines));
  showKept();
}

function showKept() {
  const lines = readKept();
  keptPlace.hidden = lines.length === 0;
  keptPlace.querySelector("[data-count]").textContent = lines.length;
  keptPlace.querySelector("ul").replaceChildren(...lines.map((line, place) => {
    const row = document.createElement("li");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "plain";
    remove.textContent = keptPlace.dataset.remove;
    remove.setAttribute("aria-label", `${keptPlace.dataset.remove}: ${line.query}`);
    remove.addEventListener("click", () => writeKept(readKept().filter((_, at) => at !== place)));
    row.append(line.query, " ", remove);
    return row;
  }));
}

// One query has one line: keeping it again replaces what was right before.
function keepQuery(form) {
  const line = JSON.parse(form.dataset.line);
  const right = [...document.querySelectorAll(`[form="${form.id}"]:checked`)].map((box) => box.value);
  line[form.dataset.field] = [...new Set(right)].map((value) => JSON.parse(value));
  const same = (one) => one.query === line.query && (one.scope || "") === (line.scope || "");
  const lines = [...readKept().filter((one) => !same(one)), line];
  const place = form.querySelector("[role=status]");
  const needed = form.dataset.needed !== undefined && right.length === 0;
  place.textContent = needed ? form.dataset.none : lines.length > mostKept ? form.dataset.full : form.dataset.done;
  if (!needed && lines.length <= mostKept) writeKept(lines);
}

if (keptForm) keptForm.addEventListener("submit", (event) => { event.preventDefault(); keepQuery(keptForm); });
keptPlace.querySelector("[data-download]").addEventListener("click", () => {
  const file = new Blob(readKept().map((line) => `${JSON.stringify(line)}\n`), { type: "application/x-ndjson" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = keptPlace.dataset.file;
  link.click();
  URL.revokeObjectURL(link.href);
});
showKept();
