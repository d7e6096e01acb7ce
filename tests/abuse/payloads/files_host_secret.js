// The same from Node, and from a process that it starts.
const fs = require('fs')
const { execFileSync } = require('child_process')
const { canaries, attempt, done } = require('./verdict.js')
const { secret } = canaries()
attempt('read by Node', () => console.log(fs.readFileSync(secret, 'utf8')))
attempt('read by a child', () => console.log(execFileSync('cat', [secret], { encoding: 'utf8' })))
attempt('read by a shell', () => console.log(execFileSync('sh', ['-c', `cat < ${secret}`], { encoding: 'utf8' })))
done()
