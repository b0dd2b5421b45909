<?php
// Works on tasks with php-amqplib, one at a time; a task is done when a line comes on the standard input.
//
//   BROKER_URL=amqp://guest:guest@localhost php worker.php QUEUE

declare(strict_types=1);

require_once __DIR__ . '/client.php';

$channel = connect()->channel();
$channel->queue_declare($argv[1], durable: true, auto_delete: false);
$channel->basic_qos(0, 1, false);
$channel->basic_consume($argv[1], callback: function ($task) {
    echo "received {$task->getBody()} ", $task->isRedelivered() ? 'again' : 'first', "\n";
    fgets(STDIN);
    $task->ack();
    echo "done {$task->getBody()}\n";
});
echo "ready\n";
while ($channel->is_consuming()) {
    $channel->wait();
}
