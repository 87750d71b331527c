<?php

declare(strict_types=1);

namespace Jobq\Laravel;

use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Database\Connection;
use Illuminate\Queue\Queue;
use InvalidArgumentException;

/**
 * Enqueues jobs on the database connection of the application, as part of its transactions. Claims jobs and reports on them on a
 * separate connection, which is never inside a transaction of a job.
 */
class JobqQueue extends Queue implements QueueContract, ClearableQueue
{
    public const VERSION = '0.1.0';

    /** Laravel counts the attempts and decides when a job fails, so jobq must not reach a limit of its own. */
    private const MAX_ATTEMPTS = 2147483647;

    /** Keys of a job's specification that Laravel or this driver sets, with the place where the application sets them. */
    private const SET_BY_LARAVEL = [
        'queue' => 'onQueue()', 'payload' => 'the properties of the job', 'kind' => 'displayName()', 'run_at' => 'delay()',
        'max_attempts' => '$tries', 'heartbeat_timeout' => 'retry_after in config/queue.php',
    ];

    private const PURGE_AT_ONCE = 10000;

    private string $workerId;

    /** The queues from which this process has claimed, as keys. */
    private array $queues = [];

    public function __construct(
        private Connection $database,
        private Connection $worker,
        private string $default,
        private float $retryAfter,
        private ?float $blockFor,
        bool $dispatchAfterCommit
    ) {
        $this->dispatchAfterCommit = $dispatchAfterCommit;
        $this->workerId = gethostname() . '-' . getmypid() . '-' . bin2hex(random_bytes(4));
    }

    public function getDatabase(): Connection
    {
        return $this->database;
    }

    public function getQueue(?string $queue): string
    {
        return $queue ?: $this->default;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->enqueueUsing(
            $job,
            $this->createPayload($job, $this->getQueue($queue), $data),
            $queue,
            null,
            fn ($payload, $queue) => $this->enqueue($payload, $queue)
        );
    }

    public function pushRaw($payload, $queue = null, array $options = [])
    {
        if ($options !== []) {
            throw new InvalidArgumentException('pushRaw() of a jobq queue takes no options; put them under the key "jobq" of the payload');
        }
        return $this->enqueue($payload, $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        return $this->enqueueUsing(
            $job,
            $this->createPayload($job, $this->getQueue($queue), $data, $delay),
            $queue,
            $delay,
            fn ($payload, $queue, $delay) => $this->enqueue($payload, $queue, $this->availableAt($delay))
        );
    }

    /** Enqueues all of the jobs or none of them. */
    public function bulk($jobs, $data = '', $queue = null)
    {
        $this->database->transaction(function () use ($jobs, $data, $queue): void {
            foreach ((array) $jobs as $job) {
                isset($job->delay) ? $this->later($job->delay, $job, $data, $queue) : $this->push($job, $data, $queue);
            }
        });
    }

    protected function createPayloadArray($job, $queue, $data = '')
    {
        if (is_object($job)) {
            self::rejectUnsupported($job);
        }
        $payload = parent::createPayloadArray($job, $queue, $data);
        if (($payload['timeout'] ?? 0) >= $this->retryAfter) {
            throw new InvalidArgumentException("the timeout of {$payload['displayName']} ({$payload['timeout']} s) must be less than retry_after"
                . " ({$this->retryAfter} s); otherwise, another worker would run the job while it is still running");
        }
        // The options are part of the payload, so that queue:retry enqueues the job with the same options.
        return is_object($job) && method_exists($job, 'jobq') ? $payload + ['jobq' => $job->jobq()] : $payload;
    }

    private static function rejectUnsupported(object $job): void
    {
        if (isset($job->messageGroup) || method_exists($job, 'messageGroup')) {
            throw new InvalidArgumentException(get_class($job) . ' has a message group, which only SQS supports;'
                . ' return ["group_key" => ...] from its method jobq() instead');
        }
        if (isset($job->deduplicator) || method_exists($job, 'deduplicationId')) {
            throw new InvalidArgumentException(get_class($job) . ' has a deduplication id, which only SQS supports;'
                . ' return ["unique_key" => ...] from its method jobq() instead');
        }
    }

    /** Stores the payload as a JSON string, because serialized objects contain NUL characters, which jsonb can only store escaped. */
    private function enqueue(string $payload, ?string $queue, ?int $runAt = null): int
    {
        $content = json_decode($payload, true, 512, JSON_THROW_ON_ERROR);
        $options = $content['jobq'] ?? [];
        foreach (array_intersect_key(self::SET_BY_LARAVEL, $options) as $key => $place) {
            throw new InvalidArgumentException("jobq() must not return the key \"$key\"; use $place instead");
        }
        if (isset($options['requires'])) {
            throw new InvalidArgumentException('jobq() must not return the key "requires", because workers of Laravel have no capabilities');
        }
        $spec = $options + [
            'queue' => $this->getQueue($queue),
            'kind' => (string) ($content['displayName'] ?? $content['job'] ?? ''),
            'payload' => $payload,
            'run_at' => $runAt === null ? null : gmdate('Y-m-d\TH:i:s\Z', $runAt),
            'max_attempts' => self::MAX_ATTEMPTS,
        ];
        $specs = json_encode([$spec], JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE);
        return (int) $this->database->select('SELECT job_id FROM jobq_enqueue_jobs(?::jsonb)', [$specs], false)[0]->job_id;
    }

    /** Laravel 11 and later pass the position of the queue in --queue; only the first queue may block. */
    public function pop($queue = null, $index = 0)
    {
        $queue = $this->getQueue($queue);
        $claimed = $this->claim($queue);
        if ($claimed === null && $this->blockFor !== null && $index === 0) {
            $this->worker->statement(
                'CALL jobq_wait(?, make_interval(secs => ?::float8), worker_id => ?, worker_info => ?::jsonb)',
                [$queue, $this->blockFor, $this->workerId, $this->workerInfo()]
            );
            $claimed = $this->claim($queue);
        }
        return $claimed === null ? null : new JobqJob($this->container, $this->worker, $this->database, $claimed, $this->connectionName);
    }

    private function claim(string $queue): ?object
    {
        $this->queues[$queue] = true;
        return $this->worker->select(
            "SELECT id, lease, queue, attempt, payload #>> '{}' AS payload
             FROM jobq_claim(?, ?, heartbeat_timeout => make_interval(secs => ?::float8), worker_info => ?::jsonb)",
            [$queue, $this->workerId, $this->retryAfter, $this->workerInfo()],
            false
        )[0] ?? null;
    }

    /** Returns what the view jobq.workers shows of this process. */
    private function workerInfo(): string
    {
        $queues = array_map('strval', array_keys($this->queues));
        return json_encode(['worker_id' => $this->workerId, 'queues' => $queues, 'slots' => 1, 'client' => 'jobq-laravel ' . self::VERSION]);
    }

    public function size($queue = null)
    {
        return $this->count('scheduled + blocked + pending + processing', $queue);
    }

    /** Includes blocked jobs, which wait for other jobs. */
    public function pendingSize($queue = null)
    {
        return $this->count('blocked + pending', $queue);
    }

    public function delayedSize($queue = null)
    {
        return $this->count('scheduled', $queue);
    }

    public function reservedSize($queue = null)
    {
        return $this->count('processing', $queue);
    }

    /** Returns the time since which the oldest pending job has been due, as the database driver of Laravel does. */
    public function creationTimeOfOldestPendingJob($queue = null)
    {
        $time = $this->stats('floor(extract(epoch FROM clock_timestamp() - oldest_pending_age))', $queue);
        return $time === null ? null : (int) $time;
    }

    private function count(string $statuses, ?string $queue): int
    {
        return (int) $this->stats($statuses, $queue);
    }

    private function stats(string $expression, ?string $queue): mixed
    {
        $rows = $this->database->select("SELECT $expression AS value FROM jobq.queue_stats WHERE queue = ?", [$this->getQueue($queue)], false);
        return $rows[0]->value ?? null;
    }

    /** Deletes the waiting jobs; a running job continues. */
    public function clear($queue)
    {
        $deleted = 0;
        do {
            $now = $this->database->select(
                "SELECT jobq_purge_queue(?, '{scheduled,blocked,pending}', ?::int) AS deleted",
                [$this->getQueue($queue), self::PURGE_AT_ONCE],
                false
            )[0]->deleted;
            $deleted += $now;
        } while ($now === self::PURGE_AT_ONCE);
        return $deleted;
    }
}
