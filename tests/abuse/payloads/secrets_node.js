// What Node sees of the service: its environment, its arguments, and those of process 1.
const fs = require('fs')
const { attempt, through, done } = require('./verdict.js')
const given = new Set(['HOME', 'LANG', 'LC_CTYPE', 'PATH', 'PWD', 'SKILLBUS_IN', 'SKILLBUS_OUT', 'TMPDIR', 'NODE_PATH'])
for (const [name, value] of Object.entries(process.env)) {
  if (given.has(name)) continue
  through(`${name} is set`)
  console.log(value)
}
if (process.env.NODE_PATH && process.env.NODE_PATH !== '/deps/node_modules') through('NODE_PATH leads elsewhere')
for (const file of ['environ', 'mem', 'maps', 'auxv']) attempt(`${file} of process 1`, () => fs.openSync(`/proc/1/${file}`, 'r'))
attempt('descriptors of process 1', () => fs.readdirSync('/proc/1/fd'))
for (let descriptor = 3; descriptor < 32; descriptor++) {
  attempt('opened a descriptor of process 1', () => fs.openSync(`/proc/1/fd/${descriptor}`, 'r+'))
}
done()
