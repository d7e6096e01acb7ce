// The same from Node: sockets, requests and datagrams.
const net = require('net')
const dgram = require('dgram')
const { canaries, through, done } = require('./verdict.js')
const { tcp, udp } = canaries()
const tries = [
  new Promise(end => net.connect(tcp, '127.0.0.1', () => { through('connected by Node'); end() }).on('error', end)),
  new Promise(end => {
    try { dgram.createSocket('udp4').on('error', end).send('canary', udp, '127.0.0.1', error => { error || through('sent by Node'); end() }) } catch { end() }
  }),
  fetch(`http://127.0.0.1:${tcp}/`, { signal: AbortSignal.timeout(500) }).catch(() => {}),
]
Promise.all(tries).then(() => { done(); process.exit(0) })
