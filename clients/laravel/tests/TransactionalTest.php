<?php

declare(strict_types=1);

namespace Jobq\Laravel\Tests;

use Illuminate\Support\Facades\DB;
use RuntimeException;

final class TransactionalTest extends AppTestCase
{
    private static function write(): void
    {
        DB::table('effects')->insert(['name' => 'written']);
    }

    public function testTheWritesAndTheCompletionAreOneTransaction(): void
    {
        Called::$handle = static fn () => self::write();
        $id = $this->dispatch(new Atomic());
        $this->work();
        self::assertSame('completed', $this->job($id, 'status'));
        self::assertSame($this->ask('SELECT xmin::text FROM effects'), $this->job($id, 'xmin::text'));
        self::assertSame([], $this->reported());
    }

    public function testAnExceptionRollsBackAndTheJobIsRetried(): void
    {
        Called::$handle = static function (Called $job): void {
            self::write();
            if ($job->attempts() === 1) {
                $job->delete();
                throw new RuntimeException('bad');
            }
        };
        $id = $this->dispatch(new Atomic());
        $this->work();
        self::assertSame([], $this->effects());
        self::assertSame('RuntimeException: bad', $this->job($id, 'error'));
        $this->workUntil('completed', $id);
        self::assertSame(['written'], $this->effects());
    }

    public function testALostLeaseRollsBack(): void
    {
        Called::$handle = function (): void {
            self::write();
            $this->expire();
        };
        $id = $this->dispatch(new Atomic());
        $this->work();
        self::assertSame([], $this->effects());
        self::assertSame(["the lease on job $id has been lost, so this attempt changed nothing in the queue"], $this->reported());
        self::assertSame('pending', $this->job($id, 'status'));
    }

    public function testAJobThatReleasesItselfKeepsItsWrites(): void
    {
        Called::$handle = static function (Called $job): void {
            self::write();
            $job->release(3600);
        };
        $id = $this->dispatch(new Atomic());
        $this->work();
        self::assertSame(['written'], $this->effects());
        self::assertSame('scheduled', $this->job($id, 'status'));
    }

    public function testChainsAreErrors(): void
    {
        $id = $this->dispatch((new Atomic())->chain([new Called()]));
        $this->work(1);
        self::assertStringContainsString('chain', $this->job($id, 'error'));
        self::assertSame([], array_filter(Called::$calls, static fn (string $call) => !str_starts_with($call, 'failed')));
    }
}
