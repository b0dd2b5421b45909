const assert = require('node:assert')
const { spawn } = require('node:child_process')
const { once } = require('node:events')
const { createInterface } = require('node:readline')
const { after, before, test } = require('node:test')

const amqp = require('amqplib')

const leveret = process.env.LEVERET || 'leveret'
let broker
let url

before(async () => {
  broker = spawn(leveret, ['--storage', 'memory', '--listen', '127.0.0.1:0', '--log-level', 'warn'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  // One line, once clients are accepted: {"amqp":[43671]}
  const [line] = await once(createInterface(broker.stdout), 'line')
  url = `amqp://guest:guest@127.0.0.1:${JSON.parse(line).amqp[0]}`
})

after(async () => {
  broker.kill()
  await once(broker, 'exit')
})

test('a job arrives', async () => {
  const connection = await amqp.connect(url)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue('jobs', { durable: true })
  channel.sendToQueue('jobs', Buffer.from('one'))
  await channel.waitForConfirms()
  const message = await channel.get('jobs', { noAck: true })
  assert.strictEqual(message.content.toString(), 'one')
  await connection.close()
})
