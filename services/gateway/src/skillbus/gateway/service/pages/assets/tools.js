"use strict";
// Calls a tool with the arguments of a form, and shows its answer as text: nothing of it becomes markup.

function readArguments(form) {
  const given = {};
  for (const field of form.querySelectorAll("[data-argument]")) {
    if (field.value === "") continue;
    const { argument, kind } = field.dataset;
    given[argument] = kind === "string" ? field.value : kind === "number" ? Number(field.value)
      : kind === "boolean" ? field.value === "true" : JSON.parse(field.value);
  }
  return given;
}

function showPart(place, part) {
  const link = typeof part.uri === "string" && part.uri.startsWith("/api/");
  const shown = document.createElement(link ? "a" : "pre");
  if (link) shown.href = part.uri;
  shown.textContent = link ? part.name || part.uri : part.text ?? JSON.stringify(part, null, 2);
  place.append(shown);
}

// Reads the server-sent events of a reply that is a stream.
async function readEvents(response, handle) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const name = /^event: (.*)$/m.exec(rest.slice(0, end));
      const data = /^data: (.*)$/m.exec(rest.slice(0, end));
      rest = rest.slice(end + 2);
      if (name && data) handle(name[1], JSON.parse(data[1]));
    }
  }
}

const PRINTED_CHARACTERS = 100000;

function showReply(form, reply) {
  const output = form.querySelector("[data-output]");
  if (reply.is_error) showError(form, form.dataset.failed);
  for (const part of reply.content) showPart(output, part);
  if (reply.structured != null) showPart(output, { text: JSON.stringify(reply.structured, null, 2) });
  output.hidden = false;
}

function showEvent(form, name, data) {
  const printed = form.querySelector("[data-printed]");
  if (name === "begun") {
    const begun = form.querySelector("[data-begun]");
    begun.querySelector("a").href = fillIn(form.dataset.run, data);
    begun.hidden = false;
  } else if (name === "output") {
    printed.textContent = (printed.textContent + data.text).slice(-PRINTED_CHARACTERS);
    printed.scrollTop = printed.scrollHeight;
    printed.hidden = false;
  } else if (name === "reply") {
    printed.hidden = true;
    showReply(form, data);
  } else if (name === "error") {
    showError(form, `${data.detail} (${data.code})`);
  }
}

async function callTool(form) {
  const output = form.querySelector("[data-output]");
  for (const part of ["error", "begun", "printed", "output"]) form.querySelector(`[data-${part}]`).hidden = true;
  form.querySelector("[data-printed]").textContent = "";
  output.replaceChildren();
  let given;
  try {
    given = readArguments(form);
  } catch (error) {
    showError(form, form.dataset.invalid);
    return;
  }
  const body = { arguments: given, ...(form.dataset.action ? { action: form.dataset.action } : {}) };
  const button = form.querySelector("button");
  const cancel = form.querySelector("[data-cancel]");
  const leaving = new AbortController();
  cancel.onclick = () => leaving.abort();
  button.disabled = true;
  cancel.hidden = false;
  try {
    const response = await callApi("POST", form.dataset.try, body, { Accept: "text/event-stream" }, leaving.signal);
    if (!response.ok) { showError(form, await explainRefusal(form, response)); return; }
    let ended = false;
    await readEvents(response, (name, data) => {
      ended = ended || name === "reply" || name === "error";
      showEvent(form, name, data);
    });
    if (!ended) showError(form, page.offline);
  } catch (error) {
    showError(form, leaving.signal.aborted ? form.dataset.cancelled : page.offline);
  } finally {
    button.disabled = false;
    cancel.hidden = true;
  }
}

// Enables or disables the chosen tools one after the other; each row shows its result.
async function changeChosen(form, action) {
  const chosen = [...form.querySelectorAll('input[name="ids"]:checked')];
  form.querySelector("[data-error]").hidden = true;
  if (chosen.length === 0) { showError(form, form.dataset.none); return; }
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach((button) => { button.disabled = true; });
  let succeeded = 0;
  for (const box of chosen) {
    const row = box.closest("[data-id]");
    const outcome = row.querySelector("[data-outcome]");
    const path = `${form.dataset.each}/${encodeURIComponent(box.value)}/${action}`;
    const response = await callApi("POST", path, null).catch(() => null);
    const done = response !== null && response.ok;
    outcome.hidden = done;
    if (done) {
      succeeded += 1;
      row.querySelector("[data-state]").textContent = form.dataset[action];
      box.checked = false;
    } else {
      outcome.textContent = response === null ? page.offline : await explainRefusal(form, response);
    }
  }
  buttons.forEach((button) => { button.disabled = false; });
  const place = form.querySelector("[data-result]");
  place.textContent = form.dataset.done.replace("{succeeded}", succeeded).replace("{failed}", chosen.length - succeeded);
  place.hidden = false;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.try && !form.dataset.each) return;
  event.preventDefault();
  event.stopPropagation();
  if (form.dataset.try) callTool(form);
  else if (event.submitter) changeChosen(form, event.submitter.value);
}, { capture: true });
