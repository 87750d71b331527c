<?php

declare(strict_types=1);

namespace Jobq\Tests;

use Closure;
use PDO;

/**
 * What the tests of the PHP adapters share: a queue for each test, a connection that observes its jobs, and workers in processes of
 * their own. Needs a database with jobq preloaded, which PGHOST, PGPORT, PGUSER, and PGDATABASE select, and a superuser.
 */
trait Observed
{
    protected const LIMIT = 60;

    protected string $queue;

    private PDO $observer;

    private array $processes = [];

    private function observe(): void
    {
        $this->observer = new PDO('pgsql:', null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
        $this->observer->exec('SET client_min_messages = warning; CREATE TABLE IF NOT EXISTS effects (name text)');
        $this->queue = substr(strrchr(static::class, '\\'), 1) . ' ' . bin2hex(random_bytes(4));
    }

    /** Kills the processes that a test has left. */
    private function killProcesses(): void
    {
        foreach ($this->processes as $process) {
            proc_terminate($process, SIGKILL);
            proc_close($process);
        }
    }

    private function dropQueues(string ...$queues): void
    {
        foreach ($queues as $queue) {
            $this->ask('SELECT jobq_drop_queue(?, force => true)', $queue);
        }
        $this->ask('DELETE FROM effects');
    }

    protected function until(Closure $condition): void
    {
        for ($deadline = microtime(true) + self::LIMIT; !$condition(); usleep(20000)) {
            if (microtime(true) > $deadline) {
                self::fail('the condition does not become true; jobs: ' . json_encode($this->statuses()) . '; output: ' . @file_get_contents($this->log()));
            }
        }
        self::assertTrue(true);
    }

    /** Runs a statement on the connection of the test, and returns the first column of the first row. */
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
    protected function statuses(?string $queue = null): array
    {
        $prepared = $this->observer->prepare('SELECT status FROM jobq.jobs WHERE queue = ? ORDER BY id');
        $prepared->execute([$queue ?? $this->queue]);
        return $prepared->fetchAll(PDO::FETCH_COLUMN);
    }

    protected function effects(): array
    {
        return $this->observer->query('SELECT name FROM effects ORDER BY 1')->fetchAll(PDO::FETCH_COLUMN);
    }

    /** Makes the scheduled jobs of the queue due. */
    protected function makeDue(): void
    {
        $this->ask("UPDATE jobq.jobs SET run_at = now() - interval '1 minute' WHERE queue = ? AND status = 'scheduled'", $this->queue);
    }

    /** Lets the leases of the queue expire, as if its workers had stopped sending heartbeats. */
    protected function expire(): void
    {
        $this->until(function (): bool {
            $this->ask("UPDATE jobq.jobs SET last_heartbeat = now() - interval '400 days' WHERE queue = ? AND status = 'processing'", $this->queue);
            $this->ask('SELECT count(*) FROM jobq_tick()');
            return $this->ask("SELECT count(*) FROM jobq.jobs WHERE queue = ? AND status = 'processing'", $this->queue) === 0;
        });
    }

    /** Starts a PHP program in a process of its own. */
    protected function startProcess(string ...$arguments): void
    {
        $output = ['file', $this->log(), 'a'];
        $this->processes[] = proc_open([PHP_BINARY, ...$arguments], [['file', '/dev/null', 'r'], $output, $output], $pipes);
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
