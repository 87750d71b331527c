<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use RuntimeException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;

final class LeaseTest extends AppTestCase
{
    public function testReportsOfAZombieChangeNothingAndAreLogged(): void
    {
        foreach (['ack' => static fn () => null, 'retry' => static fn () => throw new RuntimeException('bad')] as $what => $end) {
            $this->app->log->warnings = [];
            $this->handle = function () use ($end): void {
                $this->steal();
                $end();
            };
            $id = $this->dispatch();
            $this->work();
            self::assertSame(["The lease on job $id has been lost, so another worker may handle its message as well."
                . ' This attempt changes nothing in the queue.'], $this->app->log->warnings, $what);
            self::assertSame(['processing', 'thief'], [$this->job($id, 'status'), $this->job($id, 'worker_id')], $what);
            $this->ask('SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE id = ?', $id);
        }
        self::assertSame(['completed', 'completed'], $this->statuses(), 'no retry was sent');
    }

    public function testAZombieThatRejectsItsMessageIsLogged(): void
    {
        $this->makeApp(retries: 0);
        $this->handle = function (): void {
            $this->steal();
            throw new RuntimeException('bad');
        };
        $id = $this->dispatch();
        $this->work();
        self::assertCount(1, $this->app->log->warnings);
        self::assertSame('processing', $this->job($id, 'status'));
    }

    public function testAReportThatHasArrivedBeforeIsNoWarning(): void
    {
        $this->handle = fn () => $this->ask("SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = ? AND status = 'processing'", $this->queue);
        $this->dispatch();
        $this->work();
        self::assertSame([['completed'], []], [$this->statuses(), $this->app->log->warnings]);
    }

    public function testTheWorkerReconnects(): void
    {
        foreach ([static fn () => null, static fn () => throw new RuntimeException('bad')] as $end) {
            $this->handle = function () use ($end): void {
                $this->ask("SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
                            WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ~ 'jobq_claim_any'");
                $end();
            };
            $this->dispatch();
            $this->work();
        }
        self::assertSame([['completed', 'completed', 'scheduled'], []], [$this->statuses(), $this->app->log->warnings]);
    }

    public function testAMessageWhoseWorkerWasKilledIsHandledAgain(): void
    {
        $id = $this->dispatch();
        $this->start('kill');
        self::assertSame(SIGKILL, $this->ended());
        self::assertSame('processing', $this->job($id, 'status'));
        $this->expire();
        $this->work();
        self::assertSame([['handled'], ['a']], [$this->effects(), $this->handled]);
        self::assertSame(['completed', 2], [$this->job($id, 'status'), $this->job($id, 'attempts')]);
    }

    public function testAWorkerThatWaitsTakesTheNextMessage(): void
    {
        $this->start('return', '--limit=1');
        $this->until(fn () => $this->ask("SELECT client FROM jobq.workers WHERE queues = ARRAY[?] AND state = 'waiting'", $this->queue) === 'jobq-messenger 0.1.0');
        $id = $this->dispatch();
        self::assertSame(0, $this->ended());
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testTheLeaseLastsForTheRedeliverTimeout(): void
    {
        $this->makeApp('&redeliver_timeout=45');
        $id = $this->dispatch();
        [$received] = $this->app->async()->get();
        self::assertSame('00:00:45', $this->ask('SELECT heartbeat_timeout::text FROM jobq_get(?)', $id));
        $this->ask("UPDATE jobq.jobs SET last_heartbeat = now() - interval '30 s' WHERE id = ?", $id);
        $this->app->async()->keepalive($received, 5);
        self::assertTrue($this->job($id, "last_heartbeat > now() - interval '15 s'"));
        $this->steal();
        $this->app->async()->keepalive($received, 5);
        self::assertCount(1, $this->app->log->warnings);
        $this->expectException(TransportException::class);
        $this->app->async()->keepalive($received, 45);
    }

    public function testMessengerSendsHeartbeats(): void
    {
        if (!interface_exists(KeepaliveReceiverInterface::class)) {
            self::markTestSkipped('this version of Messenger has no keepalive');
        }
        $id = $this->dispatch();
        $this->start('wait', '--limit=1', '--keepalive=1');
        $this->until(fn () => $this->effects() === ['handled']);
        foreach ([1, 2] as $heartbeat) {
            $last = $this->job($id, 'last_heartbeat');
            $this->until(fn () => $this->job($id, 'last_heartbeat') !== $last);
        }
        $this->ask("INSERT INTO effects VALUES ('go on')");
        self::assertSame(0, $this->ended());
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testSeveralQueues(): void
    {
        $other = "$this->queue failed";
        $this->app->transports->get('failed')->send($this->app->bus->dispatch(new Message('b')));
        $names = [];
        while ($received = [...$this->app->async()->getFromQueues([$other, $this->queue])]) {
            $names[] = $received[0]->getMessage()->name();
            $this->app->async()->ack($received[0]);
        }
        self::assertSame(['b', 'b'], $names);
        self::assertSame([['completed'], ['completed']], [$this->statuses(), $this->statuses($other)]);
    }
}
