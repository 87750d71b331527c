<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Symfony\Component\Messenger\EventListener\StopWorkerOnMessageLimitListener;
use Symfony\Component\Messenger\Worker;

final class BatchTest extends AppTestCase
{
    public function testABatchHandlerHoldsItsMessagesUntilItHasHandledThem(): void
    {
        $this->app = new App($this->queue, new BatchHandler(function (): void {
            self::assertSame(['processing', 'processing'], $this->statuses());
        }));
        $this->dispatch();
        $this->dispatch();
        $this->app->events->addSubscriber(new StopWorkerOnMessageLimitListener(2));
        (new Worker(['async' => $this->app->async()], $this->app->bus, $this->app->events))->run(['sleep' => 0]);
        self::assertSame(['completed', 'completed'], $this->statuses());
        self::assertSame([], $this->app->log->warnings);
    }

    public function testABatchHandlerCannotBeTransactional(): void
    {
        $handler = new BatchHandler(static fn () => null);
        $this->app = new App($this->queue, $handler, '', 0, true);
        $id = $this->dispatch();
        $this->work();
        self::assertSame('failed', $this->job($id, 'status'));
        self::assertStringContainsString('batch handler', $this->job($id, 'error'));
        $handler->flush(true);   // Messenger requires that a batch handler acknowledges each message
    }
}
