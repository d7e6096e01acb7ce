// Worker threads of Node, each with an engine of its own.
const { Worker } = require('worker_threads')
const { through, done } = require('./verdict.js')
const wanted = Number(process.argv[2])
let ready = 0
const end = () => { done(); process.exit(0) }
for (let number = 0; number < wanted; number++) {
  const worker = new Worker("require('worker_threads').parentPort.postMessage(1); setInterval(() => {}, 1000)", { eval: true })
  worker.on('message', () => {
    if (++ready === wanted) { through('made every worker'); end() }
  })
  worker.on('error', end)
}
