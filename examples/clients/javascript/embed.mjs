// node embed.mjs "帮我提交代码" "commit my changes": vectors as msgpack, which is a sixth of their size in JSON.
import { decode, encode } from "@msgpack/msgpack";
import { open, send } from "./skillbus.mjs";

const nc = await open();
try {
  const request = encode({ texts: process.argv.slice(2), role: "query" });
  const reply = await send(nc, "skillbus.v1.embedder.embed_texts", request, { type: "application/msgpack" });
  const { model, dense, degraded } = decode(reply.data);
  if (!dense) throw new Error(degraded);
  const bytes = dense.data.slice(); // a copy of its own is aligned as Float32Array needs it; little-endian
  const floats = new Float32Array(bytes.buffer, 0, dense.count * dense.dim);
  for (let row = 0; row < dense.count; row += 1) {
    const vector = floats.subarray(row * dense.dim, (row + 1) * dense.dim);
    console.log(`${model.name}  ${vector.length} dimensions  length ${Math.hypot(...vector).toFixed(3)}`);
  }
} finally {
  await nc.drain();
}
