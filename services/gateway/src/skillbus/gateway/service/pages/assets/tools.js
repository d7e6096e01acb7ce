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
    for await (const { name, data } of readEvents(response)) {
      ended = ended || name === "reply" || name === "error";
      showEvent(form, name, data);
    }
    if (!ended) showError(form, page.offline);
  } catch (error) {
    showError(form, leaving.signal.aborted ? form.dataset.cancelled : page.offline);
  } finally {
    button.disabled = false;
    cancel.hidden = true;
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.try) return;
  event.preventDefault();
  callTool(form);
}, { capture: true });
