// Runs a Node program that a model wrote, with its tools: see program_python.py, whose frames and limits are the same.
//
//     skillbus_program.cjs <calls> <bytes> <frame bytes> <calls at once>
//
// The program, `/in/program.js`, becomes the body of an async function, so that `await` works at its top level. The value
// of its last expression, or what it returns, is the answer.
"use strict";
const fs = require("fs");
const net = require("net");
const util = require("util");
const vm = require("vm");
const { createRequire } = require("module");

const PROGRAM = "/in/program.js";
const ANSWER = "/work/out/.skillbus-answer.json";
const CHANNEL = 3;
const ANSWER_BYTES = 256 * 1024; // A larger answer is printed.
const ANSWER_NESTING = 100; // A deeper answer is printed: the service refuses it.
const UNSETTLED = 13; // Exit code of a program that waits for what cannot come, as Node's own.
const SPLITS_MAX = 300; // Places at which the last expression may begin that are tried.
const COMMENT_MAX = 2000; // Characters before the last expression in which the end of a statement is looked for.
const HEAD = "(async () => {";
const TAIL = "\n})";

class ToolError extends Error {
  // A tool was not called: `code` and `message` say why. A tool that fails gives a result with `is_error`.
  constructor(code, message) {
    super(message);
    this.name = "ToolError";
    this.code = code;
  }
}

// The program's end of the tool channel. Node hands it to no child: at its start it closes what it has inherited to them.
class Channel {
  constructor(calls, size, frame, atOnce) {
    Object.assign(this, { calls, size, frame, atOnce, leftCalls: calls, leftBytes: size, number: 0 });
    this.pending = new Map();
    this.queue = [];
    this.received = Buffer.alloc(0);
    this.closed = null;
    this.socket = new net.Socket({ fd: CHANNEL, readable: true, writable: true });
    this.socket.on("data", (chunk) => this.receive(chunk));
    this.socket.on("error", () => this.close());
    this.socket.on("close", () => this.close());
    this.socket.unref(); // a program ends when it waits for nothing
  }

  async request(method, fields) {
    const body = Buffer.from(JSON.stringify({ method, ...fields }));
    while (this.pending.size >= this.atOnce) await new Promise((resolve) => this.queue.push(resolve));
    let sent;
    try {
      sent = this.send(body);
    } catch (error) {
      this.wake();
      throw error;
    }
    const reply = JSON.parse(await sent);
    if (reply.error) throw new ToolError(reply.error.code, reply.error.message);
    return reply.result;
  }

  send(body) {
    if (this.closed) throw this.closed;
    if (body.length > this.frame)
      throw new ToolError("payload_too_large", `the arguments have ${body.length} bytes, over ${this.frame}`);
    if (this.leftCalls < 1) throw new ToolError("limit", `a program may make ${this.calls} tool calls`);
    if (this.leftBytes < body.length)
      throw new ToolError("limit", `all requests of a program may take ${this.size} bytes`);
    this.leftCalls -= 1;
    this.leftBytes -= body.length;
    this.number += 1;
    const head = Buffer.alloc(8);
    head.writeUInt32BE(body.length, 0);
    head.writeUInt32BE(this.number, 4);
    const reply = new Promise((resolve, reject) => this.pending.set(this.number, { resolve, reject }));
    this.socket.ref();
    this.socket.write(Buffer.concat([head, body]));
    return reply;
  }

  receive(chunk) {
    this.received = this.received.length ? Buffer.concat([this.received, chunk]) : chunk;
    while (this.received.length >= 8 && this.received.length >= 8 + this.received.readUInt32BE(0)) {
      const end = 8 + this.received.readUInt32BE(0);
      const number = this.received.readUInt32BE(4);
      const waiting = this.pending.get(number);
      this.pending.delete(number);
      waiting.resolve(this.received.toString("utf8", 8, end));
      this.received = this.received.subarray(end);
    }
    if (this.pending.size === 0) this.socket.unref();
    this.wake();
  }

  // Let as many requests go on as there are free places. One that then does not send has to call this.
  wake() {
    for (const resolve of this.queue.splice(0, this.atOnce - this.pending.size)) resolve();
  }

  close() {
    this.closed = new Error("the tool channel is closed");
    for (const { reject } of this.pending.values()) reject(this.closed);
    this.pending.clear();
    this.wake();
  }
}

function defineFunctions(channel) {
  globalThis.ToolError = ToolError;
  globalThis.call_tool = (id, args = {}, action = null) =>
    channel.request("call_tool", { id, action, arguments: args });
  globalThis.search_tools = async (query, options = {}) => {
    const found = await globalThis.call_tool("builtin:search_tools", { query, ...options });
    if (found.is_error) throw new ToolError("search_failed", JSON.stringify(found.content));
    return found.structured.results;
  };
  globalThis.tool_schema = (id) => channel.request("tool_schema", { id });
}

function compiles(source) {
  try {
    new vm.Script(source);
    return true;
  } catch {
    return false;
  }
}

// Return where the last expression of a program begins, or -1. Node's own parser judges each place that comes into
// question: what follows has to be an expression, and what precedes it whole statements. The first such place is taken.
function findLastExpression(source) {
  let found = -1;
  let at = source.length;
  for (let tried = 0; tried < SPLITS_MAX && at > 0; tried += 1) {
    at = Math.max(source.lastIndexOf("\n", at - 2), source.lastIndexOf(";", at - 2)) + 1;
    if (isExpression(source.slice(at)) && isWhole(source.slice(0, at), source.slice(at))) found = at;
  }
  return found;
}

function isExpression(text) {
  const bare = text.trim().replace(/;+$/, "");
  return bare !== "" && compiles(`(async () => (${bare}\n))`);
}

// A line that begins with an operator or a bracket continues the one before, unless that has ended.
function isWhole(before, after) {
  if (/^\s*[+\-([`/]/.test(after)) {
    const end = before.slice(-COMMENT_MAX).replace(/(\s|\/\/[^\n]*(\n|$)|\/\*[^]*?\*\/)*$/, "");
    if (end !== "" && !/[;}]$/.test(end)) return false;
  }
  return compiles(HEAD + before + TAIL);
}

function runProgram(source) {
  const at = findLastExpression(source);
  const body =
    at < 0 ? source : `${source.slice(0, at)}return (${source.slice(at).trim().replace(/;+$/, "")}\n)`;
  const script = new vm.Script(HEAD + body + TAIL, {
    filename: PROGRAM,
    columnOffset: -HEAD.length,
    importModuleDynamically: vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  globalThis.require = createRequire(PROGRAM);
  return script.runInThisContext()();
}

// Return false if the service would refuse this JSON: for a lone surrogate, which JSON.stringify escapes, or its depth.
function isAnswer(written) {
  if (/(^|[^\\])(\\\\)*\\ud/.test(written)) return false;
  let level = [JSON.parse(written)];
  for (let depth = 0; level.length > 0; depth += 1) {
    level = level.filter((one) => one !== null && typeof one === "object");
    if (level.length > 0 && depth === ANSWER_NESTING) return false;
    level = level.flatMap((one) => Object.values(one));
  }
  return true;
}

function leaveAnswer(value) {
  if (value === undefined || value === null) return;
  let written;
  try {
    written = typeof value === "number" && !Number.isFinite(value) ? undefined : JSON.stringify(value);
  } catch {
    written = undefined;
  }
  if (written === undefined) console.log(util.inspect(value));
  else if (Buffer.byteLength(written) > ANSWER_BYTES) console.log(written);
  else if (!isAnswer(written)) console.log(util.inspect(value));
  else fs.writeFileSync(ANSWER, written);
}

// Print an error as Node does, without the lines of this file and of Node itself.
function reportError(error) {
  const text = error instanceof Error && error.stack ? error.stack : `Uncaught ${util.inspect(error)}`;
  const ours = /^\s+at .*(skillbus_program\.cjs|node:)/;
  fs.writeSync(2, `${text.split("\n").filter((line) => !ours.test(line)).join("\n")}\n`);
}

// Nothing is under way any more that could let the program go on.
function reportUnsettled() {
  fs.writeSync(2, "the program ended before its last expression had a value: it awaits a promise that nothing settles\n");
  process.exit(UNSETTLED);
}

async function main() {
  const channel = new Channel(...process.argv.slice(2).map(Number));
  process.argv.splice(1, process.argv.length, PROGRAM);
  process.chdir("/work");
  defineFunctions(channel);
  process.once("beforeExit", reportUnsettled);
  try {
    const value = await runProgram(fs.readFileSync(PROGRAM, "utf8"));
    process.removeListener("beforeExit", reportUnsettled);
    leaveAnswer(value);
  } catch (error) {
    reportError(error);
    process.exit(1);
  }
}

if (require.main === module) main();
else module.exports = { runProgram };
