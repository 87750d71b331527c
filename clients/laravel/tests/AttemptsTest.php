<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Queue\Events\JobFailed;
use RuntimeException;

final class AttemptsTest extends AppTestCase
{
    public function testFailedAttemptsAreRetriedWithTheBackoffOfTheJob(): void
    {
        Called::$handle = static fn (Called $job) => $job->attempts() < 3 ? throw new RuntimeException("bad\0 \xff") : null;
        $job = new Called();
        $job->backoff = [3600, 7200];
        $id = $this->dispatch($job);
        foreach ([1 => '01:00:00', 2 => '02:00:00'] as $attempt => $delay) {
            $this->work();
            self::assertSame('scheduled', $this->job($id, 'status'));
            self::assertSame('RuntimeException: bad\0 ?', $this->job($id, 'error'));
            self::assertTrue($this->job($id, "run_at > now() + interval '$delay' - interval '1 min'"), $delay);
            $this->ask("UPDATE jobq.jobs SET run_at = now() - interval '1 minute' WHERE id = ?", $id);
        }
        $this->workUntil('completed', $id);
        self::assertSame(['a 1', 'a 2', 'a 3'], Called::$calls);
    }

    public function testLaravelDecidesWhenAJobFails(): void
    {
        $failed = [];
        $this->app['events']->listen(JobFailed::class, static function (JobFailed $event) use (&$failed): void {
            $failed[] = $event->job->getJobId();
        });
        Called::$handle = static fn () => throw new RuntimeException('bad');
        $job = new Called();
        $job->tries = 25;   // more than the default of jobq
        $id = $this->dispatch($job);
        $this->workUntil('failed', $id);
        self::assertSame(25, $this->job($id, 'attempts'));
        self::assertSame('failed: bad', end(Called::$calls));
        self::assertSame([$id], $failed);
        self::assertSame('RuntimeException: bad', $this->job($id, 'error'));
    }

    public function testTriesOfTheWorkerApply(): void
    {
        Called::$handle = static fn () => throw new RuntimeException('bad');
        $id = $this->dispatch(new Called());
        $this->workUntil('failed', $id, 2);
        self::assertSame(['a 1', 'a 2', 'failed: bad'], Called::$calls);
    }

    public function testAJobThatReleasesItselfCountsTheAttempt(): void
    {
        Called::$handle = static fn (Called $job) => $job->attempts() === 1 ? $job->release(3600) : null;
        $id = $this->dispatch(new Called());
        $this->work();
        self::assertSame(['scheduled', null], [$this->job($id, 'status'), $this->job($id, 'error')]);
        $this->workUntil('completed', $id);
        self::assertSame(['a 1', 'a 2'], Called::$calls);
        self::assertSame([], $this->reported());
    }

    public function testAJobThatFailsItself(): void
    {
        Called::$handle = static fn (Called $job) => $job->fail(new RuntimeException('no use'));
        $id = $this->dispatch(new Called());
        $this->work();
        self::assertSame(['failed', 'RuntimeException: no use'], [$this->job($id, 'status'), $this->job($id, 'error')]);
        self::assertSame(['a 1', 'failed: no use'], Called::$calls);
    }

    public function testAFailedJobThatJobqDoesNotKeep(): void
    {
        $this->ask("SELECT jobq_create_queue(?, keep_failed => '0')", $this->queue);
        Called::$handle = static fn () => throw new RuntimeException('bad');
        $id = $this->dispatch(new Called());
        $this->work(1);
        self::assertFalse($this->job($id, 'status'));
        self::assertSame([['bad'], ['a 1', 'failed: bad']], [$this->reported(), Called::$calls]);
    }

    public function testAJobThatDeletesItselfIsCompleted(): void
    {
        Called::$handle = static function (Called $job): void {
            $job->delete();
        };
        $id = $this->dispatch(new Called());
        $this->work();
        self::assertSame('completed', $this->job($id, 'status'));
        self::assertSame([], $this->reported());
    }

    public function testAJobThatACancellationHasReachedEnds(): void
    {
        Called::$handle = function (Called $job) use (&$states): void {
            $states[] = $job->job->heartbeat();
            $this->ask('SELECT jobq_cancel(?)', $job->job->getJobId());
            $states[] = $job->job->heartbeat();
            $job->fail();
            $states[] = $job->job->heartbeat();
        };
        $id = $this->dispatch(new Called());
        $this->work();
        self::assertSame(['held', 'cancel', 'finished'], $states);
        self::assertSame('cancelled', $this->job($id, 'status'));
    }
}
