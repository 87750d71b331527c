<?php

declare(strict_types=1);

namespace Jobq\Laravel;

use Closure;
use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Database\Connection;
use Illuminate\Queue\Jobs\Job;
use Throwable;

/** A job that a worker of Laravel has claimed. */
class JobqJob extends Job implements JobContract
{
    private ?Throwable $exception = null;

    private Connection $completes;

    /** @param object $claimed the row of the claim: id, lease, queue, attempt, payload */
    public function __construct(
        Container $container,
        private Connection $worker,
        private Connection $database,
        private object $claimed,
        string $connectionName
    ) {
        $this->container = $container;
        $this->completes = $worker;
        $this->queue = $claimed->queue;
        $this->connectionName = $connectionName;
    }

    public function getJobId()
    {
        return $this->claimed->id;
    }

    public function getRawBody()
    {
        return $this->claimed->payload;
    }

    public function attempts()
    {
        return $this->claimed->attempt;
    }

    /** Completes the job. If the job has failed, fail() has already reported the failure. */
    public function delete()
    {
        parent::delete();
        if (!$this->hasFailed()) {
            $this->report($this->completes, 'jobq_complete(?, ?)');
        }
    }

    /** Counts the attempt, as all drivers of Laravel do, and lets the job run again after the delay. */
    public function release($delay = 0)
    {
        parent::release($delay);
        $delay = max(0, $this->secondsUntil($delay));
        $this->report($this->worker, 'jobq_fail(?, ?, ?, make_interval(secs => ?::float8))', $this->errorText(), $delay);
    }

    /** Reports the failure before Laravel calls failed() and raises JobFailed, because neither may happen if the lease is lost. */
    public function fail($e = null)
    {
        if (!$this->isDeleted()) {
            $this->exception = $e;
            $this->report($this->worker, 'jobq_fail(?, ?, ?, retry => false)', $this->errorText());
        }
        parent::fail($e);
    }

    /** Lets a job whose worker is about to be killed run again after the backoff of the queue. */
    public function reportTimeout(): void
    {
        if (!$this->isDeletedOrReleased()) {
            parent::release();
            $this->report($this->worker, 'jobq_fail(?, ?, ?)', $this->resolveName() . ' has timed out.');
        }
    }

    public function setException(Throwable $exception): void
    {
        $this->exception = $exception;
    }

    /**
     * Extends the lease to retry_after from now, for jobs that run longer than retry_after. Returns "held", "cancel" if the job
     * should stop because it was canceled, or "finished" if this attempt has already been completed, failed, or released.
     */
    public function heartbeat(): string
    {
        $state = $this->isDeletedOrReleased() ? 'finished' : $this->state();
        if ($state === 'lost' || $state === 'gone') {
            $this->lose();
        }
        return $state;
    }

    /** Commits the writes of the function and the completion of the job, or neither. */
    public function transaction(Closure $function): void
    {
        $this->completes = $this->database;
        try {
            $this->database->transaction(function () use ($function): void {
                $function();
                if (!$this->isDeletedOrReleased()) {
                    $this->delete();
                }
            });
        } catch (Throwable $error) {
            if (!$error instanceof LeaseLost && !$this->hasFailed()) {
                $this->deleted = false;   // the completion was rolled back
            }
            throw $error;
        } finally {
            $this->completes = $this->worker;
        }
    }

    /**
     * Laravel repeats a statement after it has reconnected, so if the first call has arrived, the repeated call says that the lease
     * is lost. The state "finished" means that this attempt itself has ended the job. Laravel repeats no statement in a transaction.
     */
    private function report(Connection $connection, string $call, mixed ...$values): void
    {
        $answer = $connection->select("SELECT $call AS answer", [...$this->key(), ...$values], false)[0]->answer;
        if (!$answer && ($connection !== $this->worker || $this->state() !== 'finished')) {
            $this->lose();
        }
    }

    private function state(): string
    {
        return $this->worker->select('SELECT jobq_heartbeat(?, ?) AS state', $this->key(), false)[0]->state;
    }

    /** Marks the job as deleted, so that the worker does not report on it again. */
    private function lose(): never
    {
        $this->deleted = true;
        throw new LeaseLost($this->claimed->id, $this->exception);
    }

    private function key(): array
    {
        return [$this->claimed->id, $this->claimed->lease];
    }

    /** Returns NULL for a job that released itself or failed without an exception. */
    private function errorText(): ?string
    {
        $error = $this->exception;
        return $error === null ? null : str_replace("\0", '\0', mb_scrub(get_class($error) . ': ' . $error->getMessage(), 'UTF-8'));
    }
}
