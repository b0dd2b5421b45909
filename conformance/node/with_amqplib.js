// amqplib as its tutorials and its documentation use it.

const assert = require("assert/strict");
const { spawn } = require("child_process");
const { randomUUID } = require("crypto");
const path = require("path");
const readline = require("readline");
const amqp = require("amqplib");
const { Inbox } = require("./conditions");

const REPLY_TO = "amq.rabbitmq.reply-to";

// Runs `play(channel, name, connection)` with a channel and a name that nobody else uses.
async function withChannel(play, confirms = false) {
  const connection = await amqp.connect(process.env.BROKER_URL);
  // Whatever was asked for fails with the same error.
  connection.on("error", () => {});
  try {
    const channel = await (confirms ? connection.createConfirmChannel() : connection.createChannel());
    await play(channel, `conformance-${randomUUID()}`, connection);
  } finally {
    await connection.close();
  }
}

// A server-named exclusive queue bound by these keys, and what arrives in it as [routing key, body].
async function subscriber(channel, exchange, ...keys) {
  const { queue } = await channel.assertQueue("", { exclusive: true });
  for (const key of keys) await channel.bindQueue(queue, exchange, key);
  const inbox = new Inbox();
  await channel.consume(queue, ({ fields, content }) => inbox.put([fields.routingKey, content.toString()]), {
    noAck: true,
  });
  return { queue, inbox };
}

function hello() {
  return withChannel(async (channel, queue) => {
    await channel.assertQueue(queue, { exclusive: true });
    const headers = { lang: "en", stars: 5, tags: ["a", "b"] };
    const options = { contentType: "text/plain", headers, messageId: "m-1" };
    channel.sendToQueue(queue, Buffer.from("Hello World!"), options);
    const inbox = new Inbox();
    await channel.consume(queue, inbox.put, { noAck: true });

    const { content, fields, properties } = await inbox.next("the message");

    assert.equal(content.toString(), "Hello World!");
    assert.deepEqual([fields.exchange, fields.routingKey, fields.redelivered], ["", queue, false]);
    assert.deepEqual([properties.contentType, properties.messageId], ["text/plain", "m-1"]);
    assert.deepEqual(properties.headers, headers);
    assert.equal(await channel.get(queue), false);
  });
}

class Worker {
  constructor(queue) {
    this.received = [];
    this.done = 0;
    this.process = spawn(process.execPath, [path.join(__dirname, "worker.js"), queue], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.lines = new Inbox();
    readline.createInterface({ input: this.process.stdout }).on("line", this.lines.put);
  }

  kill() {
    this.process.kill("SIGKILL");
  }
}

async function workQueue() {
  await withChannel(async (channel, queue) => {
    await channel.assertQueue(queue, { durable: true });
    const workers = [new Worker(queue), new Worker(queue), new Worker(queue)];
    try {
      for (const worker of workers) assert.equal(await worker.lines.next("a worker's start"), "ready");
      for (let number = 1; number <= 6; number++) {
        channel.sendToQueue(queue, Buffer.from(`task-${number}`), { persistent: true });
      }
      const held = [];
      for (const worker of workers) held.push(await worker.lines.next("a first task"));
      assert.deepEqual([...held].sort(), ["received task-1 first", "received task-2 first", "received task-3 first"]);

      const [lost, ...others] = workers;
      lost.kill();

      // Each of the others ends what it has, and takes the next, until all six are done.
      const received = held.slice(1);
      const done = new Inbox();
      for (const { lines, process: { stdin } } of others) {
        stdin.write("\n");
        (async () => {
          for (;;) {
            const line = await lines.next();
            if (line.startsWith("done")) done.put(line);
            else stdin.write("\n");
            if (line.startsWith("received")) received.push(line);
          }
        })().catch(() => {});
      }
      await done.take(6, "all tasks done");
      const lostAgain = held[0].replace("first", "again");
      const rest = [1, 2, 3, 4, 5, 6].map((n) => `received task-${n} first`).filter((line) => line !== held[0]);
      assert.deepEqual(received.sort(), [lostAgain, ...rest].sort());
    } finally {
      for (const worker of workers) worker.kill();
      await channel.deleteQueue(queue);
    }
  });
}

function fanOut() {
  return withChannel(async (channel, exchange) => {
    await channel.assertExchange(exchange, "fanout", { durable: false, autoDelete: true });
    const subscribers = [];
    for (let i = 0; i < 3; i++) subscribers.push(await subscriber(channel, exchange, ""));
    channel.publish(exchange, "", Buffer.from("news"));
    for (const { inbox } of subscribers) assert.deepEqual(await inbox.next("the news"), ["", "news"]);
  });
}

function routing() {
  return withChannel(async (channel, exchange) => {
    await channel.assertExchange(exchange, "direct", { durable: false, autoDelete: true });
    const errors = await subscriber(channel, exchange, "error");
    const everything = await subscriber(channel, exchange, "info", "error");
    for (const severity of ["debug", "info", "error", "info"]) channel.publish(exchange, severity, Buffer.from("x"));
    assert.deepEqual((await everything.inbox.take(3)).map(([key]) => key), ["info", "error", "info"]);
    assert.deepEqual((await errors.inbox.take(1)).map(([key]) => key), ["error"]);
    assert.ok(errors.inbox.isEmpty && everything.inbox.isEmpty);
  });
}

function topics() {
  return withChannel(async (channel, exchange) => {
    await channel.assertExchange(exchange, "topic", { durable: false, autoDelete: true });
    const critical = await subscriber(channel, exchange, "*.critical");
    const kernel = await subscriber(channel, exchange, "kern.#", "kern.critical");
    for (const key of ["cron.info", "cron.critical", "kern", "kern.critical", "kern.disk.full"]) {
      channel.publish(exchange, key, Buffer.from("x"));
    }
    const keys = async ({ inbox }, count) => (await inbox.take(count)).map(([key]) => key);
    assert.deepEqual(await keys(critical, 2), ["cron.critical", "kern.critical"]);
    assert.deepEqual(await keys(kernel, 3), ["kern", "kern.critical", "kern.disk.full"]);
  });
}

function rpc() {
  return withChannel(async (channel, queue, connection) => {
    const server = await connection.createChannel();
    await server.assertQueue(queue, { exclusive: true });
    await server.prefetch(1);
    await server.consume(queue, (request) => {
      const { replyTo, correlationId } = request.properties;
      server.sendToQueue(replyTo, Buffer.from(request.content.toString().toUpperCase()), { correlationId });
      server.ack(request);
    });

    const replies = new Inbox();
    await channel.consume(REPLY_TO, replies.put, { noAck: true });
    for (const [correlationId, body] of [["a", "hello"], ["b", "world"]]) {
      channel.sendToQueue(queue, Buffer.from(body), { correlationId, replyTo: REPLY_TO });
    }

    const received = (await replies.take(2, "both replies")).map(({ properties, content }) => [
      properties.correlationId,
      content.toString(),
    ]);
    assert.deepEqual(received, [["a", "HELLO"], ["b", "WORLD"]]);
  });
}

function confirms() {
  return withChannel(async (channel, queue) => {
    await channel.assertQueue(queue, { exclusive: true, arguments: { "x-overflow": "reject-publish" }, maxLength: 2 });
    const returned = new Inbox();
    channel.on("return", returned.put);

    channel.sendToQueue(queue, Buffer.from("one"), { persistent: true });
    channel.sendToQueue(queue, Buffer.from("two"), { persistent: true });
    await channel.waitForConfirms();
    assert.equal((await channel.checkQueue(queue)).messageCount, 2);

    const refused = new Inbox();
    channel.sendToQueue(queue, Buffer.from("three"), {}, refused.put);
    assert.match(String(await refused.next("the nack")), /nacked/);

    const confirmed = new Inbox();
    channel.publish("amq.direct", "nobody", Buffer.from("lost"), { mandatory: true }, confirmed.put);
    assert.equal(await confirmed.next("the confirm"), null);
    const { fields, content } = await returned.next("the returned message");
    assert.deepEqual([fields.replyCode, fields.replyText, content.toString()], [312, "NO_ROUTE", "lost"]);
  }, true);
}

function largeBody() {
  return withChannel(async (channel, queue) => {
    await channel.assertQueue(queue, { exclusive: true });
    const body = Buffer.alloc(5 * 1024 * 1024, "0123456789abcdef");
    const inbox = new Inbox();
    await channel.consume(queue, inbox.put, { noAck: true });
    channel.sendToQueue(queue, body);
    channel.sendToQueue(queue, Buffer.alloc(0));
    const [large, empty] = await inbox.take(2);
    assert.ok(large.content.equals(body));
    assert.equal(empty.content.length, 0);
  });
}

function channelErrors() {
  return withChannel(async (_, queue, connection) => {
    const channel = await connection.createChannel();
    const errors = new Inbox();
    channel.on("error", errors.put);
    await assert.rejects(channel.checkQueue(queue), /404 \(NOT-FOUND\)/);
    assert.match((await errors.next("the channel's error")).message, new RegExp(`no queue '${queue}' in vhost '/'`));
    await (await connection.createChannel()).assertQueue(queue, { exclusive: true });
  });
}

function cancelNotification() {
  return withChannel(async (channel, queue) => {
    await channel.assertQueue(queue, { exclusive: true });
    const inbox = new Inbox();
    await channel.consume(queue, inbox.put);
    await channel.deleteQueue(queue);
    assert.equal(await inbox.next("the cancel of the consumer"), null);
  });
}

module.exports = [
  { name: "amqplib_hello", play: hello },
  { name: "amqplib_work_queue", play: workQueue },
  { name: "amqplib_fan_out", play: fanOut },
  { name: "amqplib_routing", play: routing },
  { name: "amqplib_topics", play: topics },
  { name: "amqplib_rpc", play: rpc },
  { name: "amqplib_confirms", play: confirms },
  { name: "amqplib_large_body", play: largeBody },
  { name: "amqplib_channel_errors", play: channelErrors },
  { name: "amqplib_cancel_notification", play: cancelNotification },
];
