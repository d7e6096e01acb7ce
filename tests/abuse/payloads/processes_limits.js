// The limits of Node itself, as a shell that it starts inherits them: given after its start or before, they are the same.
const { execFileSync } = require('child_process')
const { through, done } = require('./verdict.js')
const [processes, files] = process.argv.slice(2)
const limit = option => execFileSync('bash', ['-c', `ulimit -H${option}`], { encoding: 'utf8' }).trim()
if (limit('u') !== processes) through('another number of processes')
if (limit('n') !== files) through('another number of open files')
for (const [option, name] of Object.entries({ c: 'dumps', l: 'locked memory', q: 'queues' })) {
  if (!['0', '1'].includes(limit(option))) through(`may have ${name}`)
}
for (const option of 'dft') if (limit(option) === 'unlimited') through('something is unlimited')
for (const option of 'un') {
  try { execFileSync('bash', ['-c', `ulimit -${option} unlimited`], { stdio: 'ignore' }); through('raised a limit') } catch {}
}
done()
