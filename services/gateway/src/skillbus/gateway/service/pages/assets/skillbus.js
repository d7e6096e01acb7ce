"use strict";
// Forms with data-api send their fields as JSON to the REST API, with the token of the session. What was typed stays in
// the form after an error, and in this browser until it was saved.

// This script runs before the body is parsed, the other ones after it.
const page = document.documentElement.dataset;

// What is submitted before those have run waits for them: the browser would send its fields in the address of the page.
const earlyForms = new Map();
function holdSubmit(event) {
  if (event.target.hasAttribute("method")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  earlyForms.set(event.target, event.submitter);
}
document.addEventListener("submit", holdSubmit, { capture: true });
document.addEventListener("DOMContentLoaded", () => {
  document.removeEventListener("submit", holdSubmit, { capture: true });
  for (const [form, button] of earlyForms) form.requestSubmit(button);
});

function showError(form, text) {
  const place = form.querySelector("[data-error]") || document.getElementById("notice");
  place.textContent = text;
  place.hidden = false;
  place.classList.add("error");
  place.scrollIntoView({ block: "nearest" });
}

function readField(field) {
  if (field.dataset.type === "list") return field.value.split(/[,，]/).map((word) => word.trim()).filter(Boolean);
  if (field.dataset.type === "integer") return field.value === "" ? null : Number(field.value);
  if (field.dataset.type === "boolean") return field.value === "true";
  if (field.dataset.type === "date") return `${field.value}T00:00:00Z`;
  if (field.dataset.type === "headers") return readHeaders(field.value);
  return field.value;
}

// Lines `Name: value`. A line without a colon keeps a name that the server refuses, and says so.
function readHeaders(text) {
  return Object.fromEntries(text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [, name, value] = /^([^:]*):(.*)$/.exec(line) || [null, `${line}:`, ""];
    return [name.trim(), value.trim()];
  }));
}

// Fields with data-only are sent with the buttons of these values alone, those with data-optional only if they are filled,
// and fields of an inner object, such as `changes.title`, only if they were changed.
function readForm(form, button) {
  const body = button && button.name ? { [button.name]: button.value } : {};
  for (const field of form.elements) {
    const { only, optional } = field.dataset;
    if (!field.name || field.type === "submit" || (field.type === "checkbox" && !field.checked)) continue;
    if (only && !only.split(" ").includes(button && button.value)) continue;
    if (optional !== undefined && field.value === "") continue;
    const [outer, inner] = field.name.split(".");
    if (inner === undefined) {
      body[outer] = outer in body && field.dataset.type === "list" ? [...body[outer], ...readField(field)] : readField(field);
    } else if (field.value !== field.defaultValue) {
      body[outer] = { ...body[outer], [inner]: readField(field) };
    }
  }
  return body;
}

// After a new login in another tab, the token is that of its session, if it is one of the same key. Another request that
// was refused with the token that was sent may have taken it over already.
async function takeOverSession(sent) {
  const current = await fetch("/api/session");
  const { name, csrf_token: token } = current.ok ? await current.json() : {};
  if (!token || token === sent || name !== page.caller) return false;
  page.csrf = token;
  return true;
}

async function callApi(method, path, body, headers = {}, signal = undefined) {
  const address = new URL(path, location.href);
  if (page.project !== "default") address.searchParams.set("project", page.project);
  if (body !== null) headers["Content-Type"] = "application/json";
  const text = body === null ? undefined : JSON.stringify(body);
  const send = () => fetch(address, { method, headers: { ...headers, "X-CSRF-Token": page.csrf }, body: text, signal });
  const sent = page.csrf;
  const response = await send();
  return response.status === 403 && (await takeOverSession(sent)) ? send() : response;
}

// A text for people with its values; fillIn is for addresses.
function fillText(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function fillIn(template, value) {
  return template.replace(/\{([a-z_.]+)\}/g, (_, path) =>
    encodeURIComponent(path.split(".").reduce((inner, name) => inner[name], value)));
}

async function explainRefusal(form, response) {
  if (response.status === 401) return page.lost;
  if (response.status === 412 && form.dataset.conflict) return form.dataset.conflict;
  const problem = await response.json().catch(() => ({}));
  return [problem.detail || response.statusText, problem.code && `(${problem.code})`].filter(Boolean).join(" ");
}

async function submitForm(form, button) {
  const question = (button && button.dataset.confirm) || form.dataset.confirm;
  if (question && !confirm(question)) return;
  const needed = button && button.dataset.needs && form.elements[button.dataset.needs];
  if (needed && !needed.value) { needed.focus(); return; }
  if (button && button.dataset.each) { await sendEach(form, button); return; }
  const [method, path] = form.dataset.api.split(" ");
  const fields = readForm(form, button);
  if (form.dataset.batch !== undefined && !fields.ids) { showError(form, form.dataset.none); return; }
  const body = method === "DELETE" || Object.keys(fields).length === 0 ? null : fields;
  const headers = form.dataset.match ? { "If-Match": `"${form.dataset.match}"` } : {};
  const buttons = [...form.querySelectorAll("button")].filter((button) => !button.disabled);
  buttons.forEach((button) => { button.disabled = true; });
  try {
    const response = await callApi(method, path, body, headers);
    if (!response.ok) {
      if (response.status === 412) await takeOverVersion(form, path);
      showError(form, await explainRefusal(form, response));
      return;
    }
    forgetDraft(form);
    const reply = response.status === 204 ? {} : await response.json();
    if (form.dataset.batch !== undefined) { showOutcomes(form, reply); return; }
    if (form.dataset.reveal) { revealOnce(form, reply[form.dataset.reveal]); return; }
    const refused = (reply.results || []).find((result) => result.ok === false);
    if (refused) { showError(form, `${refused.error} (${refused.code})`); return; }
    location.assign(fillIn(form.dataset.next || location.pathname, reply));
  } catch (error) {
    showError(form, page.offline);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

// A secret of a reply is shown once: it is in no address and no storage, and whoever leaves the page leaves it.
function revealOnce(form, secret) {
  const place = document.querySelector("[data-revealed]");
  place.querySelector("output").textContent = secret;
  place.hidden = false;
  place.querySelector("button").focus();
  form.hidden = true;
  for (const old of document.querySelectorAll("[data-outdated]")) old.hidden = true;
}

async function copyText(button) {
  const text = button.parentElement.querySelector("output");
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = button.dataset.copied;
  } catch {
    getSelection().selectAllChildren(text); // without the right to write the clipboard, the reader presses Ctrl+C
  }
}

// A button with data-each="PUT /api/…/{id}" sends a request for each chosen row, with the version that the row shows, if it
// shows one. With data-append="tags #field" each adds the words of a field to the list in data-tags of its row; with
// data-becomes the row stays and shows that state.
async function sendEach(form, button) {
  const waiting = [...form.querySelectorAll('input[name="ids"]:checked')].map((box) => box.closest("[data-id]"));
  if (waiting.length === 0) { showError(form, form.dataset.none); return; }
  const results = [];
  const sendNext = async () => {
    for (let row = waiting.shift(); row; row = waiting.shift()) results.push(await sendRow(row, button));
  };
  button.disabled = true;
  await Promise.all([sendNext(), sendNext(), sendNext(), sendNext()]);
  button.disabled = false;
  const succeeded = results.filter((result) => result.ok).length;
  showOutcomes(form, { results, succeeded, failed: results.length - succeeded });
}

async function sendRow(row, button) {
  const { id, version } = row.dataset;
  const [method, path] = button.dataset.each.split(" ");
  const [name, source] = (button.dataset.append || "").split(" ");
  const added = source ? readField(document.querySelector(source)) : [];
  const body = name ? { [name]: [...new Set([...JSON.parse(row.dataset[name]), ...added])] } : null;
  try {
    const response = await callApi(method, fillIn(path, { id }), body, version ? { "If-Match": `"${version}"` } : {});
    if (response.ok) return { id, ok: true, state: button.dataset.becomes, item: name ? (await response.json()).item : null };
    const problem = await response.json().catch(() => ({}));
    return { id, ok: false, error: response.status === 401 ? page.lost : problem.detail, code: problem.code };
  } catch (error) {
    return { id, ok: false, error: page.offline, code: "unavailable" };
  }
}

// A batch has a result for each row: those that succeeded leave, or tell their new state; the others say why not.
function showOutcomes(form, reply) {
  for (const result of reply.results) {
    const row = form.querySelector(`[data-id="${CSS.escape(result.id)}"]`);
    const place = row.querySelector("[data-outcome]");
    if (result.item) {
      place.hidden = true;
      row.dispatchEvent(new CustomEvent("row-changed", { detail: result.item, bubbles: true }));
      continue;
    }
    if (result.ok && result.state) {
      place.hidden = true;
      row.querySelector("[data-state]").textContent = result.state;
      row.querySelector('input[name="ids"]').checked = false;
      continue;
    }
    if (result.ok) { removeRow(row); continue; }
    place.textContent = `${result.error} (${result.code})`;
    place.hidden = false;
  }
  const place = form.querySelector("[data-result]");
  place.textContent = form.dataset.done.replace("{succeeded}", reply.succeeded).replace("{failed}", reply.failed);
  place.hidden = false;
}

// A table or group without rows goes with its last one.
function removeRow(row) {
  const parts = [row.closest("table"), row.closest(".group")];
  row.remove();
  for (const part of parts) if (part !== null && part.querySelector("[data-id]") === null) part.remove();
}

// After a conflict the form holds the version that the server has, so that a second, deliberate save succeeds. A form
// with data-theirs shows what changed since its data-base, and takes over the fields that were not touched.
async function takeOverVersion(form, path) {
  const current = await callApi("GET", path, null);
  if (!current.ok) return;
  const item = await current.json();
  form.dataset.match = item.version;
  if (!form.dataset.theirs) return;
  for (const field of form.elements) if (field.name in item) takeOverField(field, item[field.name]);
  if (form.dataset.draft) keepDraft(form);
  await showTheirs(form);
}

function takeOverField(field, value) {
  const text = Array.isArray(value) ? value.join(", ") : String(value ?? "");
  const untouched = field.value === field.defaultValue;
  field.defaultValue = text;
  if (untouched) field.value = text;
}

async function showTheirs(form) {
  const response = await callApi("GET", `${form.dataset.theirs}?from=${form.dataset.base}`, null);
  if (response.ok) form.querySelector("[data-changes]").innerHTML = await response.text();
}

// Drafts belong to their key: who logs in with another one in this browser does not get them. A draft keeps the version that
// it was written on, to tell what somebody else changed meanwhile.
const drafts = `skillbus draft ${page.caller} `;
const draftKey = (form) => `${drafts}${page.project} ${form.dataset.draft}`;

// Only what was changed is kept, with the version that it began with: the rest may change meanwhile.
function keepDraft(form) {
  const changed = [...form.elements].filter((field) => field.name && field.value !== field.defaultValue);
  if (changed.length === 0) { forgetDraft(form); return; }
  const fields = Object.fromEntries(changed.map((field) => [field.name, field.value]));
  localStorage.setItem(draftKey(form), JSON.stringify({ base: form.dataset.base, fields }));
}

function forgetDraft(form) {
  if (form.dataset.draft) localStorage.removeItem(draftKey(form));
}

function restoreDraft(form) {
  const kept = localStorage.getItem(draftKey(form));
  if (kept === null) return;
  const { base, fields } = JSON.parse(kept);
  for (const [name, value] of Object.entries(fields || {})) {
    if (form.elements[name]) form.elements[name].value = value;
  }
  if (base && base !== form.dataset.base) {
    form.dataset.base = base;
    showError(form, form.dataset.conflict);
    showTheirs(form);
  }
  const note = form.querySelector("[data-restored]");
  note.hidden = false;
  note.querySelector("[data-discard]").addEventListener("click", () => { forgetDraft(form); location.reload(); });
}

async function showPreview(area) {
  const response = await callApi("POST", "/knowledge/preview", { content: area.value });
  if (response.ok) document.querySelector(area.dataset.preview).innerHTML = await response.text();
}

function formatSelection(button) {
  const area = button.closest("fieldset").querySelector("textarea");
  const { selectionStart: start, selectionEnd: end, value } = area;
  const chosen = value.slice(start, end);
  if (button.dataset.wrap !== undefined) {
    area.setRangeText(`${button.dataset.wrap}${chosen}${button.dataset.wrap}`, start, end, "end");
  } else if (button.dataset.line !== undefined) {
    const from = value.lastIndexOf("\n", start - 1) + 1;
    const lines = value.slice(from, end).split("\n").map((line) => button.dataset.line + line);
    area.setRangeText(lines.join("\n"), from, end, "end");
  } else {
    area.setRangeText(`[${chosen || "…"}](https://)`, start, end, "end");
  }
  area.focus();
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  if (!event.target.dataset.api && !(event.submitter && event.submitter.dataset.each)) {
    // An empty filter is no filter: it stays out of the address.
    for (const field of event.target.elements) if (field.name && field.value === "") field.disabled = true;
    return;
  }
  event.preventDefault();
  submitForm(event.target, event.submitter);
});

document.addEventListener("change", (event) => {
  if (event.target.dataset.all === undefined) return;
  // Of the whole form, or of the nearest element that data-all names.
  const part = event.target.dataset.all ? event.target.closest(event.target.dataset.all) : event.target.form;
  for (const box of part.querySelectorAll('input[type="checkbox"]')) box.checked = event.target.checked;
});

// Keys of a page press the button that shows them, unless somebody types.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const key = event.key.toLowerCase();
  const button = document.querySelector(`button[data-key="${CSS.escape(key)}"]`);
  if (button !== null) button.click();
  const details = document.querySelector("form[data-review] details");
  if (key === "e" && details !== null) { details.open = true; details.querySelector("textarea").focus(); event.preventDefault(); }
});

// The link of a login that a page has opened: this request is no navigation, so that no link of a text can do the same.
async function confirmLogin(button) {
  const response = await fetch(button.dataset.login, { redirect: "manual" });
  if (response.type === "opaqueredirect") { location.assign(button.dataset.next); return; }
  const told = new DOMParser().parseFromString(await response.text(), "text/html");
  document.querySelector("main").replaceWith(told.querySelector("main"));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button === null) return;
  if (button.dataset.login) confirmLogin(button).catch(() => showError(document.body, page.offline));
  if (button.matches("[data-wrap], [data-line], [data-link]")) formatSelection(button);
  if (button.dataset.copied) copyText(button);
  if (button.dataset.language) {
    document.cookie = `skillbus-language=${button.dataset.language}; path=/; max-age=31536000; samesite=lax`;
    location.reload();
  }
  if (button.dataset.logout !== undefined) {
    Object.keys(localStorage).filter((key) => key.startsWith(drafts)).forEach((key) => localStorage.removeItem(key));
    callApi("DELETE", "/api/session", null).finally(() => location.assign("/login"));
  }
});

/** Shows times of UTC in the zone of the browser; their titles name UTC. Days without a time stay. */
function showLocalTimes(part) {
  for (const shown of part.querySelectorAll("time[datetime]:not([title])")) {
    const at = new Date(shown.dateTime);
    const text = shown.textContent.trim();
    if (!/^\d{4}-\d\d-\d\d \d\d:\d\d/.test(text) || Number.isNaN(at.getTime())) continue;
    shown.title = `${text} UTC`;
    const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
    shown.textContent = local.toISOString().replace("T", " ").slice(0, text.length);
  }
}
showLocalTimes(document);
document.addEventListener("htmx:load", (event) => showLocalTimes(event.target));

document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CSRF-Token"] = page.csrf;
  for (const [name, value] of [...event.detail.formData.entries()]) {
    if (value === "") event.detail.formData.delete(name);
  }
});
document.addEventListener("htmx:responseError", (event) => {
  const { status, responseText } = event.detail.xhr;
  showError(document.body, status === 401 ? page.lost : responseText.slice(0, 500));
});
document.addEventListener("htmx:sendError", () => showError(document.body, page.offline));

window.addEventListener("pagehide", () => {
  for (const text of document.querySelectorAll("[data-revealed] output")) text.textContent = "";
});
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[method=get] [disabled]")) field.disabled = false;
});
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form[data-draft]")) {
    restoreDraft(form);
    form.addEventListener("input", () => keepDraft(form));
  }
  for (const area of document.querySelectorAll("textarea[data-preview]")) {
    let waiting = null;
    area.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => showPreview(area), 250);
    });
    if (area.value) showPreview(area);
  }
});
