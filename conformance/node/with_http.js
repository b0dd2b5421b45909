// The HTTP API with what Node itself has: fetch, which keeps connections alive and refuses credentials in URLs.

const assert = require("assert/strict");
const { execSync } = require("child_process");
const { randomUUID } = require("crypto");

function whereAndWho() {
  const { BROKER_HTTP_URL, BROKER_CONTROL } = process.env;
  const url = new URL(BROKER_HTTP_URL ?? execSync(`${BROKER_CONTROL} http`).toString().trim());
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return { origin: url.origin, authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

// Asks and gives status and body; a body that is JSON is what it stands for.
function client() {
  const { origin, authorization } = whereAndWho();
  return async (method, path, body) => {
    const answer = await fetch(`${origin}/api/${path}`, {
      method,
      headers: { authorization, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? null : JSON.parse(text), headers: answer.headers };
  };
}

// A vhost whose name has to be escaped. With a space or a letter beyond ASCII in it RabbitMQ itself errs in places.
async function inVhost(play) {
  const ask = client();
  const vhost = encodeURIComponent(`node/${randomUUID()}`);
  assert.equal((await ask("PUT", `vhosts/${vhost}`, {})).status, 201);
  try {
    await play(ask, vhost);
  } finally {
    assert.equal((await ask("DELETE", `vhosts/${vhost}`)).status, 204);
  }
}

function messages() {
  return inVhost(async (ask, vhost) => {
    assert.equal((await ask("PUT", `queues/${vhost}/jobs`, { durable: true })).status, 201);
    assert.equal((await ask("PUT", `exchanges/${vhost}/logs`, { type: "topic", durable: true })).status, 201);
    const bound = await ask("POST", `bindings/${vhost}/e/logs/q/jobs`, { routing_key: "a.*" });
    assert.equal(bound.status, 201);
    assert.match(bound.headers.get("location"), /^jobs\//);
    const publish = (key, payload) =>
      ask("POST", `exchanges/${vhost}/logs/publish`, {
        properties: { delivery_mode: 2, headers: { n: 1 } },
        routing_key: key,
        payload: Buffer.from(payload).toString("base64"),
        payload_encoding: "base64",
      });
    assert.deepEqual((await publish("a.b", "grüße")).body, { routed: true });
    assert.deepEqual((await publish("b", "lost")).body, { routed: false });
    const got = await ask("POST", `queues/${vhost}/jobs/get`, {
      count: 5,
      ackmode: "ack_requeue_false",
      encoding: "auto",
    });
    assert.equal(got.status, 200);
    assert.equal(got.body.length, 1);
    const [message] = got.body;
    assert.equal(message.payload, "grüße");
    assert.equal(message.payload_bytes, 7);
    assert.equal(message.routing_key, "a.b");
    assert.deepEqual(message.properties, { delivery_mode: 2, headers: { n: 1 } });
  });
}

function refusals() {
  return inVhost(async (ask, vhost) => {
    assert.equal((await ask("GET", `queues/${vhost}/none`)).status, 404);
    assert.equal((await ask("PUT", `queues/${vhost}/q`, { durable: true })).status, 201);
    assert.equal((await ask("PUT", `queues/${vhost}/q`, { durable: true })).status, 204);
    const other = await ask("PUT", `queues/${vhost}/q`, { durable: false });
    assert.equal(other.status, 400);
    assert.match(other.body.reason, /inequivalent arg 'durable' for queue 'q'/);
    const { origin } = whereAndWho();
    const nobody = await fetch(`${origin}/api/overview`);
    assert.equal(nobody.status, 401);
    assert.equal(await nobody.text(), "");
  });
}

function manyAtOnce() {
  return inVhost(async (ask, vhost) => {
    const names = Array.from({ length: 50 }, (_, number) => `q${number}`);
    const made = await Promise.all(names.map((name) => ask("PUT", `queues/${vhost}/${name}`, { durable: true })));
    assert.deepEqual(new Set(made.map(({ status }) => status)), new Set([201]));
    const listed = await ask("GET", `queues/${vhost}?page=1&page_size=20&name=q&sort=name&columns=name`);
    assert.equal(listed.body.filtered_count, 50);
    assert.equal(listed.body.items.length, 20);
    assert.deepEqual(listed.body.items[0], { name: "q0" });
  });
}

module.exports = [
  { name: "http_publish_and_get", play: messages },
  { name: "http_refusals", play: refusals },
  { name: "http_many_at_once", play: manyAtOnce },
];
