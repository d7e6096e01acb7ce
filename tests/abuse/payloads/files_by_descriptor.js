// Descriptors that Node inherited from whoever started it: sockets, folders, files. Its own are of other kinds.
const fs = require('fs')
const { canaries, through, done } = require('./verdict.js')
const { secret } = canaries()
for (let descriptor = 3; descriptor < 1024; descriptor++) {
  let kind
  try { kind = fs.fstatSync(descriptor) } catch { continue }
  if (kind.isSocket() || kind.isDirectory() || kind.isFile()) through('a descriptor was left open')
  if (kind.isDirectory()) {
    try { console.log(fs.readFileSync(`/proc/self/fd/${descriptor}${secret}`, 'utf8')); through("read the host's file") } catch {}
  }
}
done()
