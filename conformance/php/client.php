<?php
// How every program here reaches the broker.

declare(strict_types=1);

require_once 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;

// A machine that does nothing else needs a tenth.
const LIMIT_SECS = 20;

function connect(): AMQPStreamConnection
{
    $url = parse_url(getenv('BROKER_URL'));
    $vhost = isset($url['path']) && $url['path'] !== '' ? rawurldecode(substr($url['path'], 1)) : '/';
    return new AMQPStreamConnection(
        $url['host'],
        $url['port'] ?? 5672,
        rawurldecode($url['user'] ?? 'guest'),
        rawurldecode($url['pass'] ?? 'guest'),
        $vhost,
        read_write_timeout: LIMIT_SECS
    );
}
