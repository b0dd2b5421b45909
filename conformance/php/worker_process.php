<?php
// A worker of the work queue as a process, what it prints, and how it is told that its task is done.

declare(strict_types=1);

final class WorkerProcess
{
    private $process;
    private array $pipes = [];
    private string $unread = '';

    public function __construct(string $queue)
    {
        $command = [PHP_BINARY, __DIR__ . '/worker.php', $queue];
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $this->pipes);
        stream_set_blocking($this->pipes[1], false);
    }

    public function nextLine(): string
    {
        return self::nextLineOf($this)[1];
    }

    /** @return array{WorkerProcess, string} the first of these workers that has a line, and the line */
    public static function nextLineOf(WorkerProcess ...$workers): array
    {
        $deadline = microtime(true) + LIMIT_SECS;
        do {
            foreach ($workers as $worker) {
                $end = strpos($worker->unread, "\n");
                if ($end !== false) {
                    $line = substr($worker->unread, 0, $end);
                    $worker->unread = substr($worker->unread, $end + 1);
                    return [$worker, $line];
                }
            }
            $readable = array_map(fn ($worker) => $worker->pipes[1], $workers);
            $none = null;
            if (stream_select($readable, $none, $none, LIMIT_SECS) > 0) {
                foreach ($workers as $worker) {
                    $worker->unread .= stream_get_contents($worker->pipes[1]);
                }
            }
        } while (microtime(true) < $deadline);
        throw new LogicException('a worker says nothing');
    }

    public function goOn(): void
    {
        fwrite($this->pipes[0], "\n");
    }

    public function kill(): void
    {
        if (is_resource($this->process)) {
            proc_terminate($this->process, 9);
            proc_close($this->process);
        }
    }
}
