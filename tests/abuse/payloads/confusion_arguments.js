// Arguments that Node would take for its own.
const { through, done } = require('./verdict.js')
const given = ['--eval', "console.log('through: evaluated')", '--title=taken', '-r', '/dev/null']
if (JSON.stringify(process.argv.slice(2)) !== JSON.stringify(given)) through('an argument was taken')
if (process.execArgv.length) through('an argument became an option')
done()
