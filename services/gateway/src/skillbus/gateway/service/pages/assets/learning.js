"use strict";
// Sends files to learn from and shows how far the upload is; follows jobs by the events of the REST API.

function showSize(bytes) {
  let size = bytes;
  for (const unit of ["B", "KiB", "MiB"]) {
    if (size < 1024) return unit === "B" ? `${Math.round(size)} B` : `${size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} GiB`;
}

// The chosen files by their names in the job. A folder keeps its paths.
const chosen = new Map();

function showChosen(form) {
  const list = form.querySelector("[data-list]");
  list.replaceChildren(...[...chosen].slice(0, 200).map(([name, file]) => {
    const row = document.createElement("li");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "plain";
    remove.textContent = form.dataset.remove;
    remove.setAttribute("aria-label", `${form.dataset.remove}: ${name}`);
    remove.addEventListener("click", () => { chosen.delete(name); showChosen(form); });
    row.append(`${name} · ${showSize(file.size)}`, remove);
    return row;
  }));
  list.hidden = chosen.size === 0;
  const size = [...chosen.values()].reduce((sum, file) => sum + file.size, 0);
  form.querySelector("[data-summary]").textContent = chosen.size ? fillText(form.dataset.chosen, { count: chosen.size, size: showSize(size) }) : "";
}

function addFile(name, file) {
  if (file.size > 0) chosen.set(name, file);
}

// A folder gives its entries in parts, until a part is empty.
async function addEntry(entry) {
  if (entry.isFile) {
    addFile(entry.fullPath.slice(1), await new Promise((done, fail) => entry.file(done, fail)));
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const entries = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (entries.length === 0) return;
    for (const inner of entries) if (!inner.name.startsWith(".")) await addEntry(inner);
  }
}

let sending = null;

function sendFiles(form, address) {
  const request = sending = new XMLHttpRequest();
  const began = performance.now();
  const place = form.querySelector("[data-sent]");
  const bar = form.querySelector("[data-sending-part] progress");
  request.open("POST", address);
  request.setRequestHeader("X-CSRF-Token", page.csrf);
  request.upload.addEventListener("progress", (event) => {
    const rate = event.loaded / Math.max((performance.now() - began) / 1000, 0.1);
    bar.max = event.total;
    bar.value = event.loaded;
    place.textContent = event.loaded < event.total
      ? fillText(form.dataset.sending, { sent: showSize(event.loaded), total: showSize(event.total), rate: showSize(rate) })
      : form.dataset.stored;
  });
  const data = new FormData();
  for (const [name, file] of chosen) data.append("file", file, name);
  return new Promise((done, fail) => {
    request.addEventListener("load", () => done(new Response(request.responseText, { status: request.status })));
    request.addEventListener("error", () => fail(new Error(page.offline)));
    request.addEventListener("abort", () => fail(new Error(form.dataset.stopped)));
    request.send(data);
  });
}

async function startLearning(form) {
  form.querySelector("[data-error]").hidden = true;
  if (chosen.size === 0) { showError(form, form.dataset.none); return; }
  if (chosen.size > Number(form.dataset.most)) { showError(form, fillText(form.dataset.tooMany, { most: form.dataset.most })); return; }
  const address = new URL(form.dataset.upload + form.elements.what.value, location.href);
  for (const name of ["source", "task", "run", "commit", "branch"]) {
    const value = form.elements[name].value.trim();
    if (value) address.searchParams.set(name, value);
  }
  if (page.project !== "default") address.searchParams.set("project", page.project);
  const start = form.querySelector("button.primary");
  start.disabled = true;
  form.querySelector("[data-sending-part]").hidden = false;
  try {
    let response = await sendFiles(form, address);
    if (response.status === 403 && (await takeOverSession())) response = await sendFiles(form, address);
    if (!response.ok) { showError(form, await explainRefusal(form, response)); return; }
    const reply = await response.json();
    if (!reply.job) { showError(form, form.dataset.skipped); return; }
    forgetDraft(form);
    const next = new URL(fillIn(form.dataset.next, reply), location.href);
    if (reply.repeated) next.searchParams.set("repeated", "true");
    location.assign(next);
  } catch (error) {
    showError(form, error.message);
  } finally {
    start.disabled = false;
    form.querySelector("[data-sending-part]").hidden = true;
  }
}

function showProgress(place, job, seen) {
  const { phase, files_done: done, total_files: total, bytes_done: bytes, total_bytes: size, items } = job.progress;
  const set = (name, text) => { const part = place.querySelector(`[data-${name}]`); if (part.textContent !== text) part.textContent = text; };
  set("phase", place.getAttribute(`data-phase-${phase}`) || phase);
  set("files", fillText(place.dataset.filesText, { done, total }));
  set("bytes", showSize(bytes));
  if (items) set("items", `· ${fillText(place.dataset.itemsText, { count: items })}`);
  const now = performance.now();
  if (phase !== seen.phase) Object.assign(seen, { phase, bytes, at: now });
  else if (now - seen.at > 500 && bytes > seen.bytes) set("rate", `· ${fillText(place.dataset.rateText, { rate: showSize((bytes - seen.bytes) / ((now - seen.at) / 1000)) })}`);
  const bar = place.querySelector("progress");
  bar.max = size || 1;
  bar.value = bytes;
}

function followJob(place) {
  const seen = {};
  followEvents(place, place.dataset.follow, {
    progress: (job) => showProgress(place, job, seen),
    ended: (job) => {
      showProgress(place, job, seen);
      if (place.dataset.reload !== undefined) location.reload();
    },
  });
}

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.upload) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  startLearning(event.target);
}, { capture: true });

for (const form of document.querySelectorAll("form[data-upload]")) {
  const drop = form.querySelector("[data-drop]");
  for (const input of form.querySelectorAll("[data-choose]")) {
    input.addEventListener("change", () => {
      for (const file of input.files) addFile(file.webkitRelativePath || file.name, file);
      input.value = "";
      showChosen(form);
    });
  }
  for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    try {
      for (const entry of entries) await addEntry(entry);
    } catch (error) {
      showError(form, String(error.message || error));
    }
    showChosen(form);
  });
  form.querySelector("[data-stop]").addEventListener("click", () => sending && sending.abort());
}
for (const place of document.querySelectorAll("[data-follow]")) followJob(place);
