"use strict";
// Shows one turn of a chat: its text, its calls of tools, and its end. Texts of models and tools are shown as text; Markdown
// becomes markup by the server alone, without HTML.

const words = document.getElementById("words").dataset;
const CITED = /\[(K-[A-Za-z0-9-]{1,64} v\d{1,9})\]/g;

function cloneTemplate(name) {
  return document.querySelector(`template[${name}]`).content.firstElementChild.cloneNode(true);
}

function writeDuration(milliseconds) {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

// A program is shown as it was written.
function writeArguments({ id, arguments: given = {} }) {
  const { code, ...rest } = given;
  if (id !== "builtin:run_code" || typeof code !== "string") return JSON.stringify(given, null, 2);
  return Object.keys(rest).length ? `${code}\n\n${JSON.stringify(rest, null, 2)}` : code;
}

class CallView {
  constructor(call) {
    this.root = cloneTemplate("data-call");
    this.find("tool").textContent = call.action ? `${call.id} · ${call.action}` : call.id;
    this.show("given", writeArguments(call));
    this.setState("running");
  }

  find(name) { return this.root.querySelector(`[data-${name}]`); }

  show(name, text) {
    this.find(name).textContent = text;
    this.find(`${name}-part`).hidden = text === "" || text === "{}";
  }

  setState(state) {
    const tag = this.find("state");
    tag.textContent = words[state];
    tag.classList.toggle("error", state === "error" || state === "denied" || state === "expired");
    tag.classList.toggle("good", state === "ok");
    tag.classList.toggle("waiting", state === "waiting");
  }

  end(call) {
    this.setState(call.is_error ? "error" : "ok");
    this.find("took").textContent = writeDuration(call.duration_ms || 0);
    this.show("result", call.text || "");
    this.find("findings").hidden = !(call.findings || []).length;
    this.find("approval").hidden = true;
    const left = (call.program_calls || 0) - this.find("calls").children.length;
    this.find("more").hidden = left <= 0;
    this.find("more").textContent = fillText(words.more, { left });
  }

  ask(approval, decide) {
    const place = this.find("approval");
    this.show("given", writeArguments(approval));
    this.find("reason").textContent = approval.reason;
    this.setState("waiting");
    for (let part = this.root; part; part = part.parentElement.closest("details")) part.open = true;
    place.hidden = false;
    for (const button of place.querySelectorAll("[data-decide]")) {
      button.onclick = () => decide(approval.call_id, button.dataset.decide === "true", place);
    }
  }

  settle(outcome) {
    this.find("approval").hidden = true;
    this.setState(outcome === "approved" ? "running" : outcome);
  }

  add(child) {
    const list = this.find("calls");
    // It opens once, so that a reader who has closed it is left in peace.
    if (list.hidden) this.root.open = true;
    list.hidden = false;
    const item = document.createElement("li");
    item.append(child.root);
    list.append(item);
  }
}

// A turn is drawn from its record alone, so that it looks the same after a reload.
class TurnView {
  constructor(turn, handlers) {
    this.turn = turn;
    this.handlers = handlers;
    this.root = cloneTemplate("data-turn");
    this.find("question").textContent = turn.question;
    this.find("cancel").onclick = () => handlers.cancel(this);
    this.find("again").onclick = () => handlers.again(this);
    this.draw();
  }

  find(name) { return this.root.querySelector(`[data-${name}]`); }

  draw() {
    this.calls = new Map();
    this.text = null;
    this.find("parts").replaceChildren();
    for (const event of this.turn.events) this.drawEvent(event);
    this.drawEnd();
  }

  begin() {
    Object.assign(this.turn, { events: [], state: "running", error: null, end: null, usage: null });
    this.draw();
  }

  take(event) {
    const last = this.turn.events.at(-1);
    if (event.kind === "text" && last && last.kind === "text") last.text += event.text;
    else this.turn.events.push({ ...event });
    this.drawEvent(event);
  }

  drawEvent(event) {
    if (event.kind === "text") { this.drawText(event.text); return; }
    if (event.kind === "calling") { this.openCall(event.call); return; }
    if (event.kind === "called") { this.openCall(event.call).end(event.call); return; }
    if (event.kind === "step") {
      for (const call of event.step.calls || []) if (!this.calls.has(call.call_id)) this.openCall(call).end(call);
      return;
    }
    const approval = event.approval;
    const view = this.openCall(approval);
    if (event.kind === "approval_required") view.ask(approval, this.handlers.decide.bind(null, this));
    else view.settle(approval.outcome);
  }

  openCall(call) {
    const known = this.calls.get(call.call_id);
    if (known) return known;
    const view = new CallView(call);
    this.calls.set(call.call_id, view);
    const program = this.calls.get(call.program_call_id);
    if (program) program.add(view); else this.find("parts").append(view.root);
    this.text = null;
    return view;
  }

  drawText(text) {
    if (this.text === null) {
      this.text = document.createElement("div");
      this.text.className = "plain-text";
      this.find("parts").append(this.text);
    }
    this.text.append(text);
  }

  drawEnd() {
    const { state, error, end, usage } = this.turn;
    const running = state === "running";
    this.find("busy").hidden = this.find("cancel").hidden = !running;
    this.find("again").hidden = running || state === "done";
    this.find("setup").hidden = !(error && error.code === "model_unavailable");
    this.find("failed").hidden = !error;
    this.find("failed").textContent = error ? [error.message, error.code && `(${error.code})`].filter(Boolean).join(" ") : "";
    this.find("usage").hidden = !end;
    if (end) this.find("usage").textContent = describeUsage(end, usage);
    if (state === "done") for (const part of this.root.querySelectorAll(".plain-text")) rendered.observe(part);
    if (!running) {
      this.calls.forEach((call) => { call.find("approval").hidden = true; });
      for (const part of this.root.querySelectorAll(".plain-text")) part.citations = (end && end.citations) || [];
    }
  }
}

function describeUsage(end, usage) {
  const { model = "", steps = 0, tool_calls: calls = 0, disclosure, limit } = end;
  const tokens = usage ? usage.total_tokens : 0;
  const parts = [fillText(words.usage, { model, steps, calls, tokens })];
  if (disclosure && disclosure.all_tokens) {
    const saved = Math.round(1000 * (1 - disclosure.shown_tokens / disclosure.all_tokens)) / 10;
    parts.push(fillText(words.saved, { shown: disclosure.shown_tools, all: disclosure.all_tools, saved }));
  }
  if (limit) parts.push(fillText(words.limit, { limit }));
  return parts.join(" · ");
}

// Markdown of an answer is rendered when somebody sees it.
const rendered = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    rendered.unobserve(target);
    renderAnswer(target);
  }
});

async function renderAnswer(part) {
  const response = await callApi("POST", "/knowledge/preview", { content: part.textContent }).catch(() => ({}));
  if (response.ok) {
    part.innerHTML = await response.text();
    part.className = "markdown";
  }
  linkCitations(part);
}

function linkCitations(part) {
  const known = new Map(part.citations.map((citation) => [citation.label, citation.item_id]));
  const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest("a, code, pre")) texts.push(walker.currentNode);
  for (const text of texts) {
    const pieces = text.data.split(CITED);
    if (pieces.length === 1) continue;
    text.replaceWith(...pieces.map((piece, at) => (at % 2 ? makeCitation(piece, known.get(piece)) : piece)));
  }
}

function makeCitation(label, item) {
  const shown = document.createElement(item ? "a" : "span");
  shown.className = item ? "cited" : "cited unchecked";
  shown.dataset.testid = item ? "citation" : "unchecked-citation";
  shown.textContent = `[${label.length > 20 ? `${label.slice(0, 10)}… ${label.split(" ")[1]}` : label}]`;
  shown.title = item ? label : words.unchecked;
  if (item) {
    const address = new URL(words.item, location.href);
    address.pathname += encodeURIComponent(item);
    shown.href = address.href;
  } else {
    shown.append(" ?");
  }
  return shown;
}
