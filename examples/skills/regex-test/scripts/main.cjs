// Tries a pattern given as {"pattern", "flags"?, "text" | "file", "replacement"?}.
"use strict";

const vm = require("node:vm");

const { SkillError, run, textOf, textOrFile } = require("./skillio.cjs");

const TIME_LIMIT_MS = 2000;
const MAX_MATCHES = 1000;
const MAX_REPLACED = 2_000_000; // characters; as JSON this stays under the 10 MB a run may print

function tryPattern(args) {
  const flags = textOf(args, "flags", "g");
  if (!/^[dgimsuy]*$/.test(flags)) throw new SkillError(`unknown flag in '${flags.slice(0, 20)}'; use any of d g i m s u y`);
  const pattern = compiled(textOf(args, "pattern"), flags);
  const text = textOrFile(args);
  const found = timed(() => allMatches(pattern, text));
  const result = { count: found.length, matches: describeAll(found.slice(0, MAX_MATCHES), text), truncated: found.length > MAX_MATCHES };
  return "replacement" in args ? { ...result, replaced: replaced(pattern, text, textOf(args, "replacement")) } : result;
}

function compiled(source, flags) {
  try {
    return new RegExp(source, flags);
  } catch (error) {
    throw new SkillError(error.message);
  }
}

/** Runs `search` under a time limit; the engine's backtracking can only be stopped from outside. */
function timed(search) {
  try {
    return vm.runInNewContext("search()", { search }, { timeout: TIME_LIMIT_MS });
  } catch (error) {
    if (error.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    throw new SkillError(`the pattern needs more than ${TIME_LIMIT_MS / 1000} s on this text; avoid nested repetition such as (a+)+`);
  }
}

function allMatches(pattern, text) {
  if (pattern.global) return [...text.matchAll(pattern)];
  const match = pattern.exec(text);
  return match ? [match] : [];
}

function describeAll(found, text) {
  let [line, at] = [1, 0];
  return found.map((match) => {
    for (; at < match.index; at += 1) if (text[at] === "\n") line += 1;
    const groups = match.slice(1).map((group) => group ?? null);
    return { match: match[0], index: match.index, line, groups, named: { ...match.groups } };
  });
}

function replaced(pattern, text, replacement) {
  const result = timed(() => text.replace(pattern, replacement));
  if (result.length > MAX_REPLACED) throw new SkillError(`the replaced text has more than ${MAX_REPLACED} characters`);
  return result;
}

run(tryPattern);
