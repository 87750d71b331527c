<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Contracts\Bus\Dispatcher;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Database\Connection;
use Illuminate\Foundation\Application;
use Illuminate\Queue\WorkerOptions;
use Jobq\Laravel\JobqQueue;
use Jobq\Tests\Observed;
use PHPUnit\Framework\TestCase;

abstract class AppTestCase extends TestCase
{
    use Observed;

    protected Application $app;

    protected Connection $database;

    protected function setUp(): void
    {
        $this->app = App::make();
        $this->database = $this->app['db']->connection();
        $this->observe();
        Called::$calls = [];
        Called::$handle = static fn () => null;
    }

    protected function tearDown(): void
    {
        $this->killProcesses();
        $this->database->disconnect();
        $this->app['db']->connection('pgsql::write')->disconnect();
        $this->dropQueues($this->queue);
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
            $this->makeDue();
            $this->work($tries);
            return $this->job($job, 'status') === $status;
        });
    }

    /** Starts queue:work in a process of its own, with options such as --once. */
    protected function start(string ...$options): void
    {
        $this->startProcess(__DIR__ . '/artisan', 'queue:work', "--queue=$this->queue", '--sleep=0.05', ...$options);
    }

    /** @return string[] the messages of the exceptions that the worker has reported */
    protected function reported(): array
    {
        return array_map(static fn ($error) => $error->getMessage(), $this->app[ExceptionHandler::class]->reported);
    }
}
