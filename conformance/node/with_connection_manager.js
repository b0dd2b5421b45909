// amqp-connection-manager: a connection that comes back, with everything that was set up on it.

const assert = require("assert/strict");
const { exec } = require("child_process");
const { randomUUID } = require("crypto");
const { promisify } = require("util");
const manager = require("amqp-connection-manager");
const { Inbox } = require("./conditions");

const restart = () => promisify(exec)(`${process.env.BROKER_CONTROL} restart`);

async function withConnection(play) {
  const connection = manager.connect([process.env.BROKER_URL], { reconnectTimeInSeconds: 0.2 });
  try {
    await play(connection, `conformance-${randomUUID()}`);
  } finally {
    await connection.close();
  }
}

function hello() {
  return withConnection(async (connection, queue) => {
    const inbox = new Inbox();
    const channel = connection.createChannel({
      json: true,
      setup: async (raw) => {
        await raw.assertQueue(queue, { exclusive: true });
        await raw.consume(queue, inbox.put, { noAck: true });
      },
    });
    // Confirmed: the wrapper's channels are confirm channels.
    await channel.sendToQueue(queue, { hello: "world" });
    assert.deepEqual(JSON.parse((await inbox.next("the message")).content), { hello: "world" });
  });
}

function reconnect() {
  return withConnection(async (connection, exchange) => {
    const connects = new Inbox();
    const disconnects = new Inbox();
    connection.on("connect", connects.put);
    connection.on("disconnect", disconnects.put);
    const inbox = new Inbox();
    // None of it is durable: after a restart it is there because the manager set it up again.
    const channel = connection.createChannel({
      setup: async (raw) => {
        await raw.assertExchange(exchange, "topic", { durable: false, autoDelete: true });
        const { queue } = await raw.assertQueue("", { exclusive: true });
        await raw.bindQueue(queue, exchange, "news.#");
        await raw.consume(queue, ({ content }) => inbox.put(content.toString()), { noAck: true });
      },
    });
    await channel.waitForConnect();
    await connects.next("the first connection");
    await channel.publish(exchange, "news.local", Buffer.from("before"));
    assert.equal(await inbox.next("the first message"), "before");

    const restarted = restart();
    await disconnects.next("the loss of the connection", 60_000);
    // Kept by the manager until there is a broker again, then sent and confirmed.
    const published = channel.publish(exchange, "news.local", Buffer.from("meanwhile"));
    await restarted;
    await connects.next("the second connection");
    await published;
    assert.equal(await inbox.next("what was published meanwhile"), "meanwhile");
    await channel.publish(exchange, "news.local", Buffer.from("after"));
    assert.equal(await inbox.next("the last message"), "after");
  });
}

module.exports = [
  { name: "connection_manager_hello", play: hello },
  { name: "connection_manager_reconnect", play: reconnect, restarts: true },
];
