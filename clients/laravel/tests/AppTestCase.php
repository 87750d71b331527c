<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Closure;
use Illuminate\Contracts\Bus\Dispatcher;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Database\Connection;
use Illuminate\Foundation\Application;
use Illuminate\Queue\WorkerOptions;
use Jobq\Laravel\JobqQueue;
use PDO;
use PHPUnit\Framework\TestCase;

/** Needs a database with jobq preloaded, which PGHOST, PGPORT, PGUSER, and PGDATABASE select, and a superuser. */
abstract class AppTestCase extends TestCase
{
    protected const LIMIT = 60;

    protected Application $app;

    protected Connection $database;

    protected string $queue;

    private PDO $observer;

    private array $processes = [];

    protected function setUp(): void
    {
        $this->app = App::make();
        $this->database = $this->app['db']->connection();
        $this->observer = new PDO('pgsql:', null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
        $this->observer->exec('SET client_min_messages = warning; CREATE TABLE IF NOT EXISTS effects (name text)');
        $this->queue = strrchr(static::class, '\\') . ' ' . bin2hex(random_bytes(4));
        Called::$calls = [];
        Called::$handle = static fn () => null;
    }

    protected function tearDown(): void
    {
        foreach ($this->processes as $process) {
            proc_terminate($process, SIGKILL);
            proc_close($process);
        }
        $this->database->disconnect();
        $this->app['db']->connection('pgsql::write')->disconnect();
        $this->ask('SELECT jobq_drop_queue(?, force => true)', $this->queue);
        $this->ask('DELETE FROM effects');
    }

    protected function jobs(string $connection = 'jobq'): JobqQueue
    {
        return $this->app['queue']->connection($connection);
    }

    protected function dispatch(object $job): int
    {
        return $this->app->make(Dispatcher::class)->dispatch($job->onQueue($this->queue));
    }

    /** Lets a worker of Laravel run the next job, if there is one. */
    protected function work(int $tries = 0): void
    {
        $options = new WorkerOptions(sleep: 0, maxTries: $tries);
        $this->app['queue.worker']->setCache($this->app['cache.store'])->runNextJob('jobq', $this->queue, $options);
    }

    /** Works, and makes retries due, until the job has this status. */
    protected function workUntil(string $status, int $job, int $tries = 0): void
    {
        $this->until(function () use ($status, $job, $tries): bool {
            $this->ask("UPDATE jobq.jobs SET run_at = now() - interval '1 minute' WHERE queue = ? AND status = 'scheduled'", $this->queue);
            $this->work($tries);
            return $this->job($job, 'status') === $status;
        }, fn () => "job $job does not become $status");
    }

    protected function until(Closure $condition, Closure $message): void
    {
        for ($deadline = microtime(true) + self::LIMIT; !$condition(); usleep(20000)) {
            if (microtime(true) > $deadline) {
                self::fail($message());
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
        }, fn () => 'the leases do not expire');
    }

    /** Starts queue:work in a process of its own, with options such as --once. */
    protected function start(string ...$options): void
    {
        $command = [PHP_BINARY, __DIR__ . '/artisan', 'queue:work', "--queue=$this->queue", '--sleep=0.05', ...$options];
        $this->processes[] = proc_open($command, [['file', '/dev/null', 'r'], ['file', $this->log(), 'a'], ['file', $this->log(), 'a']], $pipes);
    }

    /** Waits until the process that was started last has ended, and returns the signal that has ended it, or 0. */
    protected function ended(): int
    {
        $this->until(function () use (&$status): bool {
            return !($status = proc_get_status(end($this->processes)))['running'];
        }, fn () => 'the worker does not end: ' . file_get_contents($this->log()));
        return $status['signaled'] ? $status['termsig'] : 0;
    }

    protected function log(): string
    {
        return sys_get_temp_dir() . '/' . strtr($this->queue, '\\ ', '__') . '.log';
    }

    /** @return string[] the messages of the exceptions that the worker has reported */
    protected function reported(): array
    {
        return array_map(static fn ($error) => $error->getMessage(), $this->app[ExceptionHandler::class]->reported);
    }
}
