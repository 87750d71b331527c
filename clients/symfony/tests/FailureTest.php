<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use Jobq\Messenger\JobqReceivedStamp;
use Jobq\Messenger\JobqStamp;
use RuntimeException;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;

final class FailureTest extends AppTestCase
{
    public function testAFailedMessageIsRetriedInTheTransactionThatCompletesItsJob(): void
    {
        $this->handle = fn () => count($this->handled) === 1 ? throw new RuntimeException('bad') : null;
        $first = $this->dispatch(new JobqStamp(['priority' => -5, 'unique_key' => 'k']));
        $this->work();
        self::assertSame(['completed', 'scheduled'], $this->statuses());
        $second = $this->ask("SELECT id FROM jobq.jobs WHERE queue = ? AND status = 'scheduled'", $this->queue);
        self::assertTrue($this->job($second, "run_at > now() + interval '50 min'"));
        self::assertSame([-5, 'k'], [$this->job($second, 'priority'), $this->job($second, 'unique_key')]);
        self::assertSame($this->job($first, 'xmin::text'), $this->job($second, 'xmin::text'));
        $this->workUntil(fn () => $this->statuses() === ['completed', 'completed']);
        self::assertSame(['a', 'a'], $this->handled);
        self::assertSame([], $this->app->log->warnings);
    }

    public function testARetryIsSentAlthoughTheUniqueKeyIsReserved(): void
    {
        $this->handle = static fn () => throw new RuntimeException('bad');
        $this->dispatch(new JobqStamp(['unique_key' => 'k', 'unique_for' => '1 h', 'expires_in' => '10 min']));
        $this->work();
        self::assertSame(['completed', 'scheduled'], $this->statuses());
        self::assertSame(1, $this->ask("SELECT count(*) FROM jobq.jobs WHERE queue = ? AND unique_key IS NULL AND expires_at IS NULL", $this->queue));
    }

    public function testAMessageThatKeepsFailingMovesToTheFailureTransport(): void
    {
        $this->handle = static fn () => throw new RuntimeException("bad\0 \xff");
        $this->dispatch();
        $this->workUntil(fn () => $this->statuses() === ['completed', 'completed', 'failed']);
        self::assertSame(['pending'], $this->statuses("$this->queue failed"));
        self::assertStringContainsString('bad\0 ?', $this->ask("SELECT error FROM jobq.jobs WHERE queue = ? AND status = 'failed'", $this->queue));

        $failed = $this->app->transports->get('failed');
        [$listed] = [...$failed->all()];
        self::assertSame('a', $failed->find($this->id($listed))->getMessage()->name());
        self::assertSame([[], null, null], [[...$failed->all(0)], $failed->find(0), $failed->find('x')]);
        $failed->reject($listed);   // as messenger:failed:remove
        self::assertSame([], $this->statuses("$this->queue failed"));
    }

    public function testAnUnrecoverableFailureIsNotRetried(): void
    {
        $this->handle = static fn () => throw new UnrecoverableMessageHandlingException('no use');
        $this->dispatch();
        $this->work();
        self::assertSame(['failed'], $this->statuses());
        self::assertSame(['pending'], $this->statuses("$this->queue failed"));
    }

    public function testAMessageThatCannotBeDecodedFails(): void
    {
        foreach (['{"body": "}"}', '{"headers": {}}', '7'] as $payload) {
            $id = $this->ask('SELECT jobq_enqueue(?, ?::jsonb)', $this->queue, $payload);
            try {
                $this->work();
                self::fail("no error: $payload");
            } catch (MessageDecodingFailedException $error) {
                self::assertSame(['failed', $error->getMessage()], [$this->job($id, 'status'), $this->job($id, 'error')]);
            }
        }
    }

    public function testAListedMessageThatAWorkerHandlesIsNotDeleted(): void
    {
        $this->dispatch();
        [$listed] = [...$this->app->async()->all()];
        [$received] = $this->app->async()->get();
        self::assertNull($listed->last(JobqReceivedStamp::class));
        try {
            $this->app->async()->reject($listed);
            self::fail('no error');
        } catch (TransportException $error) {
            self::assertStringContainsString('a worker handles', $error->getMessage());
        }
        $this->app->async()->ack($received);
        self::assertSame(['completed'], $this->statuses());
    }

    public function testAMessageOfAnotherTransportCannotBeAcknowledged(): void
    {
        $this->expectException(TransportException::class);
        $this->app->async()->ack(new Envelope(new Message()));
    }
}
