// What Node may do: it may have been started before the script was known, and has many threads.
const fs = require('fs')
const { through, attempt, done } = require('./verdict.js')
if (process.getuid() === 0) through('runs as root')
attempt('became another user', () => process.setuid(0))
attempt('joined groups', () => process.setgroups([0]))
let threads = []
try { threads = fs.readdirSync('/proc/self/task') } catch {}
for (const thread of threads) {
  const status = fs.readFileSync(`/proc/self/task/${thread}/status`, 'utf8')
  if (!/^Seccomp:\t2$/m.test(status)) through('no filter')
  if (!/^NoNewPrivs:\t1$/m.test(status)) through('may gain privileges by a program')
  if (/^Cap\w+:\t(?!0+$)/m.test(status)) through('has capabilities')
}
done()
