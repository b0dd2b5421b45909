// Works on tasks with amqplib, one at a time; a task is done when a line comes on the standard input.
//
//   BROKER_URL=amqp://guest:guest@localhost node worker.js QUEUE

const readline = require("readline");
const amqp = require("amqplib");

async function main(queue) {
  const connection = await amqp.connect(process.env.BROKER_URL);
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: true });
  await channel.prefetch(1);

  let task = null;
  await channel.consume(queue, (message) => {
    task = message;
    console.log(`received ${message.content} ${message.fields.redelivered ? "again" : "first"}`);
  });
  console.log("ready");

  for await (const _ of readline.createInterface({ input: process.stdin })) {
    channel.ack(task);
    console.log(`done ${task.content}`);
  }
}

main(process.argv[2]);
