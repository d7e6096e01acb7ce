// How a payload in Node says what it got through.
const fs = require('fs')
const say = line => fs.writeSync(1, `${line}\n`)
module.exports = {
  canaries: () => JSON.parse(fs.readFileSync(0, 'utf8')),
  through: what => say(`through: ${what}`),
  done: () => say('done'),
  attempt(what, action) {
    try { action() } catch { return }
    say(`through: ${what}`)
  },
}
