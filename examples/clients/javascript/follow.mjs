// Run a skill and print its output as it arrives: node follow.mjs calculate '{"expression": "(1 + 2) * 3"}' [action]
// Ctrl-C ends the run.
import { randomBytes } from "node:crypto";
import { ask, main, words } from "./skillbus.mjs";

const [name, args = "{}", action] = words("follow.mjs SKILL [ARGS_AS_JSON] [ACTION]");

await main(async (nc) => {
  const run_id = randomBytes(16).toString("hex");
  const feed = nc.subscribe(`skillbus.feed.run.printed.${run_id}`, {
    callback: (_, message) => {
      const { kind, stream, data } = message.json();
      if (kind === "output") process[stream].write(Buffer.from(data, "base64"));
    },
  });
  process.once("SIGINT", () => ask(nc, "skillbus.v1.sandbox.cancel_run", { run_id }).catch(console.error));
  const request = { name, action, args: JSON.parse(args), run_id, stream: true, timeout_s: 20 };
  const ran = await ask(nc, "skillbus.v1.sandbox.run_skill", request, { timeoutMs: 30_000 });
  await feed.drain();
  console.error(`${ran.status} in ${Math.round(ran.duration_ms)} ms, ${Math.round(ran.used.cpu_ms)} ms of CPU`);
  return ran.status === "ok" ? 0 : 1;
});
