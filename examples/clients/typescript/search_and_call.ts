/** Search tools, call the best one with the arguments that are given, and follow the same call. */

import { Skillbus, SkillbusError } from "./skillbus.js";

declare const process: { argv: string[]; env: Record<string, string | undefined> };

const [query = "work out an expression", args = '{"expression": "(4 + 5) * 3"}'] = process.argv.slice(2);
const skillbus = new Skillbus(process.env.SKILLBUS_URL ?? "http://127.0.0.1:8080", process.env.SKILLBUS_API_KEY ?? "");

const found = await skillbus.searchTools(query, "openai");
for (const hit of found.results) console.log(hit.score.toFixed(2), hit.id);

const best = Object.values(found.names)[0];
if (best === undefined) throw new Error("nothing callable fits");
const called = await skillbus.callTool(best, JSON.parse(args));
console.log(called.is_error ? "failed" : "ok", called.content.map((part) => part.text ?? part.uri).join("\n"));

for await (const event of skillbus.followTool(best, JSON.parse(args))) console.log("event", event.event);

try {
  await skillbus.callTool({ id: "skill:nobody", action: null }, {});
} catch (error) {
  if (!(error instanceof SkillbusError)) throw error;
  console.log("refused", error.status, error.code);
}
