<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Queue\Events\JobFailed;
use Jobq\Laravel\LeaseLost;
use RuntimeException;

final class LeaseTest extends AppTestCase
{
    /** Lets another worker take the job of the queue. */
    private function steal(): void
    {
        $this->expire();
        self::assertNotNull($this->ask("SELECT id FROM jobq_claim(?, 'thief')", $this->queue));
    }

    public function testReportsOfAZombieChangeNothingAndAreReported(): void
    {
        $this->app['events']->listen(JobFailed::class, static fn () => self::fail('JobFailed was raised'));
        $ends = [
            'returns' => static fn () => null,
            'throws' => static fn () => throw new RuntimeException('bad'),
            'releases itself' => static fn (Called $job) => $job->release(5),
            'fails' => static fn (Called $job) => $job->fail(new RuntimeException('bad')),
            'deletes itself' => static fn (Called $job) => $job->delete(),
            'sends a heartbeat' => static fn (Called $job) => $job->job->heartbeat(),
        ];
        foreach ($ends as $what => $end) {
            foreach ([1, 0] as $tries) {
                Called::$calls = $this->app[ExceptionHandler::class]->reported = [];
                Called::$handle = function (Called $job) use ($end): void {
                    $this->steal();
                    $end($job);
                };
                $id = $this->dispatch(new Called());
                $this->work($tries);
                self::assertSame(["the lease on job $id has been lost, so this attempt changed nothing in the queue"], $this->reported(), $what);
                self::assertNotInstanceOf(LeaseLost::class, $this->app[ExceptionHandler::class]->reported[0]->getPrevious(), "$what: a second report");
                self::assertSame(['processing', 'thief'], [$this->job($id, 'status'), $this->job($id, 'worker_id')], $what);
                self::assertSame(['a 1'], Called::$calls, $what);
                $this->ask('SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE id = ?', $id);
            }
        }
    }

    public function testAReportThatHasArrivedBeforeIsNoError(): void
    {
        $reports = [
            'jobq_complete(id, lease)' => static fn () => null,
            "jobq_fail(id, lease, 'bad', '1 h')" => static fn () => throw new RuntimeException('bad'),
        ];
        foreach ($reports as $report => $end) {
            Called::$handle = function (Called $job) use ($report, $end): void {
                $this->ask("SELECT $report FROM jobq.jobs WHERE id = ?", $job->job->getJobId());
                $end();
            };
            $this->dispatch(new Called());
            $this->work();
        }
        self::assertSame(['bad'], $this->reported());
    }

    public function testATransactionThatAJobLeavesOpenDoesNotAffectTheWorker(): void
    {
        Called::$handle = fn () => $this->database->beginTransaction();
        $id = $this->dispatch(new Called());
        $this->work();
        $this->database->rollBack();
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testAJobWhoseWorkerWasKilledRunsAgain(): void
    {
        $id = $this->dispatch(new Effect('kill'));
        $this->start('--once');
        self::assertSame(SIGKILL, $this->ended());
        self::assertSame('processing', $this->job($id, 'status'));
        $this->expire();
        $this->workUntil('completed', $id);
        self::assertSame(['attempt 1', 'attempt 2'], $this->effects());
    }

    public function testAJobWithASingleTryFailsAfterItsWorkerWasKilled(): void
    {
        $id = $this->dispatch(new Effect('kill'));
        $this->start('--once');
        self::assertSame(SIGKILL, $this->ended());
        $this->expire();
        $this->work(1);
        self::assertSame('failed', $this->job($id, 'status'));
        self::assertStringContainsString('attempted too many times', $this->job($id, 'error'));
        self::assertSame(['attempt 1'], $this->effects());
    }

    public function testAJobThatTimesOutRunsAgain(): void
    {
        $id = $this->dispatch(new Effect('hang'));
        $this->start('--tries=2');   // --once sets no timeout
        self::assertSame(SIGKILL, $this->ended(), file_get_contents($this->log()));
        if (class_exists('Illuminate\Queue\Events\JobTimedOut')) {
            self::assertSame([Effect::class . ' has timed out.', 0], [$this->job($id, 'error'), $this->job($id, 'lost_attempts')]);
        } else {
            $this->expire();
        }
        $this->workUntil('completed', $id);
        self::assertSame(['attempt 1', 'attempt 2'], $this->effects());
    }

    public function testAWorkerThatBlocksTakesTheNextJob(): void
    {
        $this->start('blocking', '--once');
        $this->until(fn () => $this->ask("SELECT client FROM jobq.workers WHERE queues = ARRAY[?] AND state = 'waiting'", $this->queue) === 'jobq-laravel 0.1.0');
        $id = $this->dispatch(new Effect());
        self::assertSame(0, $this->ended());
        self::assertSame('completed', $this->job($id, 'status'));
    }
}
