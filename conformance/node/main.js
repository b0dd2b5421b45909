// Runs the scenarios one after the other, a line for each, and ends with 0 if all went well.

const fs = require("fs");
const { LIMIT_MS, within } = require("./conditions");

const scenarios = [...require("./with_amqplib"), ...require("./with_connection_manager"), ...require("./with_http")];

// A restart of RabbitMQ takes ten seconds on a quiet machine.
const RESTART_LIMIT_MS = 90_000;

async function run(scenario) {
  if (scenario.restarts && !process.env.BROKER_CONTROL) {
    console.log(`node: ${scenario.name} skipped, nothing says how to restart the broker`);
    return "skipped";
  }
  try {
    await within(scenario.restarts ? RESTART_LIMIT_MS : LIMIT_MS, scenario.play(), "the scenario's end");
    console.log(`node: ${scenario.name} passed`);
    return "passed";
  } catch (error) {
    console.log(`node: ${scenario.name} FAILED\n${error.stack}`);
    return "failed";
  }
}

// What conformance/run knows as "the filter matches none of these".
const NO_SCENARIO_MATCHES = 5;

async function main() {
  const chosen = scenarios.filter(({ name }) => name.includes(process.argv[2] ?? ""));
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const scenario of chosen) {
    counts[await run(scenario)] += 1;
  }
  const summary = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
  if (process.env.SUMMARY_FILE) fs.writeFileSync(process.env.SUMMARY_FILE, `${summary}\n`);
  // A failed scenario may leave a connection open, which must not keep the process.
  process.exit(chosen.length === 0 ? NO_SCENARIO_MATCHES : Math.min(counts.failed, 1));
}

main();
