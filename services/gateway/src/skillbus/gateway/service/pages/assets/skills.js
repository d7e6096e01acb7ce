"use strict";
// Installs a skill from a zip: it is sent to be checked, its findings are shown, and it is sent again to be installed.

function sendPackage(form, path, file) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const bar = form.querySelector("[data-progress]");
    bar.value = 0;
    request.upload.addEventListener("progress", (event) => { bar.value = (100 * event.loaded) / (event.total || 1); });
    request.addEventListener("load", () => resolve({
      ok: request.status < 300, status: request.status, statusText: request.statusText,
      json: async () => JSON.parse(request.responseText),
    }));
    request.addEventListener("error", () => reject(new Error("offline")));
    request.open("POST", path);
    request.setRequestHeader("X-CSRF-Token", page.csrf);
    const body = new FormData();
    body.append("project", page.project);
    body.append("package", file);
    request.send(body);
  });
}

async function uploadPackage(form, path, file, status) {
  const place = form.querySelector("[data-sending]");
  form.querySelector("[data-status]").textContent = status.replace("{file}", file.name);
  form.querySelector("[data-error]").hidden = true;
  place.hidden = false;
  try {
    let response = await sendPackage(form, path, file);
    if (response.status === 403 && (await takeOverSession())) response = await sendPackage(form, path, file);
    if (response.ok) return await response.json();
    showError(form, await explainRefusal(form, response));
  } catch (error) {
    showError(form, page.offline);
  } finally {
    place.hidden = true;
  }
  return null;
}

function fillList(report, name, lines) {
  const part = report.querySelector(`[data-list="${name}"]`);
  const list = part.querySelector("ul");
  list.replaceChildren(...lines.map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    return item;
  }));
  part.hidden = lines.length === 0;
}

function describeFinding(form, finding) {
  const meaning = JSON.parse(form.dataset.findings)[finding.code];
  return [finding.where, meaning && `${meaning}：`, finding.message, `(${finding.code})`].filter(Boolean).join(" ");
}

async function showReport(form, checked) {
  const report = form.querySelector("[data-report]");
  report.querySelector("[data-name]").textContent = checked.name || "";
  report.querySelector("[data-description]").textContent = checked.description || "";
  fillList(report, "errors", checked.errors.map((finding) => describeFinding(form, finding)));
  fillList(report, "warnings", checked.warnings.map((finding) => describeFinding(form, finding)));
  const scan = checked.scan;
  fillList(report, "network", scan ? scan.network.map((use) => `${use.file}:${use.line} ${use.what}`) : []);
  for (const part of ["executables", "unread", "scripts"]) fillList(report, part, scan ? scan[part] : []);
  const size = report.querySelector("[data-size]");
  size.textContent = scan ? size.dataset.size.replace("{files}", scan.files).replace("{bytes}", scan.unpacked_bytes) : "";
  report.querySelector("[data-refused]").hidden = checked.installable;
  report.querySelector("[data-confirm-install]").hidden = !checked.installable;
  const update = report.querySelector("[data-update]");
  const known = checked.name && (await callApi("GET", `/api/skills/${encodeURIComponent(checked.name)}`, null).catch(() => null));
  update.hidden = !(known && known.ok);
  update.textContent = update.dataset.update;
  report.hidden = false;
  report.scrollIntoView({ block: "nearest" });
}

for (const form of document.querySelectorAll("form[data-install]")) {
  const input = form.querySelector('input[type="file"]');
  const zone = form.querySelector("[data-drop]");
  const report = form.querySelector("[data-report]");
  let chosen = null;

  const choose = async (files) => {
    report.hidden = true;
    chosen = null;
    if (files.length !== 1) { showError(form, form.dataset.one); return; }
    const file = files[0];
    if (file.size > Number(form.dataset.max)) { showError(form, form.dataset.tooLarge); return; }
    const checked = await uploadPackage(form, "/api/skills/check", file, form.dataset.checking);
    if (checked === null) return;
    chosen = file;
    await showReport(form, checked);
  };

  input.addEventListener("change", () => { if (input.files.length) choose(input.files); });
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    choose(event.dataTransfer.files);
  });
  form.querySelector("[data-drop-report]").addEventListener("click", () => {
    report.hidden = true;
    chosen = null;
    form.reset();
    input.focus();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (chosen === null) return;
    const button = form.querySelector("[data-confirm-install]");
    button.disabled = true;
    const installed = await uploadPackage(form, "/api/skills", chosen, form.dataset.installing);
    button.disabled = false;
    if (installed !== null) location.assign(fillIn(form.dataset.next, installed));
  });
}
// A file that misses the zone must not replace the page.
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
