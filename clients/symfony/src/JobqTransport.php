<?php

declare(strict_types=1);

namespace Jobq\Messenger;

use Closure;
use Doctrine\DBAL\Connection;
use Doctrine\DBAL\Exception as DbalException;
use PDOException;
use Psr\Log\LoggerInterface;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\ErrorDetailsStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\ListableReceiverInterface;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Receiver\QueueReceiverInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\SetupableTransportInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/**
 * Sends messages on the connection of the application, as part of its transactions. Receives messages and reports on them on a
 * separate connection, which is never inside a transaction of a handler.
 */
class JobqTransport implements
    TransportInterface,
    QueueReceiverInterface,
    SetupableTransportInterface,
    MessageCountAwareInterface,
    ListableReceiverInterface
{
    public const VERSION = '0.1.0';

    private string $workerId;

    /** Whether a retry has been sent for a message, by the leases that this transport holds. */
    private array $retried = [];

    public function __construct(
        private Connection $sender,
        private Connection $worker,
        private SerializerInterface $serializer,
        private LoggerInterface $logger,
        private string $queue,
        private float $redeliverTimeout,
        private float $wait
    ) {
        $this->workerId = gethostname() . '-' . getmypid() . '-' . bin2hex(random_bytes(4));
    }

    public function send(Envelope $envelope): Envelope
    {
        $received = $envelope->last(JobqReceivedStamp::class);
        $isRetry = $received !== null && isset($this->retried[$received->lease]) && $envelope->last(RedeliveryStamp::class) !== null;
        $options = $envelope->last(JobqStamp::class);
        $delay = $envelope->last(DelayStamp::class);
        $spec = ($isRetry ? $options?->forRetry() : $options?->options) ?? [];
        $spec += [
            'queue' => $this->queue,
            'kind' => get_class($envelope->getMessage()),
            'payload' => $this->serializer->encode($envelope),
            'run_at' => $delay === null ? null : self::time($delay->getDelay()),
        ];
        $specs = json_encode([$spec], JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
        $enqueue = static fn (Connection $connection) => (int) self::value($connection, 'SELECT job_id FROM jobq_enqueue_jobs(?::jsonb)', $specs);
        if ($isRetry) {
            return $this->retry($envelope, $received, $enqueue);
        }
        try {
            return $envelope->with(new TransportMessageIdStamp($enqueue($this->sender)));
        } catch (DbalException $error) {
            throw new TransportException($error->getMessage(), 0, $error);
        }
    }

    /** Completes the received job and enqueues the retry in one transaction, so that a crash neither loses nor duplicates the message. */
    private function retry(Envelope $envelope, JobqReceivedStamp $received, Closure $enqueue): Envelope
    {
        try {
            $id = $this->onWorker(static fn (Connection $connection) => $connection->transactional(static function () use ($connection, $received, $enqueue): int {
                if (!self::value($connection, 'SELECT jobq_complete(?, ?)', $received->id, $received->lease)) {
                    throw new LeaseLost($received->id);
                }
                return $enqueue($connection);
            }));
        } catch (LeaseLost) {
            // If the answer to the first COMMIT was lost, the retry exists, although the repeated call finds the lease lost.
            $this->warnUnlessFinished($received);
            $this->retried[$received->lease] = true;
            return $envelope;
        }
        $this->retried[$received->lease] = true;
        return $envelope->with(new TransportMessageIdStamp($id));
    }

    public function get(): iterable
    {
        return $this->getFromQueues([$this->queue]);
    }

    public function getFromQueues(array $queueNames): iterable
    {
        $queues = '{' . implode(',', array_map(static fn (string $name) => '"' . addcslashes($name, '"\\') . '"', $queueNames)) . '}';
        $info = json_encode(['worker_id' => $this->workerId, 'queues' => array_values($queueNames), 'slots' => 1,
            'client' => 'jobq-messenger ' . self::VERSION], JSON_THROW_ON_ERROR);
        $row = $this->claim($queues, $info);
        if ($row === null && $this->wait > 0) {
            $this->onWorker(fn (Connection $connection) => $connection->executeStatement(
                'CALL jobq_wait_any(?::text[], make_interval(secs => ?::float8), worker_id => ?, worker_info => ?::jsonb)',
                [$queues, $this->wait, $this->workerId, $info]
            ));
            $row = $this->claim($queues, $info);
        }
        if ($row === null) {
            return [];
        }
        $stamp = new JobqReceivedStamp((int) $row['id'], (int) $row['lease']);
        try {
            $envelope = $this->decode($row);
        } catch (MessageDecodingFailedException $error) {
            $this->report($stamp, 'jobq_fail(?, ?, ?, retry => false)', self::storable($error->getMessage()));
            throw $error;
        }
        $this->retried[$stamp->lease] = false;
        return [$envelope->with($stamp)];
    }

    private function claim(string $queues, string $info): ?array
    {
        return $this->onWorker(fn (Connection $connection) => $connection->fetchAssociative(
            'SELECT id, lease, payload FROM jobq_claim_any(?::text[], ?, heartbeat_timeout => make_interval(secs => ?::float8), worker_info => ?::jsonb)',
            [$queues, $this->workerId, $this->redeliverTimeout, $info]
        )) ?: null;
    }

    public function ack(Envelope $envelope): void
    {
        $this->end($envelope, 'jobq_complete(?, ?)');
    }

    public function reject(Envelope $envelope): void
    {
        $details = $envelope->last(ErrorDetailsStamp::class);
        $error = $details === null ? null : self::storable("{$details->getExceptionClass()}: {$details->getExceptionMessage()}");
        $this->end($envelope, 'jobq_fail(?, ?, ?, retry => false)', $error);
    }

    private function end(Envelope $envelope, string $call, ?string ...$values): void
    {
        $received = $envelope->last(JobqReceivedStamp::class);
        if ($received === null) {
            $this->delete($envelope);
            return;
        }
        if (!($this->retried[$received->lease] ?? false)) {
            $this->report($received, $call, ...$values);
        }
        unset($this->retried[$received->lease]);
    }

    /** Deletes a message that all() or find() has returned. No worker holds such a message. */
    private function delete(Envelope $envelope): void
    {
        $id = $envelope->last(TransportMessageIdStamp::class)?->getId()
            ?? throw new TransportException('the message was not received from a jobq transport');
        if ($this->ask('SELECT jobq_delete(?)', $id) === 'processing') {
            throw new TransportException("job $id cannot be deleted, because a worker handles its message");
        }
    }

    /** Extends the lease. KeepaliveJobqTransport makes the method part of the interface of Messenger. */
    public function keepalive(Envelope $envelope, ?int $seconds = null): void
    {
        if ($seconds !== null && $seconds >= $this->redeliverTimeout) {
            throw new TransportException("redeliver_timeout ($this->redeliverTimeout s) must be greater than the keepalive interval ($seconds s)");
        }
        $received = $envelope->last(JobqReceivedStamp::class);
        if ($received === null || $received->completing) {
            return;
        }
        // An exception would interrupt the handler, because Messenger calls this method from a signal handler.
        try {
            if (in_array($this->state($received), ['lost', 'gone'], true)) {
                $this->warn($received);
            }
        } catch (TransportException $error) {
            $this->logger->warning('The heartbeat of job {id} failed: {error}', ['id' => $received->id, 'error' => $error->getMessage()]);
        }
    }

    /** Creates the extension, unless it exists. */
    public function setup(): void
    {
        $this->onWorker(static fn (Connection $connection) => $connection->executeStatement('CREATE EXTENSION IF NOT EXISTS jobq'));
    }

    /** Returns the number of waiting messages whose delay has passed. */
    public function getMessageCount(): int
    {
        return (int) $this->ask('SELECT blocked + pending FROM jobq.queue_stats WHERE queue = ?', $this->queue);
    }

    public function all(?int $limit = null): iterable
    {
        return array_map($this->decode(...), $this->waiting('ORDER BY id LIMIT ?', $limit));
    }

    public function find(mixed $id): ?Envelope
    {
        $rows = ctype_digit((string) $id) ? $this->waiting('AND id = ?', $id) : [];
        return $rows ? $this->decode($rows[0]) : null;
    }

    private function waiting(string $clause, mixed $value): array
    {
        return $this->onWorker(fn (Connection $connection) => $connection->fetchAllAssociative(
            "SELECT id, payload FROM jobq.jobs WHERE queue = ? AND status IN ('scheduled', 'blocked', 'pending') $clause",
            [$this->queue, $value]
        ));
    }

    private function decode(array $row): Envelope
    {
        $encoded = json_decode($row['payload'], true, 512, JSON_THROW_ON_ERROR);
        if (!is_array($encoded)) {
            throw new MessageDecodingFailedException("the payload of job {$row['id']} is not an object with a body");
        }
        return $this->serializer->decode($encoded + ['headers' => []])->with(new TransportMessageIdStamp((int) $row['id']));
    }

    private function report(JobqReceivedStamp $received, string $call, ?string ...$values): void
    {
        if (!$this->ask("SELECT $call", $received->id, $received->lease, ...$values)) {
            $this->warnUnlessFinished($received);
        }
    }

    /** The state "finished" means that this attempt itself has ended the job, for example because the first answer was lost. */
    private function warnUnlessFinished(JobqReceivedStamp $received): void
    {
        if ($this->state($received) !== 'finished') {
            $this->warn($received);
        }
    }

    private function warn(JobqReceivedStamp $received): void
    {
        $this->logger->warning(
            'The lease on job {id} has been lost, so another worker may handle its message as well. This attempt changes nothing in the queue.',
            ['id' => $received->id]
        );
    }

    private function state(JobqReceivedStamp $received): string
    {
        return $this->ask('SELECT jobq_heartbeat(?, ?)', $received->id, $received->lease);
    }

    private function ask(string $statement, mixed ...$values): mixed
    {
        return $this->onWorker(static fn (Connection $connection) => self::value($connection, $statement, ...$values));
    }

    private static function value(Connection $connection, string $statement, mixed ...$values): mixed
    {
        return $connection->fetchOne($statement, $values);
    }

    /**
     * Calls the function, and if it fails, once more on a new connection, because the connection may have ended since the last call.
     * DBAL 3 does not wrap the errors of BEGIN.
     */
    private function onWorker(Closure $function): mixed
    {
        try {
            return $function($this->worker);
        } catch (DbalException | PDOException) {
            $this->worker->close();
        }
        try {
            return $function($this->worker);
        } catch (DbalException | PDOException $error) {
            throw new TransportException($error->getMessage(), 0, $error);
        }
    }

    private static function time(int $milliseconds): string
    {
        $time = (int) (microtime(true) * 1000) + $milliseconds;
        return gmdate('Y-m-d\TH:i:s', intdiv($time, 1000)) . sprintf('.%03dZ', $time % 1000);
    }

    private static function storable(string $text): string
    {
        return str_replace("\0", '\0', mb_scrub($text, 'UTF-8'));
    }
}
