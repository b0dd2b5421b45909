<?php
// php-amqplib as its tutorials and its users use it.

declare(strict_types=1);

require_once __DIR__ . '/client.php';
require_once __DIR__ . '/worker_process.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPIOException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const REPLY_TO = 'amq.rabbitmq.reply-to';
// A restart of RabbitMQ takes ten seconds on a quiet machine.
const RESTART_LIMIT_SECS = 90;

final class Scenarios
{
    public const NAMES = [
        'hello', 'work_queue', 'fan_out', 'routing', 'topics', 'rpc', 'confirms', 'transactions', 'dead_letters',
        'channel_errors', 'reconnect',
    ];

    public function hello(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $queue) {
            $channel->queue_declare($queue, exclusive: true, auto_delete: false);
            $headers = ['lang' => 'en', 'stars' => 5, 'yes' => true, 'tags' => ['a', 2], 'inner' => ['big' => 2 ** 40]];
            $channel->basic_publish(new AMQPMessage('Hello World!', [
                'content_type' => 'text/plain',
                'message_id' => 'm-1',
                'timestamp' => 1_700_000_000,
                'application_headers' => new AMQPTable($headers),
            ]), '', $queue);

            [$message] = $this->take($channel, $queue, 1);

            self::equal('body', $message->getBody(), 'Hello World!');
            self::equal('redelivered', $message->isRedelivered(), false);
            self::equal('message id', $message->get('message_id'), 'm-1');
            self::equal('timestamp', $message->get('timestamp'), 1_700_000_000);
            $received = $message->get('application_headers')->getNativeData();
            ksort($received);
            ksort($headers);
            self::equal('headers', $received, $headers);
            self::equal('what is left', $channel->basic_get($queue), null);
        });
    }

    // Six tasks and three workers with one each, of which one is killed at its task.
    public function work_queue(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $queue) {
            $channel->queue_declare($queue, durable: true, auto_delete: false);
            $workers = [new WorkerProcess($queue), new WorkerProcess($queue), new WorkerProcess($queue)];
            try {
                foreach ($workers as $worker) {
                    self::equal("a worker's first word", $worker->nextLine(), 'ready');
                }
                for ($number = 1; $number <= 6; $number++) {
                    $persistent = ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT];
                    $channel->basic_publish(new AMQPMessage("task-$number", $persistent), '', $queue);
                }
                $this->shareSixTasks($workers);
            } finally {
                foreach ($workers as $worker) {
                    $worker->kill();
                }
                $channel->queue_delete($queue);
            }
        });
    }

    private function shareSixTasks(array $workers): void
    {
        $held = array_map(fn ($worker) => $worker->nextLine(), $workers);
        $first = $held;
        sort($first);
        self::equal('the first three', $first, array_map(fn ($number) => "received task-$number first", [1, 2, 3]));

        [$lost, $second, $third] = $workers;
        $lost->kill();

        $received = [$held[1], $held[2]];
        $second->goOn();
        $third->goOn();
        for ($done = 0; $done < 6;) {
            [$worker, $line] = WorkerProcess::nextLineOf($second, $third);
            if (str_starts_with($line, 'done')) {
                $done++;
            } else {
                $received[] = $line;
                $worker->goOn();
            }
        }
        sort($received);
        $wanted = array_map(fn ($number) => "received task-$number first", range(1, 6));
        $wanted = array_map(fn ($line) => $line === $held[0] ? str_replace('first', 'again', $line) : $line, $wanted);
        self::equal('all tasks of the two that were left', $received, $wanted);
    }

    public function fan_out(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $exchange) {
            $channel->exchange_declare($exchange, 'fanout');
            $subscribers = [];
            for ($i = 0; $i < 3; $i++) {
                $subscribers[] = $this->subscriber($channel, $exchange, '');
            }
            $channel->basic_publish(new AMQPMessage('news'), $exchange, 'ignored');
            foreach ($subscribers as $queue) {
                $this->expectKeys($channel, $queue, 'ignored');
            }
        });
    }

    public function routing(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $exchange) {
            $channel->exchange_declare($exchange, 'direct');
            $errors = $this->subscriber($channel, $exchange, 'error');
            $everything = $this->subscriber($channel, $exchange, 'info', 'error');
            foreach (['debug', 'info', 'error', 'info'] as $severity) {
                $channel->basic_publish(new AMQPMessage($severity), $exchange, $severity);
            }
            $this->expectKeys($channel, $everything, 'info', 'error', 'info');
            $this->expectKeys($channel, $errors, 'error');
        });
    }

    public function topics(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $exchange) {
            $channel->exchange_declare($exchange, 'topic');
            $critical = $this->subscriber($channel, $exchange, '*.critical');
            $kernel = $this->subscriber($channel, $exchange, 'kern.#', 'kern.critical');
            foreach (['cron.info', 'cron.critical', 'kern', 'kern.critical', 'kern.disk.full'] as $key) {
                $channel->basic_publish(new AMQPMessage(''), $exchange, $key);
            }
            $this->expectKeys($channel, $critical, 'cron.critical', 'kern.critical');
            $this->expectKeys($channel, $kernel, 'kern', 'kern.critical', 'kern.disk.full');
        });
    }

    public function rpc(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $queue) {
            $channel->queue_declare($queue, exclusive: true, auto_delete: false);
            $channel->basic_consume($queue, callback: function (AMQPMessage $request) {
                $reply = new AMQPMessage(
                    strtoupper($request->getBody()),
                    ['correlation_id' => $request->get('correlation_id')]
                );
                $request->getChannel()->basic_publish($reply, '', $request->get('reply_to'));
                $request->ack();
            });
            $replies = [];
            $channel->basic_consume(REPLY_TO, no_ack: true, callback: function (AMQPMessage $reply) use (&$replies) {
                $replies[$reply->get('correlation_id')] = $reply->getBody();
            });
            foreach (['a' => 'hello', 'b' => 'world'] as $id => $word) {
                $request = new AMQPMessage($word, ['correlation_id' => $id, 'reply_to' => REPLY_TO]);
                $channel->basic_publish($request, '', $queue);
            }
            while (count($replies) < 2) {
                $channel->wait(timeout: LIMIT_SECS);
            }
            self::equal('replies', $replies, ['a' => 'HELLO', 'b' => 'WORLD']);
        });
    }

    public function confirms(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $queue) {
            $full = new AMQPTable(['x-max-length' => 2, 'x-overflow' => 'reject-publish']);
            $channel->queue_declare($queue, exclusive: true, auto_delete: false, arguments: $full);
            $channel->confirm_select();
            $answers = [];
            $channel->set_ack_handler(function (AMQPMessage $message) use (&$answers) {
                $answers[] = "ack of {$message->getBody()}";
            });
            $channel->set_nack_handler(function (AMQPMessage $message) use (&$answers) {
                $answers[] = "nack of {$message->getBody()}";
            });
            $channel->set_return_listener(function ($code, $text, $exchange, $key, $message) use (&$answers) {
                $answers[] = "return of {$message->getBody()} by $code $text";
            });
            foreach (['one', 'two', 'three'] as $body) {
                $persistent = ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT];
                $channel->basic_publish(new AMQPMessage($body, $persistent), '', $queue);
                $channel->wait_for_pending_acks(LIMIT_SECS);
            }
            $channel->basic_publish(new AMQPMessage('lost'), 'amq.direct', 'nobody', mandatory: true);
            $channel->wait_for_pending_acks_returns(LIMIT_SECS);
            self::equal('answers', $answers, [
                'ack of one', 'ack of two', 'nack of three', 'return of lost by 312 NO_ROUTE', 'ack of lost',
            ]);
        });
    }

    public function transactions(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $queue) {
            $channel->queue_declare($queue, exclusive: true, auto_delete: false);
            $channel->tx_select();
            $channel->basic_publish(new AMQPMessage('dropped'), '', $queue);
            $channel->tx_rollback();
            $channel->basic_publish(new AMQPMessage('kept'), '', $queue);
            $channel->tx_commit();
            self::equal('the message', $channel->basic_get($queue, true)->getBody(), 'kept');
            self::equal('what is left', $channel->basic_get($queue, true), null);
        });
    }

    public function dead_letters(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $queue) {
            [$dead] = $channel->queue_declare('', exclusive: true, auto_delete: false);
            $arguments = new AMQPTable(['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => $dead]);
            $channel->queue_declare($queue, exclusive: true, auto_delete: false, arguments: $arguments);
            $channel->basic_publish(new AMQPMessage('refused'), '', $queue);
            $channel->basic_get($queue)->nack();
            [$letter] = $this->take($channel, $dead, 1);
            self::equal('body', $letter->getBody(), 'refused');
            $death = $letter->get('application_headers')->getNativeData()['x-death'][0];
            self::equal('death', [$death['reason'], $death['queue'], $death['count']], ['rejected', $queue, 1]);
        });
    }

    public function channel_errors(): void
    {
        $this->withChannel(function (AMQPChannel $channel, string $queue) {
            $failing = $channel->getConnection()->channel();
            try {
                $failing->queue_declare($queue, passive: true);
                throw new LogicException('a queue that does not exist was found');
            } catch (AMQPProtocolChannelException $error) {
                self::equal('code', $error->amqp_reply_code, 404);
                self::equal('text', $error->amqp_reply_text, "NOT_FOUND - no queue '$queue' in vhost '/'");
            }
            $channel->queue_declare($queue, exclusive: true, auto_delete: false);
        });
    }

    // This client does not come back by itself; its users catch the loss and connect and declare again.
    public function reconnect(): void
    {
        $exchange = self::uniqueName();
        $queue = '';
        $open = function () use ($exchange, &$queue) {
            $connection = connect();
            $channel = $connection->channel();
            $channel->exchange_declare($exchange, 'topic');
            $queue = $this->subscriber($channel, $exchange, 'news.#');
            return [$connection, $channel];
        };
        [, $channel] = $open();
        $channel->basic_publish(new AMQPMessage(''), $exchange, 'news.before');
        $this->expectKeys($channel, $queue, 'news.before');

        exec(getenv('BROKER_CONTROL') . ' restart 2>&1', $output, $code);
        self::equal('exit code of the restart, which said ' . implode("\n", $output), $code, 0);

        $deadline = time() + RESTART_LIMIT_SECS;
        try {
            $channel->wait(timeout: LIMIT_SECS);
            throw new LogicException('the connection is still there');
        } catch (AMQPConnectionClosedException) {
            // The broker said so, or was gone without a word.
        }
        do {
            try {
                [$connection, $channel] = $open();
                break;
            } catch (AMQPIOException $refused) {
                if (time() > $deadline) {
                    throw $refused;
                }
            }
        } while (true);
        $channel->basic_publish(new AMQPMessage(''), $exchange, 'news.after');
        $this->expectKeys($channel, $queue, 'news.after');
        $connection->close();
    }

    private function withChannel(callable $play): void
    {
        $connection = connect();
        try {
            $play($connection->channel(), self::uniqueName());
        } finally {
            $connection->close();
        }
    }

    // A name that nobody else uses.
    private static function uniqueName(): string
    {
        return 'conformance-' . bin2hex(random_bytes(8));
    }

    private function subscriber(AMQPChannel $channel, string $exchange, string ...$keys): string
    {
        [$queue] = $channel->queue_declare('', exclusive: true, auto_delete: false);
        foreach ($keys as $key) {
            $channel->queue_bind($queue, $exchange, $key);
        }
        return $queue;
    }

    /** @return AMQPMessage[] */
    private function take(AMQPChannel $channel, string $queue, int $count): array
    {
        $messages = [];
        $tag = $channel->basic_consume($queue, callback: function (AMQPMessage $message) use (&$messages) {
            $message->ack();
            $messages[] = $message;
        });
        while (count($messages) < $count) {
            $channel->wait(timeout: LIMIT_SECS);
        }
        $channel->basic_cancel($tag);
        return $messages;
    }

    private function expectKeys(AMQPChannel $channel, string $queue, string ...$wanted): void
    {
        $keys = array_map(fn ($message) => $message->getRoutingKey(), $this->take($channel, $queue, count($wanted)));
        self::equal('routing keys', $keys, $wanted);
        self::equal('what is left', $channel->basic_get($queue), null);
    }

    private static function equal(string $what, mixed $got, mixed $wanted): void
    {
        if ($got !== $wanted) {
            throw new LogicException("$what: got " . json_encode($got) . ', wanted ' . json_encode($wanted));
        }
    }
}
