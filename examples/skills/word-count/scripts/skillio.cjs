// How a skill talks to whoever runs it: JSON arguments on stdin, files in $SKILLBUS_IN and $SKILLBUS_OUT, JSON on stdout.
// The same file lies in every Node skill here, so that each skill is a folder that works on its own.
"use strict";

const fs = require("node:fs");
const path = require("node:path");

const MAX_TEXT_BYTES = 32 * 1024 * 1024;

/** The input cannot be used; the message says what to change. Printed on stderr, exit status 2. */
class SkillError extends Error {}

function run(skill) {
  try {
    const result = skill(readArguments(fs.readFileSync(0, "utf8")));
    fs.writeFileSync(1, JSON.stringify(result, null, 2) + "\n");
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    fs.writeFileSync(2, `error: ${error.message}\n`);
    process.exitCode = 2;
  }
}

function readArguments(input) {
  if (!input.trim()) return {};
  let value;
  try {
    value = JSON.parse(input);
  } catch (error) {
    throw new SkillError(`the arguments on stdin are not JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new SkillError("the arguments must be a JSON object");
  }
  return value;
}

function textOf(args, key, fallback) {
  const value = args[key] ?? fallback;
  if (value === undefined) throw new SkillError(`argument '${key}' is missing`);
  if (typeof value !== "string") throw new SkillError(`argument '${key}' must be a string, not ${typeof value}`);
  return value;
}

function integerOf(args, key, fallback, low, high) {
  const value = args[key] ?? fallback;
  if (!Number.isInteger(value)) throw new SkillError(`argument '${key}' must be a whole number`);
  if (value < low || value > high) throw new SkillError(`argument '${key}' must lie between ${low} and ${high}`);
  return value;
}

function flagOf(args, key, fallback) {
  const value = args[key] ?? fallback;
  if (typeof value !== "boolean") throw new SkillError(`argument '${key}' must be true or false`);
  return value;
}

function inputNames(root) {
  return fs
    .readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath ?? entry.path, entry.name)))
    .sort();
}

/** A file under $SKILLBUS_IN; without a name the only file there. */
function inputPath(name) {
  const folder = process.env.SKILLBUS_IN;
  if (!folder || !fs.existsSync(folder)) throw new SkillError("no input files were given ($SKILLBUS_IN is not a folder)");
  const root = fs.realpathSync(folder);
  const names = inputNames(root);
  const given = names.length ? `given: ${names.slice(0, 20).join(", ")}` : "no input files were given";
  if (name === undefined) {
    if (names.length !== 1) throw new SkillError(`name the file to use in argument 'file'; ${given}`);
    return path.join(root, names[0]);
  }
  const wanted = path.resolve(root, name);
  if (!isInside(root, wanted)) throw new SkillError(`'${name}' leads out of the input folder; give a name relative to it`);
  if (!isFile(wanted)) {
    throw new SkillError(`there is no input file '${name.slice(0, 80)}'; ${given}`);
  }
  if (!isInside(root, fs.realpathSync(wanted))) throw new SkillError(`'${name}' is a link out of the input folder`);
  return wanted;
}

function isFile(wanted) {
  try {
    return fs.statSync(wanted).isFile();
  } catch {
    return false; // absent, too long, or holding NUL: no file of that name can be read
  }
}

function isInside(root, wanted) {
  return wanted.startsWith(root + path.sep);
}

function readText(file) {
  const size = fs.statSync(file).size;
  if (size > MAX_TEXT_BYTES) throw new SkillError(`${path.basename(file)} has ${size} bytes; the limit is ${MAX_TEXT_BYTES}`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(fs.readFileSync(file));
  } catch {
    throw new SkillError(`${path.basename(file)} is not UTF-8 text`);
  }
}

/** The text given in the arguments, else that of the input file. */
function textOrFile(args) {
  if ("text" in args && "file" in args) throw new SkillError("give either 'text' or 'file', not both");
  if ("text" in args) return textOf(args, "text");
  return readText(inputPath("file" in args ? textOf(args, "file") : undefined));
}

/** Keep `text` as a file of the run's results; returns its name. */
function writeArtifact(name, text) {
  const folder = process.env.SKILLBUS_OUT;
  if (!folder || !fs.existsSync(folder)) throw new SkillError("there is nowhere to write results ($SKILLBUS_OUT is not a folder)");
  fs.writeFileSync(path.join(folder, name), text);
  return name;
}

module.exports = { SkillError, run, textOf, integerOf, flagOf, inputPath, readText, textOrFile, writeArtifact };
