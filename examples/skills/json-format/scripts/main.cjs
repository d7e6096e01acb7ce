// Validates, picks from and formats a JSON document given as {"text" | "file", "indent"?, "sort_keys"?, "path"?}.
"use strict";

const { SkillError, run, textOf, integerOf, flagOf, textOrFile } = require("./skillio.cjs");
const { Literal, parse, print } = require("./document.cjs");

const MAX_FORMATTED = 3_000_000; // characters; as JSON this stays under the 10 MB a run may print

function format(args) {
  const text = textOrFile(args).replace(/^\uFEFF/, "");
  const indent = integerOf(args, "indent", 2, 0, 8);
  const sortKeys = flagOf(args, "sort_keys", false);
  const chosen = pick(parse(text), textOf(args, "path", ""));
  const formatted = print(chosen, indent, sortKeys);
  if (formatted.length > MAX_FORMATTED) throw new SkillError(`the result has more than ${MAX_FORMATTED} characters; pick a part with 'path'`);
  return { formatted, summary: summarize(chosen) };
}

function pick(value, path) {
  const steps = path.match(/[^.[\]]+|\[\d+\]/g) ?? [];
  return steps.reduce((found, step) => child(found, step.replace(/^\[|\]$/g, ""), path), value);
}

function child(value, key, path) {
  if (value instanceof Map && value.has(key)) return value.get(key);
  if (Array.isArray(value) && /^\d+$/.test(key) && Number(key) < value.length) return value[Number(key)];
  const known = value instanceof Map ? `keys: ${[...value.keys()].slice(0, 20).join(", ")}` : describe(value);
  throw new SkillError(`path '${path}' has no '${key}' (${known})`);
}

function describe(value) {
  if (value instanceof Map) return "object";
  if (Array.isArray(value)) return `array of ${value.length}`;
  return value instanceof Literal ? value.kind : "string";
}

function summarize(value) {
  const counts = { type: describe(value).split(" ")[0], keys: 0, items: 0, depth: 0 };
  const open = [[value, 0]];
  while (open.length) {
    const [node, depth] = open.pop();
    counts.depth = Math.max(counts.depth, depth);
    if (node instanceof Map) counts.keys += node.size;
    if (Array.isArray(node)) counts.items += node.length;
    if (node instanceof Map || Array.isArray(node)) for (const inner of node.values()) open.push([inner, depth + 1]);
  }
  return counts;
}

run(format);
