// Memory of Node outside its heap, which no option of Node's bounds.
const { through, done } = require('./verdict.js')
const wanted = Number(process.argv[2])
const kept = []
try {
  for (let number = 0; number < wanted; number++) kept.push(Buffer.alloc(1 << 20, number))
} catch { done(); process.exit(0) }
setTimeout(() => {
  if (kept.length === wanted) through('kept every buffer')
  done()
}, Number(process.argv[3]))
