// Find tools: node search.mjs "帮我提交代码" [limit]
import { ask, main, words } from "./skillbus.mjs";

const [query, limit = "5"] = words("search.mjs QUERY [LIMIT]");

await main(async (nc) => {
  const found = await ask(nc, "skillbus.v1.retriever.search_tools", { query, limit: Number(limit) });
  if (found.degraded) console.error(`searched by words only: ${found.degraded}`);
  for (const hit of found.results) console.log(`${hit.score.toFixed(2)}  ${hit.tool_type}  ${hit.name}  ${hit.description}`);
});
