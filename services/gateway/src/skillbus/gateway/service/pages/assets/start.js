"use strict";
// Installs the examples that come with this server, one after the other, and makes a key for an agent. What is installed
// already stays as it is, so that a second attempt goes on where the first one failed.

async function sendExample(address, source) {
  const content = await (await fetch(address)).blob();
  const target = new URL("/api/skills", location.href);
  const headers = { "X-CSRF-Token": page.csrf };
  let body = content;
  if (new URL(address, location.href).pathname.endsWith(".zip")) {
    body = new FormData();
    body.set("package", content, "package.zip");
    body.set("project", page.project);
  } else {
    target.pathname = "/api/knowledge/import";
    target.searchParams.set("source", source);
    if (page.project !== "default") target.searchParams.set("project", page.project);
    headers["Content-Type"] = "text/markdown";
  }
  const send = () => fetch(target, { method: "POST", headers, body });
  let response = await send();
  if (response.status === 403 && (await takeOverSession())) {
    headers["X-CSRF-Token"] = page.csrf;
    response = await send();
  }
  return response;
}

async function installExamples(form) {
  const addresses = [...form.querySelectorAll("[name=example]")].map((field) => field.value);
  const bar = form.querySelector("progress");
  const state = form.querySelector("[data-state]");
  bar.hidden = false;
  for (const [done, address] of addresses.entries()) {
    bar.value = done;
    state.textContent = fillText(form.dataset.progress, { done, all: addresses.length });
    const response = await sendExample(address, form.dataset.examples);
    if (!response.ok) { showError(form, await explainRefusal(form, response)); return; }
  }
  bar.value = addresses.length;
  state.textContent = fillText(form.dataset.progress, { done: addresses.length, all: addresses.length });
  location.reload();
}

function showLines(key) {
  for (const line of document.querySelectorAll("[data-line]")) {
    line.dataset.pattern = line.dataset.pattern || line.textContent;
    line.textContent = line.dataset.pattern.replace("{origin}", location.origin).replace("{key}", key || "YOUR-KEY");
  }
  const once = document.querySelector("[data-once]");
  if (once) once.hidden = !key;
}

async function makeKey(form) {
  const label = form.elements.label.value;
  const response = await callApi("POST", "/api/keys", { label, role: "runner", projects: [form.dataset.key] });
  if (!response.ok) { showError(form, await explainRefusal(form, response)); return; }
  showLines((await response.json()).key);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const act = form.dataset.examples !== undefined ? installExamples : form.dataset.key !== undefined ? makeKey : null;
  if (act === null) return;
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  form.querySelector("[data-error]").hidden = true;
  act(form).catch(() => showError(form, page.offline)).finally(() => { button.disabled = false; });
}, { capture: true });
// Whoever leaves the page leaves the key: the browser may keep the page for the way back.
window.addEventListener("pagehide", () => showLines(""));
showLines("");
