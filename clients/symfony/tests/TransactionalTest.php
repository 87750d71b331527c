<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use RuntimeException;

final class TransactionalTest extends AppTestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        $this->makeApp(transactional: true);
    }

    private function write(): void
    {
        $this->app->connection->executeStatement("INSERT INTO effects VALUES ('written')");
    }

    public function testTheWritesAndTheCompletionAreOneTransaction(): void
    {
        $this->handle = fn () => $this->write();
        $id = $this->dispatch();
        $this->work();
        self::assertSame(['completed', []], [$this->job($id, 'status'), $this->app->log->warnings]);
        self::assertSame($this->ask('SELECT xmin::text FROM effects'), $this->job($id, 'xmin::text'));
    }

    public function testAnExceptionRollsBackAndTheMessageIsRetried(): void
    {
        $this->handle = function (): void {
            $this->write();
            count($this->handled) === 1 ? throw new RuntimeException('bad') : null;
        };
        $this->dispatch();
        $this->work();
        self::assertSame([[], ['completed', 'scheduled']], [$this->effects(), $this->statuses()]);
        $this->workUntil(fn () => $this->statuses() === ['completed', 'completed']);
        self::assertSame(['written'], $this->effects());
    }

    public function testALostLeaseRollsBack(): void
    {
        $this->handle = function (): void {
            $this->write();
            $this->steal();
        };
        $this->dispatch();
        $this->work();
        self::assertSame([[], ['processing'], []], [$this->effects(), $this->statuses(), $this->statuses("$this->queue failed")]);
        self::assertCount(1, $this->app->log->warnings);
    }
}
