// A JSON reader that keeps numbers as written and knows where an error is (RFC 8259).
"use strict";

const { SkillError } = require("./skillio.cjs");

const MAX_DEPTH = 500;
const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const LITERAL = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w)/y;

/** A number, true, false or null, as written. */
class Literal {
  constructor(text) {
    this.text = text;
  }

  get kind() {
    return { true: "boolean", false: "boolean", null: "null" }[this.text] ?? "number";
  }
}

/** The document as Maps, arrays, strings and Literals. */
function parse(text) {
  const reader = { text, at: 0 };
  const value = readValue(reader, 0);
  if (peek(reader) !== undefined) fail(reader, "more text after the end of the document");
  return value;
}

function take(reader, pattern) {
  pattern.lastIndex = reader.at;
  const match = pattern.exec(reader.text);
  if (!match) return undefined;
  reader.at = pattern.lastIndex;
  return match[0];
}

function peek(reader) {
  take(reader, SPACE);
  return reader.text[reader.at];
}

function fail(reader, message) {
  const before = reader.text.slice(0, reader.at).split("\n");
  throw new SkillError(`line ${before.length}, column ${before.at(-1).length + 1}: ${message}`);
}

function readValue(reader, depth) {
  if (depth > MAX_DEPTH) fail(reader, `nested deeper than ${MAX_DEPTH}`);
  switch (peek(reader)) {
    case "{":
      return readObject(reader, depth);
    case "[":
      return readArray(reader, depth);
    case '"':
      return readString(reader);
    case undefined:
      return fail(reader, "the document ends too early");
  }
  const literal = take(reader, LITERAL);
  return literal === undefined ? fail(reader, `unexpected '${reader.text[reader.at]}'`) : new Literal(literal);
}

function readString(reader) {
  const found = take(reader, STRING);
  return found === undefined ? fail(reader, "this string is not closed, or holds a bad escape or control character") : JSON.parse(found);
}

function readObject(reader, depth) {
  const members = new Map();
  reader.at += 1;
  if (closes(reader, "}")) return members;
  do {
    if (peek(reader) !== '"') fail(reader, "a key in double quotes is expected");
    const key = readString(reader);
    if (members.has(key)) fail(reader, `the key "${key}" appears twice`);
    if (!closes(reader, ":")) fail(reader, "a colon is expected after the key");
    members.set(key, readValue(reader, depth + 1));
  } while (closes(reader, ","));
  if (!closes(reader, "}")) fail(reader, "a comma or } is expected");
  return members;
}

function readArray(reader, depth) {
  const items = [];
  reader.at += 1;
  if (closes(reader, "]")) return items;
  do items.push(readValue(reader, depth + 1));
  while (closes(reader, ","));
  if (!closes(reader, "]")) fail(reader, "a comma or ] is expected");
  return items;
}

function closes(reader, sign) {
  if (peek(reader) !== sign) return false;
  reader.at += 1;
  return true;
}

/** With `indent` 0 on one line without spaces. */
function print(value, indent, sortKeys, margin = "") {
  if (value instanceof Literal) return value.text;
  if (typeof value === "string") return JSON.stringify(value);
  const inner = margin + " ".repeat(indent);
  const isMap = value instanceof Map;
  const entries = isMap ? [...value] : value.map((item) => [undefined, item]);
  if (isMap && sortKeys) entries.sort(([left], [right]) => (left < right ? -1 : 1));
  const [open, close] = isMap ? "{}" : "[]";
  if (!entries.length) return open + close;
  const gap = indent ? " " : "";
  const lines = entries.map(([key, item]) => (isMap ? `${JSON.stringify(key)}:${gap}` : "") + print(item, indent, sortKeys, inner));
  return indent ? `${open}\n${inner}${lines.join(`,\n${inner}`)}\n${margin}${close}` : open + lines.join(",") + close;
}

module.exports = { Literal, parse, print };
