<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Closure;
use Jobq\Tests\Observed;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerRunningEvent;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Worker;

abstract class AppTestCase extends TestCase
{
    use Observed;

    protected App $app;

    /** What the handler does with a message, in addition to noting its name. */
    protected Closure $handle;

    /** @var string[] */
    protected array $handled = [];

    protected function setUp(): void
    {
        $this->observe();
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
        $this->killProcesses();
        $this->app->connection->close();
        $this->dropQueues($this->queue, "$this->queue failed");
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

    /** Works, and makes retries due, until the condition is true. */
    protected function workUntil(Closure $condition): void
    {
        $this->until(function () use ($condition): bool {
            $this->makeDue();
            $this->work();
            return $condition();
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
        $this->startProcess(__DIR__ . '/console', $this->queue, $ends, ...$arguments);
    }
}
