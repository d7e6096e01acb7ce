// A Node that was started before its script is known: it waits for the script's name and arguments, then runs it as
// `node script ...` would. Descriptor 3 is the agent's; it is closed before anything of the skill runs.
"use strict";
const fs = require("fs");
const { Module } = require("module");

fs.writeSync(3, "r");
const chunks = [];
const chunk = Buffer.alloc(65536);
for (;;) {
  const size = fs.readSync(3, chunk);
  if (size === 0) break;
  chunks.push(Buffer.from(chunk.subarray(0, size)));
}
fs.closeSync(3);
const argv = Buffer.concat(chunks).toString("utf8").split("\0");
if (argv.length < 2) process.exit(3);
argv.pop();
process.argv = [process.argv[0], ...argv];
delete require.cache[__filename];
Module.runMain();
