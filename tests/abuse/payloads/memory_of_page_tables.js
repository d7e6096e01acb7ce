// Node's address space cannot be limited, and its children inherit that: a mapping of terabytes, read at a page in two
// megabytes, is backed by one page of zeros and costs a page of page table each time.
const { spawnSync } = require('child_process')
const { through, done } = require('./verdict.js')
const source = `
import mmap, sys, time
touches = int(sys.argv[1])
area = mmap.mmap(-1, touches << 21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)
for at in range(touches): area[at << 21]
time.sleep(float(sys.argv[2]))
`
const child = spawnSync('python3', ['-c', source, ...process.argv.slice(2)], { encoding: 'utf8' })
if (child.status === 0) through('kept the page tables')
done()
