<?php

declare(strict_types=1);

namespace Jobq\Messenger\Tests;

use InvalidArgumentException;
use Jobq\Messenger\JobqStamp;
use Jobq\Messenger\JobqTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\InvalidArgumentException as InvalidDsn;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

final class SendTest extends AppTestCase
{
    public function testDispatchIsPartOfTheTransaction(): void
    {
        $this->app->connection->beginTransaction();
        $this->dispatch();
        self::assertSame([], $this->statuses(), 'visible before the commit');
        $this->app->connection->rollBack();
        self::assertSame([], $this->statuses(), 'left by a rollback');
        $this->app->connection->transactional(fn () => $this->dispatch());
        self::assertSame(['pending'], $this->statuses());
    }

    public function testATransactionOfTheCallerDoesNotAffectTheWorker(): void
    {
        $id = $this->dispatch();
        $this->app->connection->beginTransaction();
        $this->work();
        $this->app->connection->rollBack();
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testMessagesArriveUnchanged(): void
    {
        $name = "b\0 \\u0000 é 😀 \"'";
        $id = $this->id($this->app->bus->dispatch(new Message($name)));
        self::assertSame(Message::class, $this->job($id, 'kind'));
        $this->work();
        self::assertSame([$name], $this->handled);
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testMessagesEnqueuedWithSqlAreHandled(): void
    {
        $body = (new PhpSerializer())->encode(new Envelope(new Message('sql')))['body'];
        $id = $this->ask("SELECT jobq_enqueue(?, jsonb_build_object('body', ?::text))", $this->queue, $body);
        $this->work();
        self::assertSame(['sql'], $this->handled);
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testDelays(): void
    {
        $id = $this->dispatch(new DelayStamp(3600000));
        self::assertSame('scheduled', $this->job($id, 'status'));
        self::assertTrue($this->job($id, "run_at BETWEEN created_at + interval '59 min' AND created_at + interval '61 min'"));
        $this->work();
        self::assertSame([], $this->handled);
        $this->workUntil(fn () => $this->handled === ['a']);
    }

    public function testOptionsOfJobq(): void
    {
        $id = $this->dispatch(new JobqStamp(['priority' => -5, 'unique_key' => 'k', 'metadata' => ['tenant' => 7]]));
        self::assertSame([-5, '{"tenant": 7}'], [$this->job($id, 'priority'), $this->job($id, 'metadata::text')]);
        self::assertSame($id, $this->dispatch(new JobqStamp(['unique_key' => 'k'])), 'a duplicate');
    }

    public function testUnsupportedOptionsAreErrors(): void
    {
        foreach (['queue' => 'option "queue"', 'run_at' => 'DelayStamp', 'heartbeat_timeout' => 'redeliver_timeout', 'requires' => 'capabilities'] as $key => $says) {
            try {
                new JobqStamp([$key => 'x']);
                self::fail("no error: $key");
            } catch (InvalidArgumentException $error) {
                self::assertStringContainsString($says, $error->getMessage());
            }
        }
        $this->expectException(TransportException::class);
        $this->expectExceptionMessage('prio');
        $this->dispatch(new JobqStamp(['prio' => 1]));
    }

    public function testInvalidDsnsAreErrors(): void
    {
        $options = [
            'jobq://default?queues=a' => 'unknown option "queues"', 'jobq://default?wait=soon' => '"wait"', 'jobq://default?redeliver_timeout=0' => '"redeliver_timeout"',
            'jobq://other' => 'no connection "other"', 'jobq:///db' => 'must have the form',
        ];
        $factory = new JobqTransportFactory($this->app->log, new Registry($this->app->connection));
        self::assertTrue($factory->supports('jobq://default', []));
        self::assertFalse($factory->supports('doctrine://default', []));
        foreach ($options as $dsn => $says) {
            try {
                $factory->createTransport($dsn, [], new PhpSerializer());
                self::fail("no error: $dsn");
            } catch (InvalidDsn $error) {
                self::assertStringContainsString($says, $error->getMessage());
            }
        }
        $this->expectException(InvalidDsn::class);
        $this->expectExceptionMessage('registry');
        (new JobqTransportFactory($this->app->log))->createTransport('jobq://default', [], new PhpSerializer());
    }

    public function testATransportWithItsOwnConnection(): void
    {
        $dsn = sprintf('jobq://%s@%s:%d/%s?queue=%s', rawurlencode(getenv('PGUSER')), rawurlencode(getenv('PGHOST')), getenv('PGPORT'),
            rawurlencode(getenv('PGDATABASE')), rawurlencode($this->queue));
        $transport = (new JobqTransportFactory($this->app->log))->createTransport($dsn, [], new PhpSerializer());
        $id = $this->id($transport->send(new Envelope(new Message())));
        [$received] = $transport->get();
        self::assertSame($id, $this->id($received));
        $transport->ack($received);
        self::assertSame('completed', $this->job($id, 'status'));
    }

    public function testSetupAndUse(): void
    {
        $this->app->async()->setup();
        self::assertSame(0, $this->app->async()->getMessageCount());
        $this->dispatch(new DelayStamp(3600000));
        $this->dispatch();
        self::assertSame(1, $this->app->async()->getMessageCount());
    }
}
