<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Closure;
use PDO;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerRunningEvent;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Worker;

/** Needs a database with jobq preloaded, which PGHOST, PGPORT, PGUSER, and PGDATABASE select, and a superuser. */
abstract class AppTestCase extends TestCase
{
    protected const LIMIT = 60;

    protected App $app;

    protected string $queue;

    /** What the handler does with a message, in addition to noting its name. */
    protected Closure $handle;

    /** @var string[] */
    protected array $handled = [];

    private PDO $observer;

    private array $processes = [];

    protected function setUp(): void
    {
        $this->observer = new PDO('pgsql:', null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
        $this->observer->exec('SET client_min_messages = warning; CREATE TABLE IF NOT EXISTS effects (name text)');
        $this->queue = substr(strrchr(static::class, '\\'), 1) . ' ' . bin2hex(random_bytes(4));
        $this->handle = static fn () => null;
        $this->makeApp();
    }

    protected function makeApp(string $options = '', int $retries = 2, bool $transactional = false): void
    {
        $this->app = new App($this->queue, function (Message $message): void {
            $this->handled[] = $message->name();
            ($this->handle)($message);
        }, $options, $retries, $transactional);
    }

    protected function tearDown(): void
    {
        foreach ($this->processes as $process) {
            proc_terminate($process, SIGKILL);
            proc_close($process);
        }
        $this->app->connection->close();
        foreach ([$this->queue, "$this->queue failed"] as $queue) {
            $this->ask('SELECT jobq_drop_queue(?, force => true)', $queue);
        }
        $this->ask('DELETE FROM effects');
    }

    /** Dispatches a message and returns the id of its job. */
    protected function dispatch(object ...$stamps): int
    {
        return $this->id($this->app->bus->dispatch(new Message(), $stamps));
    }

    protected function id(Envelope $envelope): int
    {
        return $envelope->last(TransportMessageIdStamp::class)->getId();
    }

    /** Lets a worker of Messenger handle the next message, if there is one. */
    protected function work(string $transport = 'async'): void
    {
        $worker = new Worker([$transport => $this->app->transports->get($transport)], $this->app->bus, $this->app->events);
        $stop = static fn (WorkerRunningEvent $event) => $event->getWorker()->stop();
        $this->app->events->addListener(WorkerRunningEvent::class, $stop);
        $worker->run(['sleep' => 0]);
        $this->app->events->removeListener(WorkerRunningEvent::class, $stop);
    }

    /** Makes delayed messages due. */
    protected function makeDue(): void
    {
        $this->ask("UPDATE jobq.jobs SET run_at = now() - interval '1 minute' WHERE queue = ? AND status = 'scheduled'", $this->queue);
    }

    /** Works, and makes retries due, until the condition is true. */
    protected function workUntil(Closure $condition): void
    {
        $this->until(function () use ($condition): bool {
            $this->makeDue();
            $this->work();
            return $condition();
        });
    }

    protected function until(Closure $condition): void
    {
        for ($deadline = microtime(true) + self::LIMIT; !$condition(); usleep(20000)) {
            if (microtime(true) > $deadline) {
                self::fail('the condition does not become true; jobs: ' . json_encode($this->jobs()) . '; output: ' . @file_get_contents($this->log()));
            }
        }
        self::assertTrue(true);
    }

    /** Runs a statement on a connection of the test, and returns the first column of the first row. */
    protected function ask(string $statement, mixed ...$values): mixed
    {
        $prepared = $this->observer->prepare($statement);
        $prepared->execute($values);
        return $prepared->columnCount() ? $prepared->fetchColumn() : null;
    }

    protected function job(int $id, string $column): mixed
    {
        return $this->ask("SELECT $column FROM jobq.jobs WHERE id = ?", $id);
    }

    /** Returns the statuses of the jobs of a queue, in the order of their ids. */
    protected function jobs(?string $queue = null): array
    {
        $prepared = $this->observer->prepare('SELECT status FROM jobq.jobs WHERE queue = ? ORDER BY id');
        $prepared->execute([$queue ?? $this->queue]);
        return $prepared->fetchAll(PDO::FETCH_COLUMN);
    }

    protected function effects(): array
    {
        return $this->observer->query('SELECT name FROM effects ORDER BY 1')->fetchAll(PDO::FETCH_COLUMN);
    }

    /** Ends the leases of the queue, as if its workers had fallen silent. */
    protected function expire(): void
    {
        $this->until(function (): bool {
            $this->ask("UPDATE jobq.jobs SET last_heartbeat = now() - interval '400 days' WHERE queue = ? AND status = 'processing'", $this->queue);
            $this->ask('SELECT count(*) FROM jobq_tick()');
            return $this->ask("SELECT count(*) FROM jobq.jobs WHERE queue = ? AND status = 'processing'", $this->queue) === 0;
        });
    }

    /** Lets another worker take the job of the queue. */
    protected function steal(): void
    {
        $this->expire();
        self::assertNotFalse($this->ask("SELECT id FROM jobq_claim(?, 'thief')", $this->queue));
    }

    /** Starts messenger:consume in a process of its own. */
    protected function start(string $ends, string ...$arguments): void
    {
        $output = ['file', $this->log(), 'a'];
        $command = [PHP_BINARY, __DIR__ . '/console', $this->queue, $ends, ...$arguments];
        $this->processes[] = proc_open($command, [['file', '/dev/null', 'r'], $output, $output], $pipes);
    }

    /** Waits until the process that was started last has ended, and returns the signal that has ended it, or 0. */
    protected function ended(): int
    {
        $this->until(function () use (&$status): bool {
            return !($status = proc_get_status(end($this->processes)))['running'];
        });
        return $status['signaled'] ? $status['termsig'] : 0;
    }

    protected function log(): string
    {
        return sys_get_temp_dir() . '/' . strtr($this->queue, ' ', '_') . '.log';
    }
}
