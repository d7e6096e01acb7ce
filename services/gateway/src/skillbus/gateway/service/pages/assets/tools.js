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

async function callTool(form) {
  const output = form.querySelector("[data-output]");
  form.querySelector("[data-error]").hidden = true;
  let given;
  try {
    given = readArguments(form);
  } catch (error) {
    showError(form, form.dataset.invalid);
    return;
  }
  const body = { arguments: given, ...(form.dataset.action ? { action: form.dataset.action } : {}) };
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const response = await callApi("POST", form.dataset.try, body);
    if (!response.ok) { showError(form, await explainRefusal(form, response)); return; }
    const reply = await response.json();
    output.replaceChildren();
    if (reply.is_error) showError(form, form.dataset.failed);
    for (const part of reply.content) showPart(output, part);
    if (reply.structured != null) showPart(output, { text: JSON.stringify(reply.structured, null, 2) });
    output.hidden = false;
  } catch (error) {
    showError(form, page.offline);
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.try) return;
  event.preventDefault();
  callTool(event.target);
}, { capture: true });
