<?php
// Plays the scenarios one after the other, a line for each, and ends with 0 if all went well.

declare(strict_types=1);

require_once __DIR__ . '/scenarios.php';

// What conformance/run knows as "the filter matches none of these".
const NO_SCENARIO_MATCHES = 5;

function play(string $name): string
{
    if ($name === 'reconnect' && (string) getenv('BROKER_CONTROL') === '') {
        echo "php: $name skipped, nothing says how to restart the broker\n";
        return 'skipped';
    }
    try {
        // Each wait in a scenario has its own limit.
        (new Scenarios())->$name();
        echo "php: $name passed\n";
        return 'passed';
    } catch (Throwable $failure) {
        echo "php: $name FAILED\n$failure\n";
        return 'failed';
    }
}

$chosen = array_filter(Scenarios::NAMES, fn ($name) => str_contains($name, $argv[1] ?? ''));
$counts = ['passed' => 0, 'failed' => 0, 'skipped' => 0];
foreach ($chosen as $name) {
    $counts[play($name)]++;
}
$summary = "{$counts['passed']} passed, {$counts['failed']} failed, {$counts['skipped']} skipped\n";
if (getenv('SUMMARY_FILE')) {
    file_put_contents(getenv('SUMMARY_FILE'), $summary);
}
exit($chosen === [] ? NO_SCENARIO_MATCHES : min($counts['failed'], 1));
