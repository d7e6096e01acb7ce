// node search.mjs "帮我提交代码" [limit]
import { ask, open } from "./skillbus.mjs";

const [query, limit = "5"] = process.argv.slice(2);
const nc = await open();
try {
  const found = await ask(nc, "skillbus.v1.retriever.search_tools", { query, limit: Number(limit) });
  if (found.degraded) console.error(`searched by words only: ${found.degraded}`);
  for (const hit of found.results) console.log(`${hit.score.toFixed(2)}  ${hit.tool_type}  ${hit.name}  ${hit.description}`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await nc.drain();
}
