// node run.mjs calculate '{"expression": "(1 + 2) * 3"}' [action]
import { ask, open } from "./skillbus.mjs";

const [name, args = "{}", action] = process.argv.slice(2);
const nc = await open();
try {
  const request = { name, action, args: JSON.parse(args), timeout_s: 20 };
  const ran = await ask(nc, "skillbus.v1.sandbox.run_skill", request, { timeoutMs: 30_000 });
  process.stdout.write(Buffer.from(ran.stdout.inline ?? "", "base64"));
  process.stderr.write(Buffer.from(ran.stderr.inline ?? "", "base64"));
  if (ran.stdout.object_name) console.error(`the output is in the bucket runs: ${ran.stdout.object_name}`);
  process.exitCode = ran.status === "ok" ? 0 : 1;
} catch (error) {
  console.error(error.message, JSON.stringify(error.details));
  process.exitCode = 1;
} finally {
  await nc.drain();
}
