// Marks for the next run of Node, in every place that can be written, and in what it would load. Run twice.
const fs = require('fs')
const { through, done } = require('./verdict.js')
if (globalThis.left || process.left) through('something of the last run is in memory')
globalThis.left = process.left = true
for (const folder of ['/work', '/work/out', '/tmp', '/dev/shm', '/skill', __dirname, '/in', '/work/.npm', '/work/node_modules']) {
  const mark = `${folder}/mark`
  if (fs.existsSync(mark)) through(`found what the last run left in ${folder}`)
  try { fs.writeFileSync(mark, '') } catch {}
  for (const name of ['verdict.js', 'package.json']) {
    try { fs.writeFileSync(`${folder}/${name}`, 'globalThis.left = true') } catch {}
  }
}
done()
