"use strict";
// Chats of this browser: kept as drafts are, for one key and project; asked, followed and cancelled by the REST API.

const CHATS = `${drafts}${page.project} chat `;
const OPTIONS = `${drafts}${page.project} options-of-chats`;
const TAB = `skillbus chat ${page.caller} ${page.project}`;
const MOST_CHATS = 30;
const chatForm = document.querySelector("form[data-chat]");
const turnList = document.querySelector("[data-turns]");
let chat = null;

function listChats() {
  const found = Object.keys(localStorage).filter((key) => key.startsWith(CHATS)).map((key) => JSON.parse(localStorage.getItem(key)));
  return found.sort((one, other) => other.at - one.at);
}

function makeId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function keepChat(kept) {
  const store = () => localStorage.setItem(CHATS + kept.id, JSON.stringify(kept));
  try {
    store();
  } catch (error) {
    // The browser's room is full: the oldest chats make place.
    for (const old of listChats().filter((one) => one.id !== kept.id).slice(-5)) localStorage.removeItem(CHATS + old.id);
    try { store(); } catch (again) { showError(document.body, again.message); }
  }
}

function showChoice() {
  const chats = listChats();
  for (const old of chats.slice(MOST_CHATS)) localStorage.removeItem(CHATS + old.id);
  if (!chats.some((one) => one.id === chat.id)) chats.unshift(chat);
  const select = document.querySelector("[data-chats]");
  select.replaceChildren(...chats.map((one) => {
    const title = one.turns.length ? one.turns[0].question : words.untitled;
    return new Option(title.length > 40 ? `${title.slice(0, 40)}…` : title, one.id, false, one.id === chat.id);
  }));
  document.querySelector("[data-choice]").hidden = chats.length < 2;
  document.querySelector("[data-remove]").hidden = !chat.turns.length;
}

function openChat(opened) {
  chat = opened || { id: makeId(), at: Date.now(), turns: [], typed: "" };
  sessionStorage.setItem(TAB, chat.id);
  turnList.replaceChildren();
  for (const turn of chat.turns) addTurn(chat, turn);
  if (chatForm) chatForm.elements.question.value = chat.typed || "";
  showChoice();
  setBusy();
}

function addTurn(owner, turn) {
  const view = new TurnView(turn, { cancel: cancelTurn, again: repeatTurn, decide: decideCall });
  view.chat = owner;
  turnList.append(view.root);
  if (turn.state === "running") followTurn(view);
  return view;
}

function setBusy() {
  if (chatForm) chatForm.querySelector("[data-testid=send]").disabled = chat.turns.some((turn) => turn.state === "running");
}

function readOptions() {
  const { tools, programs, knowledge, scope } = chatForm.elements;
  return {
    events: true,
    disclose: tools.checked,
    tools: programs.checked ? ["builtin:run_code"] : [],
    ...(knowledge.checked ? { knowledge: scope.value.trim() ? { scope: scope.value.trim() } : {} } : {}),
  };
}

function listMessages(owner, turn) {
  const messages = [];
  for (const one of owner.turns.slice(0, owner.turns.indexOf(turn))) {
    const text = one.events.filter((event) => event.kind === "text").map((event) => event.text).join("\n\n");
    if (one.state === "done" && text) messages.push({ role: "user", content: one.question }, { role: "assistant", content: text });
  }
  return [...messages, { role: "user", content: turn.question }];
}

function askTurn(view) {
  const { turn, chat: owner } = view;
  turn.id = makeId();
  view.begin();
  keepChat(owner);
  setBusy();
  const body = {
    model: turn.model,
    messages: listMessages(owner, turn),
    stream: true,
    stream_options: { include_usage: true },
    metadata: { skillbus: { ...turn.options, turn_id: turn.id } },
  };
  return readTurn(view, () => callApi("POST", "/v1/chat/completions", body));
}

function followTurn(view) {
  view.begin();
  return readTurn(view, () => callApi("GET", `/v1/chat/runs/${view.turn.id}`, null));
}

async function readTurn(view, request) {
  const { turn } = view;
  try {
    const response = await request();
    if (!response.ok) { await failTurn(view, response); return; }
    for await (const { data } of readEvents(response)) takeChunk(view, data);
    if (turn.state === "running") endTurn(view, "broken", { message: words.broken });
  } catch (error) {
    endTurn(view, "broken", { message: words.broken });
  }
}

function takeChunk(view, chunk) {
  const { turn } = view;
  if (chunk.error) { endFailed(view, chunk.error); return; }
  const [choice] = chunk.choices || [];
  if (chunk.usage) turn.usage = chunk.usage;
  if (choice && choice.delta.content) view.take({ kind: "text", text: choice.delta.content });
  const about = chunk.skillbus;
  if (about && about.kind) {
    view.take(about);
    // Calls of programs come by the hundred; what follows them stores them.
    if (!about.call || !about.call.program_call_id) keepChat(view.chat);
  }
  if (choice && choice.finish_reason) turn.end = { ...about, model: (about && about.model) || chunk.model };
  // The usage comes after the end, if it comes.
  if (turn.end && (choice === undefined || turn.state === "done")) endTurn(view, "done", null);
}

function endTurn(view, state, error) {
  Object.assign(view.turn, { state, error });
  view.drawEnd();
  keepChat(view.chat);
  setBusy();
}

function endFailed(view, error) {
  const cancelled = error.code === "cancelled";
  endTurn(view, cancelled ? "cancelled" : "failed", cancelled ? { message: words.cancelled } : error);
}

async function failTurn(view, response) {
  if (response.status === 401) { endTurn(view, "failed", { message: words.lost }); return; }
  const { error, detail, code } = await response.json().catch(() => ({}));
  endFailed(view, error || { message: detail || response.statusText, code });
}

// A turn that was asked a moment ago may not have begun. Nothing ends then, and it is cancelled once more.
async function cancelTurn(view) {
  const button = view.find("cancel");
  button.disabled = true;
  while (view.turn.state === "running" && !(await tryToCancel(view.turn.id))) {
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  button.disabled = false;
}

async function tryToCancel(id) {
  const response = await callApi("DELETE", `/v1/chat/runs/${id}`, null).catch(() => null);
  return response === null || !response.ok || (await response.json()).ending;
}

// A turn whose connection broke is still there; any other one is asked anew.
function repeatTurn(view) {
  return view.turn.state === "broken" ? followTurn(view) : askTurn(view);
}

async function decideCall(view, call, approved, place) {
  const buttons = place.querySelectorAll("button");
  const error = place.querySelector("[data-error]");
  buttons.forEach((button) => { button.disabled = true; });
  error.hidden = true;
  try {
    const response = await callApi("POST", `/v1/chat/runs/${view.turn.id}/approve`, { decisions: [{ call_id: call, approved }] });
    if (!response.ok) {
      const { error: told = {} } = await response.json().catch(() => ({}));
      throw new Error(told.message ? `${told.message} (${told.code})` : response.status === 401 ? words.lost : response.statusText);
    }
  } catch (problem) {
    error.textContent = problem instanceof TypeError ? page.offline : problem.message;
    error.hidden = false;
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

function restoreOptions() {
  const kept = JSON.parse(localStorage.getItem(OPTIONS) || "{}");
  for (const [name, value] of Object.entries(kept)) {
    const field = chatForm.elements[name];
    if (!field) continue;
    if (field.type === "checkbox") field.checked = value;
    else if (field.tagName !== "SELECT" || [...field.options].some((option) => option.value === value)) field.value = value;
  }
}

function keepOptions() {
  const { model, tools, programs, knowledge, scope } = chatForm.elements;
  const kept = { model: model.value, tools: tools.checked, programs: programs.checked, knowledge: knowledge.checked, scope: scope.value };
  localStorage.setItem(OPTIONS, JSON.stringify(kept));
}

// A provider, a model of it, and a test. What exists already is changed, so that a second attempt mends the first.
async function addModel(form) {
  const { kind, base_url: address, model, provider, api_key: key } = form.elements;
  const settings = { base_url: address.value.trim() || null, api_key: key.value.trim() || null };
  const name = provider.value.trim();
  const send = async (method, path, body) => {
    const response = await callApi(method, path, body);
    if (response.ok || (response.status === 409 && method === "POST")) return response;
    throw new Error(await explainRefusal(form, response));
  };
  const made = await send("POST", "/api/embedding/providers", { name, kind: kind.value, ...settings });
  if (made.status === 409) await send("PATCH", `/api/embedding/providers/${name}`, { base_url: settings.base_url || "", api_key: settings.api_key || "" });
  await send("POST", "/api/embedding/models", { provider: name, name: model.value, kind: "chat" });
  const id = `${name}/${model.value}`.split("/").map(encodeURIComponent).join("/");
  const tested = await (await send("POST", `/api/embedding/models/${id}/test`, null)).json();
  if (!tested.ok) throw new Error(tested.error);
}

document.addEventListener("submit", (event) => {
  if (event.target === chatForm) {
    event.preventDefault();
    const { question, model } = chatForm.elements;
    if (!question.value.trim() || chatForm.querySelector("[data-testid=send]").disabled) return;
    const turn = { id: "", question: question.value, model: model.value, options: readOptions(), events: [], state: "new" };
    chat.turns.push(turn);
    Object.assign(chat, { at: Date.now(), typed: "" });
    question.value = "";
    const view = addTurn(chat, turn);
    askTurn(view);
    showChoice();
    view.root.scrollIntoView({ block: "start", behavior: "smooth" });
  } else if (event.target.dataset.addModel !== undefined) {
    event.preventDefault();
    const button = event.target.querySelector("button");
    button.disabled = true;
    addModel(event.target)
      .then(() => location.reload(), (error) => showError(event.target, error instanceof TypeError ? page.offline : error.message))
      .finally(() => { button.disabled = false; });
  }
}, { capture: true });

if (chatForm) {
  restoreOptions();
  const question = chatForm.elements.question;
  question.addEventListener("input", () => {
    chat.typed = question.value;
    keepChat(chat);
  });
  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) chatForm.requestSubmit();
  });
  chatForm.addEventListener("change", keepOptions);
}
document.querySelector("[data-chats]").addEventListener("change", (event) => {
  openChat(listChats().find((one) => one.id === event.target.value));
});
document.querySelector("[data-new]").addEventListener("click", () => openChat(null));
document.querySelector("[data-remove]").addEventListener("click", (event) => {
  if (!confirm(event.target.dataset.confirm)) return;
  localStorage.removeItem(CHATS + chat.id);
  openChat(listChats()[0]);
});
const kindOfProvider = document.querySelector("[data-add-model] select[name=kind]");
if (kindOfProvider) {
  kindOfProvider.addEventListener("change", () => {
    const { base_url: address, model, provider, api_key: key } = kindOfProvider.form.elements;
    const example = kindOfProvider.selectedOptions[0].dataset;
    provider.value = kindOfProvider.value;
    address.placeholder = example.address;
    model.placeholder = example.model;
    key.placeholder = example.key;
  });
}
const known = listChats();
openChat(known.find((one) => one.id === sessionStorage.getItem(TAB)) || known[0]);
