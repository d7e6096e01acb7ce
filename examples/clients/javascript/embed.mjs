// Embed texts: node embed.mjs "帮我提交代码" "commit my changes"
// Vectors are requested as msgpack, which takes a fifth of their size in JSON.
import { decode, encode } from "@msgpack/msgpack";
import { main, send, words } from "./skillbus.mjs";

const texts = words("embed.mjs TEXT...");

await main(async (nc) => {
  const request = encode({ texts, role: "query" });
  const reply = await send(nc, "skillbus.v1.embedder.embed_texts", request, { type: "application/msgpack" });
  const { model, dense, degraded } = decode(reply.data);
  if (!dense) throw new Error(degraded);
  // Float32Array needs an aligned offset: a copy starts at 0. The bytes are little-endian, like nearly every machine.
  const floats = new Float32Array(new Uint8Array(dense.data).buffer);
  for (let row = 0; row < dense.count; row += 1) {
    const vector = floats.subarray(row * dense.dim, (row + 1) * dense.dim);
    console.log(`${model.name}  ${vector.length} dimensions  length ${Math.hypot(...vector).toFixed(3)}`);
  }
});
