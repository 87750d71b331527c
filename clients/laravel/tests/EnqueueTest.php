<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use DateInterval;
use DateTimeImmutable;
use Illuminate\Database\QueryException;
use InvalidArgumentException;

final class EnqueueTest extends AppTestCase
{
    private function number(): int
    {
        return $this->ask('SELECT count(*) FROM jobq.jobs WHERE queue = ?', $this->queue);
    }

    public function testDispatchIsPartOfTheTransaction(): void
    {
        $this->database->beginTransaction();
        $this->dispatch(new Called());
        self::assertSame(0, $this->number(), 'visible before the commit');
        $this->database->rollBack();
        self::assertSame(0, $this->number(), 'left by a rollback');
        $this->database->transaction(fn () => $this->dispatch(new Called()));
        self::assertSame(1, $this->number());
    }

    public function testDispatchAfterCommit(): void
    {
        $jobs = $this->jobs('after commit');
        $this->database->beginTransaction();
        $jobs->push(new Called(), '', $this->queue);
        $this->database->rollBack();
        self::assertSame(0, $this->number(), 'left by a rollback');
        $this->database->transaction(function () use ($jobs): void {
            $jobs->push(new Called(), '', $this->queue);
            self::assertSame(0, $jobs->size($this->queue), 'enqueued before the commit');
        });
        self::assertSame(1, $this->number());
    }

    public function testJobsArriveUnchanged(): void
    {
        $name = "b\0 \\u0000 é 😀 \"'";
        $id = $this->dispatch(new Called($name));
        self::assertSame(Called::class, $this->job($id, 'kind'));
        $this->work();
        self::assertSame(["$name 1"], Called::$calls);
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testRawPayloadsArriveUnchanged(): void
    {
        $payload = '{"job":"b","displayName":"a", "data":{"b":1.0,"a":{},"a":[]}}';
        $id = $this->jobs()->pushRaw($payload, $this->queue);
        $job = $this->jobs()->pop($this->queue);
        self::assertSame([$payload, $id, $this->queue], [$job->getRawBody(), $job->getJobId(), $job->getQueue()]);
    }

    public function testJobsEnqueuedWithSqlRun(): void
    {
        $id = $this->ask("SELECT jobq_enqueue(?, ?::jsonb)", $this->queue, json_encode(['job' => StringJob::class, 'data' => ['n' => 1]]));
        $this->work();
        self::assertSame(['{"n":1}'], Called::$calls);
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testDelays(): void
    {
        $at = new DateTimeImmutable('2040-01-01 00:00:00 UTC');
        $id = $this->dispatch((new Called())->delay($at));
        self::assertSame('2040-01-01 00:00:00', $this->job($id, "to_char(run_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"));
        foreach ([3600, new DateInterval('PT1H')] as $delay) {
            $id = $this->dispatch((new Called())->delay($delay));
            self::assertSame('scheduled', $this->job($id, 'status'));
            self::assertTrue($this->job($id, "run_at BETWEEN created_at + interval '59 min' AND created_at + interval '61 min'"));
        }
        $this->work();
        self::assertSame([], Called::$calls);
    }

    public function testBulkEnqueuesAllOrNone(): void
    {
        $this->jobs()->bulk([new Called(), (new Called())->delay(3600)], '', $this->queue);
        self::assertSame([2, 1], [$this->number(), $this->jobs()->delayedSize($this->queue)]);
        try {
            $this->jobs()->bulk([new Called(), new Optioned(['priority' => 40000])], '', $this->queue);
            self::fail('no error');
        } catch (QueryException $error) {
            self::assertStringContainsString('priority', $error->getMessage());
        }
        self::assertSame(2, $this->number());
    }

    public function testOptionsOfJobq(): void
    {
        $id = $this->dispatch(new Optioned(['unique_key' => 'k', 'priority' => -5, 'metadata' => ['tenant' => 7]]));
        self::assertSame([-5, '{"tenant": 7}'], [$this->job($id, 'priority'), $this->job($id, 'metadata::text')]);
        self::assertSame($id, $this->dispatch(new Optioned(['unique_key' => 'k'])), 'a duplicate');
        $payload = $this->jobs()->pop($this->queue)->getRawBody();
        $this->ask('SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE id = ?', $id);
        $again = $this->jobs()->pushRaw($payload, $this->queue);
        self::assertNotSame($id, $again);
        self::assertSame(['k', -5], [$this->job($again, 'unique_key'), $this->job($again, 'priority')], 'as queue:retry enqueues it');
    }

    /** @return array<string, array{object, string}> */
    private static function unsupported(): array
    {
        $grouped = new class extends Called {
            public $messageGroup = 'g';
        };
        $deduplicated = new class extends Called {
            public $deduplicator = 'strlen';
        };
        $slow = new Called();
        $slow->timeout = 3600;
        return [
            'a message group' => [$grouped, 'group_key'],
            'a deduplicator' => [$deduplicated, 'unique_key'],
            'a timeout of at least retry_after' => [$slow, 'retry_after'],
            'max_attempts in jobq()' => [new Optioned(['max_attempts' => 3]), '$tries'],
            'queue in jobq()' => [new Optioned(['queue' => 'b']), 'onQueue()'],
            'requires in jobq()' => [new Optioned(['requires' => ['gpu']]), 'requires'],
        ];
    }

    public function testUnsupportedFeaturesAreErrors(): void
    {
        foreach (self::unsupported() as $what => [$job, $says]) {
            try {
                $this->dispatch($job);
                self::fail("no error: $what");
            } catch (InvalidArgumentException $error) {
                self::assertStringContainsString($says, $error->getMessage(), $what);
            }
        }
        self::assertSame(0, $this->number());
        $this->expectException(InvalidArgumentException::class);
        $this->jobs()->pushRaw('{}', $this->queue, ['delay' => 1]);
    }

    public function testUnknownOptionsOfJobqAreErrors(): void
    {
        $this->expectException(QueryException::class);
        $this->expectExceptionMessage('prio');
        $this->dispatch(new Optioned(['prio' => 1]));
    }

    public function testSizes(): void
    {
        $jobs = $this->jobs();
        self::assertSame([0, null], [$jobs->size($this->queue), $jobs->creationTimeOfOldestPendingJob($this->queue)]);
        $first = $this->dispatch(new Called());
        $this->dispatch((new Called())->delay(3600));
        $this->dispatch(new Called());
        $claimed = $jobs->pop($this->queue);
        self::assertSame($first, $claimed->getJobId());
        self::assertSame([3, 1, 1, 1], [$jobs->size($this->queue), $jobs->pendingSize($this->queue), $jobs->delayedSize($this->queue),
            $jobs->reservedSize($this->queue)]);
        self::assertEqualsWithDelta(time(), $jobs->creationTimeOfOldestPendingJob($this->queue), self::LIMIT);
        self::assertSame(2, $jobs->clear($this->queue));
        self::assertSame(1, $jobs->size($this->queue), 'the running job');
    }
}
