// Pictures for the documents of a real session: its page with a question, and its export.
// `node pictures.mjs PATH/TO/windlass FOLDER`
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Browser, program } from './browser.mjs'
import { serve } from './served.mjs'

const path = program()
if (!path) throw new Error('there is no chromium on PATH')
const folder = resolve(process.argv[3])
mkdirSync(folder, { recursive: true })
const served = await serve(resolve(process.argv[2]))
const link = await served.start()
const browser = new Browser(path, served.home)
process.on('exit', () => served.child.kill('SIGKILL'))

async function picture(page, name) {
  await page.read('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')
  const { data } = await page.send('Page.captureScreenshot', { format: 'png' })
  writeFileSync(join(folder, name), Buffer.from(data, 'base64'))
  console.log(`written: ${name}`)
}

const page = await browser.page()
await page.looks({ width: 1000, height: 800, isPhone: false, scheme: 'light' })
await page.visit(link)
await page.until("document.getElementById('state').textContent === 'Ready'")
served.model.answers.push(
  { text: 'I read the file, and then change its second line.', call: ['read', { filePath: 'a.txt' }] },
  { call: ['edit', { filePath: 'a.txt', oldString: 'two', newString: 'two, and a half' }] },
  { text: '`a.txt` says *two, and a half* now:\n\n| line | before | now |\n|--:|---|---|\n| 2 | two | two, and a half |\n' })
await page.read("document.getElementById('prompt').focus()")
await page.send('Input.insertText', { text: 'Add a half to the second line of a.txt' })
await page.key('Enter')
await page.until("document.querySelector('#asks .diff .add')")
await picture(page, 'page.png')
await page.read("document.querySelector('#asks button').click()")
await page.until("document.getElementById('conversation').textContent.includes('before')")
await page.until("document.getElementById('state').textContent === 'Ready'")
const file = served.export(await page.read('location.hash.slice(1)'))
await page.visit(pathToFileURL(file).href)
await picture(page, 'export.png')
await browser.close()
await served.end()
