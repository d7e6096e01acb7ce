// Run a skill: node run.mjs calculate '{"expression": "(1 + 2) * 3"}' [action]
import { ask, main, words } from "./skillbus.mjs";

const [name, args = "{}", action] = words("run.mjs SKILL [ARGS_AS_JSON] [ACTION]");

await main(async (nc) => {
  const request = { name, action, args: JSON.parse(args), timeout_s: 20 };
  const ran = await ask(nc, "skillbus.v1.sandbox.run_skill", request, { timeoutMs: 30_000 });
  process.stdout.write(Buffer.from(ran.stdout.inline ?? "", "base64"));
  process.stderr.write(Buffer.from(ran.stderr.inline ?? "", "base64"));
  if (ran.stdout.object_name) console.error(`the output is in the bucket runs: ${ran.stdout.object_name}`);
  return ran.status === "ok" ? 0 : 1;
});
