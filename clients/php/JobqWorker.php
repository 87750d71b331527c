<?php
// A jobq worker in PHP (8, command line, pcntl) that uses PDO. Copy this file. Contract: clients/CONTRACT.md.
//
//     $worker = JobqWorker::fromEnvironment();
//     $worker->handle('welcome', function (JobqJob $job) { ...; return ['sent' => true]; });
//     exit($worker->run());
//
// Each handler runs in a process of its own, and so does the call that waits for jobs. This process claims jobs, sends the
// heartbeats of all jobs, and reports. With PgBouncer before 1.21, set PDO::PGSQL_ATTR_DISABLE_PREPARES, which sends values
// separately from the statement without naming it, or PDO::ATTR_EMULATE_PREPARES, which writes values into the statement.
declare(strict_types=1);

class JobqFail extends Exception
{
    public function __construct(string $message, public readonly ?float $retryIn = null, public readonly bool $final = false)
    {
        parent::__construct($message);
    }
}

class JobqSnooze extends Exception
{
    public function __construct(public readonly float $delay)
    {
        parent::__construct("snoozed for $delay s");
    }
}

/** Not an Exception, so that "catch (Exception $e)" in a handler does not keep it from stopping. */
class JobqStop extends Error
{
    public function __construct(public readonly string $reason)
    {
        parent::__construct("the handler should stop: $reason");
    }
}

/** No report is needed, because the job has been completed or given back. */
class JobqNothing extends Error
{
}

final class JobqSql
{
    public const DEPTH = 100000;   // nesting of JSON; the server's own limit is lower

    /** Returns a connection that uses PGHOST and so on. */
    public static function connect(): PDO
    {
        $alive = 'client_encoding=UTF8;connect_timeout=10;keepalives_idle=30;keepalives_interval=10;keepalives_count=3;tcp_user_timeout=30000';
        return new PDO("pgsql:$alive", null, null, [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::PGSQL_ATTR_DISABLE_PREPARES => true,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
        ]);
    }

    public static function rows(PDO $pdo, string $statement, array $values): array
    {
        $prepared = $pdo->prepare($statement);
        $prepared->execute($values);
        return $prepared->columnCount() ? $prepared->fetchAll() : [];
    }

    public static function one(PDO $pdo, string $statement, array $values): mixed
    {
        $row = self::rows($pdo, $statement, $values)[0] ?? null;
        return $row === null ? null : array_values($row)[0];
    }

    /**
     * Returns whether the error requires a new connection. Collisions (40001, 40P01) only need another try, which a new
     * connection provides. HY000 is an error of the driver, so the function tests whether the connection still works.
     */
    public static function isBroken(?PDO $pdo, PDOException $error): bool
    {
        $state = $error->errorInfo[0] ?? 'HY000';
        if ($pdo === null || preg_match('/^(08|53|57|58)|^(25006|40001|40P01)$/', $state)) {
            return true;
        }
        if ($state !== 'HY000') {
            return false;
        }
        try {
            $pdo->query('SELECT 1');
            return false;
        } catch (PDOException) {
            return true;
        }
    }

    public static function json(mixed $value): string
    {
        $how = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;
        return json_encode($value, $how, self::DEPTH);
    }

    public static function read(?string $text): mixed
    {
        return $text === null ? null : json_decode($text, true, self::DEPTH, JSON_THROW_ON_ERROR);
    }

    /** Sends a heartbeat. If the server rejects the progress, sends the heartbeat without progress. */
    public static function heartbeat(PDO $pdo, object $job): string
    {
        try {
            return self::one($pdo, 'SELECT jobq_heartbeat(?, ?, ?::jsonb)', [$job->id, $job->lease, $job->progress]);
        } catch (PDOException $error) {
            if (self::isBroken($pdo, $error)) {
                throw $error;
            }
            fwrite(STDERR, "progress of job {$job->id} was refused: " . trim($error->getMessage()) . "\n");
            return self::one($pdo, 'SELECT jobq_heartbeat(?, ?)', [$job->id, $job->lease]);
        }
    }

    public static function list(array $values): string
    {
        return '{' . implode(',', array_map(fn ($one) => '"' . addcslashes((string) $one, '"\\') . '"', $values)) . '}';
    }
}

/** The job that a handler receives, in the handler's process. */
final class JobqJob
{
    public readonly int $id, $lease, $attempt;
    public readonly string $kind, $payloadText;
    public readonly mixed $payload, $progress, $metadata;
    private array $texts;
    private ?string $reason = null;
    private ?PDO $pdo = null;

    public function __construct(array $row, private $writer, public readonly int $worker)
    {
        foreach (['id', 'lease', 'attempt'] as $name) {
            $this->$name = (int) $row[$name];
        }
        $this->kind = $row['kind'];
        $this->payloadText = $row['payload'];
        $this->texts = ['payload' => $row['payload'], 'progress' => $row['progress'], 'metadata' => $row['metadata']];
    }

    /** Reports progress with a heartbeat, within about a second. */
    public function setProgress(mixed $value): void
    {
        $this->tell(['progress' => JobqSql::json($value)]);
    }

    /** Returns why the handler should stop: null, cancel, lost, or stopping. If the worker was killed, its jobs are lost. */
    public function cancelled(): ?string
    {
        pcntl_signal_dispatch();
        return posix_getppid() === $this->worker ? $this->reason : 'lost';
    }

    public function check(): void
    {
        if (($reason = $this->cancelled()) !== null) {
            throw new JobqStop($reason);
        }
    }

    public function pdo(): PDO
    {
        return $this->pdo ??= JobqSql::connect();
    }

    /** Commits the writes of the function together with the completion of the job, or neither. The function returns the result. */
    public function completing(callable $function): never
    {
        $this->transaction(function (PDO $pdo) use ($function) {
            $result = JobqSql::json($function($pdo));
            JobqSql::one($pdo, 'SELECT jobq_complete(?, ?, ?::jsonb, must_hold => true)', [$this->id, $this->lease, $result]);
        });
        throw new JobqNothing();
    }

    /** Calls the function once, even if the job is retried: its writes commit together with its result. */
    public function step(string $name, callable $function): mixed
    {
        $row = JobqSql::rows($this->pdo(), 'SELECT state, result FROM jobq_step(?, ?, ?)', [$this->id, $this->lease, $name])[0];
        if ($row['state'] === 'done') {
            return JobqSql::read($row['result']);
        }
        if ($row['state'] !== 'run') {
            throw new JobqStop($row['state']);
        }
        return JobqSql::read($this->transaction(fn (PDO $pdo) => JobqSql::one(
            $pdo,
            'SELECT result FROM jobq_step_done(?, ?, ?, ?::jsonb)',
            [$this->id, $this->lease, $name, JobqSql::json($function($pdo))]
        )));
    }

    /** Returns the payload of a signal. The job occupies no worker while it waits. */
    public function waitFor(string $event): mixed
    {
        $row = JobqSql::rows($this->pdo(), 'SELECT state, payload FROM jobq_await(?, ?, ?)', [$this->id, $this->lease, $event])[0];
        return match ($row['state']) {
            'ready' => JobqSql::read($row['payload']),
            'waiting' => throw new JobqNothing(),
            default => throw new JobqStop($row['state'] === 'lost' ? 'lost' : 'cancel'),
        };
    }

    private function transaction(callable $function): mixed
    {
        $pdo = $this->pdo();
        $pdo->beginTransaction();
        try {
            $value = $function($pdo);
            $pdo->commit();
            return $value;
        } catch (Throwable $error) {
            try {
                $pdo->rollBack();
            } catch (PDOException) {
                // The connection broke, and the transaction was rolled back.
            }
            throw $error instanceof PDOException && ($error->errorInfo[0] ?? '') === 'JQ001' ? new JobqStop('lost') : $error;
        }
    }

    public function run(callable $handler): void
    {
        foreach ([SIGUSR1 => 'cancel', SIGUSR2 => 'lost', SIGTERM => 'stopping', SIGINT => 'stopping'] as $signal => $reason) {
            pcntl_signal($signal, function () use ($reason) {
                $this->reason = $reason;
            });
        }
        try {
            foreach ($this->texts as $name => $text) {
                $this->$name = JobqSql::read($text);
            }
            $value = $handler($this);
            $outcome = ['what' => 'complete', 'result' => $value === null ? null : JobqSql::json($value)];
        } catch (JobqNothing) {
            $outcome = ['what' => 'nothing'];
        } catch (JobqStop $stop) {
            $outcome = match ($stop->reason) {
                'lost' => ['what' => 'nothing'], 'cancel' => ['what' => 'fail', 'text' => 'cancelled'], default => ['what' => 'release'],
            };
        } catch (JobqSnooze $snooze) {
            $outcome = ['what' => 'snooze', 'delay' => $snooze->delay];
        } catch (JobqFail $fail) {
            $outcome = ['what' => 'fail', 'text' => $fail->getMessage(), 'retryIn' => $fail->retryIn, 'final' => $fail->final];
        } catch (Throwable $error) {
            $outcome = ['what' => 'fail', 'text' => get_class($error) . ': ' . $error->getMessage(), 'state' => self::stateOf($error)];
        }
        if (isset($outcome['text'])) {
            $outcome['text'] = str_replace("\0", '\\0', $outcome['text']);
        }
        $this->tell($outcome);
    }

    /** Returns the SQLSTATE of the error, or of the error that caused it. */
    private static function stateOf(Throwable $error): string
    {
        for ($cause = $error; $cause !== null; $cause = $cause->getPrevious()) {
            if ($cause instanceof PDOException) {
                return (string) ($cause->errorInfo[0] ?? '');
            }
        }
        return '';
    }

    private function tell(array $said): void
    {
        $line = json_encode($said, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_UNICODE) . "\n";
        while ($line !== '') {
            $count = @fwrite($this->writer, $line);
            if ($count === false || $count === 0) {
                posix_kill(posix_getpid(), SIGKILL);   // the worker no longer reads
            }
            $line = substr($line, $count);
        }
    }
}

final class JobqWorker
{
    private array $handlers = [], $jobs = [], $pause = [], $retryAt = ['claims' => 0.0, 'beats' => 0.0, 'reports' => 0.0], $pdo = [];
    /**
     * Maximum number of times that the worker gives a job back because the job's own transaction collided with another one. The
     * next collision counts as a failed attempt, so that a job that always collides ends.
     */
    private const MOST_CONFLICTS = 10;
    /** Seconds between two checks for jobs of the queue that the worker does not claim. */
    private const LOOKS_EVERY = 600;
    private float $lookAt = 0;
    /** Length in seconds of a wait that cannot be woken or that uses a pooler. */
    private const SHORT_WAIT = 2;
    private bool $pooled = false, $hasPolled = false;
    private ?float $pollsUntil = null;
    private int $polls = 0;
    private int $waiting = 0, $signals = 0;
    private array $conflicts = [];
    private bool $failed = false, $waitsCanceled = false;

    private function __construct(private array $option)
    {
    }

    public static function fromEnvironment(): self
    {
        $option = ['queue' => 'default', 'slots' => '1', 'wait_timeout' => '30', 'grace' => '25', 'heartbeat_timeout' => '',
            'heartbeat_interval' => '', 'worker_id' => gethostname() . '-' . getmypid() . '-' . bin2hex(random_bytes(4))];
        foreach ($option as $name => $standard) {
            $text = getenv('JOBQ_' . strtoupper($name));
            $option[$name] = $text === false || $text === '' ? $standard : $text;
            if (preg_match('/timeout|interval|grace/', $name) && $option[$name] !== '') {
                $least = str_starts_with($name, 'heartbeat') ? 0.01 : 0;
                if (!preg_match('/^[0-9]{1,9}(\.[0-9]+)?$/D', $option[$name]) || $option[$name] < $least) {
                    throw new InvalidArgumentException("option \"$name\" must be a number of seconds, at least $least; it is $text");
                }
            }
        }
        if (!preg_match('/^[0-9]{1,4}$/', $option['slots']) || $option['slots'] < 1 || $option['slots'] > 1000) {
            throw new InvalidArgumentException("option \"slots\" must be an integer from 1 to 1000; it is {$option['slots']}");
        }
        if (str_starts_with($option['worker_id'], 'backend:')) {
            throw new InvalidArgumentException('option "worker_id" must not begin with "backend:"');
        }
        return new self($option);
    }

    /** Registers the handler of a kind. The kind '' stands for jobs without a kind. */
    public function handle(string $kind, callable $handler): void
    {
        $this->handlers[$kind] = $handler;
    }

    /** Works until SIGTERM or SIGINT and returns the exit status. */
    public function run(): int
    {
        $this->pdo = ['claims' => JobqSql::connect(), 'beats' => JobqSql::connect()];
        $this->pooled = (int) JobqSql::one($this->pdo['beats'], 'SELECT pg_backend_pid()', []) !== $this->pdo['beats']->pgsqlGetPid();
        if ($this->pooled) {
            $this->option['wait_timeout'] = min(self::SHORT_WAIT, $this->option['wait_timeout']);
        }
        try {
            JobqSql::one($this->pdo['beats'], 'SELECT jobq_wake(?)', [$this->option['worker_id']]);
        } catch (PDOException $error) {
            if ($error->errorInfo[0] === '42883') {
                throw new RuntimeException('jobq is not in this database: ' . $error->getMessage());
            }
            if ($error->errorInfo[0] !== '55000') {
                throw $error;
            }
            $this->option['wait_timeout'] = min(self::SHORT_WAIT, $this->option['wait_timeout']);   // not preloaded: waits cannot be woken
        }
        $this->say("serves queue \"{$this->option['queue']}\", kinds " . implode(', ', array_keys($this->handlers))
            . '; leaves jobs of other kinds to other workers');
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            pcntl_signal($signal, function () {
                $this->signals++;
            }, false);
        }
        pcntl_signal(SIGPIPE, SIG_IGN);
        $stopAt = $releasedAt = null;
        $woken = false;
        while (true) {
            $now = microtime(true);
            if ($this->signals > 0 && $stopAt === null) {
                $this->say('stopping, no more claims');
                $stopAt = $now + $this->option['grace'];
            }
            if ($this->signals > 1 && $stopAt > $now) {
                $stopAt = $now;
            }
            if ($stopAt !== null) {
                $woken = $woken || !$this->waiting || $this->wake();
                if (!$this->jobs && !$this->waiting) {
                    break;
                }
                if ($now >= $stopAt && $releasedAt === null) {
                    $releasedAt = $now;
                    array_walk($this->jobs, fn ($job) => $this->stopJob($job, 'stopping'));
                }
                if ($releasedAt !== null && $now >= $releasedAt + 1) {
                    array_walk($this->jobs, fn ($job) => $this->abandon($job));
                }
                if ($releasedAt !== null && $now >= $releasedAt + 6) {
                    break;
                }
            }
            $begun = $this->claim($stopAt !== null);
            // A job whose report fails, perhaps because its shard is down, must not delay the reports of other jobs.
            $ended = array_filter($this->jobs, fn ($job) => $job->outcome !== null && !$job->pid);
            uasort($ended, fn ($one, $other) => $one->reports <=> $other->reports);
            array_walk($ended, fn ($job) => $this->report($job));
            $this->heartbeat();
            if (!$begun) {
                $this->sleepUntilSomething();
            }
        }
        foreach ($this->jobs as $job) {
            $job->pid && posix_kill($job->pid, SIGKILL);
        }
        $this->waiting && posix_kill($this->waiting, SIGKILL);
        $this->say($this->jobs ? 'jobs that could not be reported: ' . implode(' ', array_map(fn ($job) => $job->id, $this->jobs)) : 'stopped');
        return $this->jobs || $this->failed ? 1 : 0;
    }

    private function say(string $text): void
    {
        fwrite(STDERR, "{$this->option['worker_id']}: " . trim($text) . "\n");
    }

    /** Waits for output of a handler or a signal, at most 0.05 s. */
    private function sleepUntilSomething(): void
    {
        $readers = array_map(fn ($job) => $job->pipe, array_filter($this->jobs, fn ($job) => $job->pid));
        $writers = $others = [];
        if ($readers) {
            @stream_select($readers, $writers, $others, 0, 50000);
        } else {
            usleep(50000);
        }
        foreach ($this->jobs as $job) {
            $job->pid && $this->hear($job);
        }
        if ($this->waiting && pcntl_waitpid($this->waiting, $status, WNOHANG) === $this->waiting) {
            $this->waiting = 0;
            $signal = pcntl_wifsignaled($status) ? pcntl_wtermsig($status) : 0;
            if ($signal === SIGUSR1 && !$this->waitsCanceled) {
                $this->waitsCanceled = true;
                $setting = $this->beats(fn (PDO $pdo) => JobqSql::one($pdo, 'SHOW statement_timeout', [])) ?? 'unknown';
                $this->say("the server canceled a wait (SQLSTATE 57014). The setting statement_timeout of this role or database is $setting, "
                    . "and wait_timeout is {$this->option['wait_timeout']} s.");
            }
            if ($signal === SIGKILL || $signal === SIGUSR1) {
                unset($this->pause['waits']);
            } else {
                $this->postpone('claims', 'waits');
            }
        }
    }

    /**
     * Starts a child process, which must end without closing the connections that it shares with its parent, even after exit() or
     * a fatal error. If its work throws nothing, it ends with SIGKILL.
     */
    private function fork(callable $work): int
    {
        $pid = @pcntl_fork();
        if ($pid === -1) {
            throw new RuntimeException('could not create a process: ' . pcntl_strerror(pcntl_get_last_error()));
        }
        if ($pid === 0) {
            register_shutdown_function(fn () => posix_kill(posix_getpid(), SIGKILL));
            $signal = SIGKILL;
            try {
                $work();
            } catch (Throwable $error) {
                $this->say(get_class($error) . ': ' . $error->getMessage());
                $signal = SIGTERM;
                pcntl_signal(SIGTERM, SIG_DFL);
            } finally {
                posix_kill(posix_getpid(), $signal);
            }
        }
        return $pid;
    }

    // ---- claims

    /** Handles a broken connection. postponed: the activities that pause because of it. */
    private function broken(string $name, PDOException $error, array $postponed): void
    {
        $this->say("the connection for $name is broken, trying again: " . $error->getMessage());
        $this->pdo[$name] = null;
        array_walk($postponed, fn ($one) => $this->postpone($one, $one));
    }

    /**
     * Doubles the pause until the failed activity works. Uses at least half of it, at random, so that workers do not reconnect
     * together.
     */
    private function postpone(string $name, string $failed): void
    {
        $this->pause[$failed] = min(5.0, ($this->pause[$failed] ?? 0.05) * 2);
        $this->retryAt[$name] = microtime(true) + $this->pause[$failed] * (0.5 + mt_rand() / mt_getrandmax() / 2);
    }

    /**
     * Logs which jobs wait in the queue that have no kind, or a kind without a handler here. Reads at most a thousand jobs of
     * each lane. If the role cannot read the tables, only the first check runs.
     */
    private function lookForOthers(string $kinds): void
    {
        if (microtime(true) < $this->lookAt) {
            return;
        }
        $this->lookAt = microtime(true) + self::LOOKS_EVERY;
        try {
            $found = JobqSql::one($this->pdo['claims'], <<<'SQL'
                SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind)
                FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
                      FROM jobq.lane_directory d WHERE d.queue = ? AND d.kind <> ALL (?::text[]) GROUP BY d.kind) counted WHERE n > 0
                SQL, [$this->option['queue'], $kinds]);
            if ($found !== null) {
                $this->say("jobs that this worker does not claim are waiting in queue \"{$this->option['queue']}\": $found");
            }
        } catch (PDOException $error) {   // the claim will notice a broken connection
            if (($error->errorInfo[0] ?? '') === '42501') {
                $this->lookAt = INF;
            }
        }
    }

    // ---- small pools: see clients/CONTRACT.md

    /** Makes a worker behind a pooler poll for a while if an answer was late, because waits may hold all connections of the pool. */
    private function answered(float $took): void
    {
        if (!$this->pooled || $took <= 0.25) {
            return;
        }
        $limit = min([1, ((float) $this->option['heartbeat_interval'] ?: 4) / 4, ((float) $this->option['heartbeat_timeout'] ?: 12) / 12,
            ...array_map(fn ($job) => $job->every / 4, array_values($this->jobs))]);
        if ($took <= max($limit, 0.25)) {
            return;
        }
        $begins = $this->pollsUntil === null;
        $this->pollsUntil = microtime(true) + 60 + 60 * mt_rand() / mt_getrandmax();
        if ($begins) {
            $this->say(sprintf('%sanswers take %.1f s behind the connection pooler, whose pool may have fewer connections than there are workers: '
                . 'polling instead of waiting', $this->hasPolled ? '' : 'warning: ', $took));
            $this->hasPolled = true;
        }
    }

    private function polls(): bool
    {
        if ($this->pollsUntil === null || microtime(true) < $this->pollsUntil) {
            return $this->pollsUntil !== null;
        }
        $this->pollsUntil = null;
        $this->polls = 0;
        $this->say('answers are fast again: waiting instead of polling');
        return false;
    }

    /** Claims jobs. Returns whether jobs have begun. */
    private function claim(bool $stopping): bool
    {
        $room = $this->option['slots'] - count($this->jobs);
        if ($stopping || $room < 1 || $this->waiting || microtime(true) < $this->retryAt['claims']) {
            return false;
        }
        $kinds = JobqSql::list(array_keys($this->handlers));
        try {
            $this->pdo['claims'] ??= JobqSql::connect();
            $this->lookForOthers($kinds);
            $asked = microtime(true);
            $rows = JobqSql::rows(
                $this->pdo['claims'],
                'SELECT id, lease, kind, payload, attempt, progress, metadata, heartbeat_seconds
                 FROM jobq_claim(?, ?, ?::int, ?::text[], heartbeat_timeout => ?::interval)',
                [$this->option['queue'], $this->option['worker_id'], $room, $kinds,
                    $this->option['heartbeat_timeout'] === '' ? null : $this->option['heartbeat_timeout'] . ' s']
            );
            unset($this->pause['claims']);
            $this->answered(microtime(true) - $asked);
        } catch (PDOException $error) {
            if (JobqSql::isBroken($this->pdo['claims'], $error)) {
                $this->broken('claims', $error, ['claims']);
            } else {
                $this->fail('the claim was refused: ' . $error->getMessage());
            }
            return false;
        }
        foreach ($rows as $row) {
            $this->begin($row);
        }
        if ($rows) {
            $this->polls = 0;
        } elseif ($this->polls()) {
            $this->retryAt['claims'] = microtime(true) + min(0.05 * 2 ** min($this->polls++, 10), 1);
        } else {
            try {
                $this->waiting = $this->fork(function () use ($kinds, $room) {
                    pcntl_signal(SIGTERM, SIG_DFL);
                    try {
                        JobqSql::rows(JobqSql::connect(), 'CALL jobq_wait(?::text, ?::interval, ?::text[], worker_id => ?::text, batch => ?::int)',
                            [$this->option['queue'], $this->option['wait_timeout'] . ' s', $kinds, $this->option['worker_id'], $room]);
                    } catch (PDOException $error) {
                        if (($error->errorInfo[0] ?? '') !== '57014') {
                            throw $error;
                        }
                        posix_kill(posix_getpid(), SIGUSR1);   // tells the worker that the server has canceled the wait
                    }
                });
            } catch (RuntimeException $error) {
                $this->fail($error->getMessage());
            }
        }
        return (bool) $rows;
    }

    /** Stops as after SIGTERM, but with another exit status, because the worker cannot claim anymore. */
    private function fail(string $why): void
    {
        $this->say($why);
        $this->failed = true;
        $this->signals = max(1, $this->signals);
    }

    /**
     * Starts the handler's process. It writes lines of JSON: {"progress": ...}, and its outcome at the end. Without an outcome,
     * the job is given back.
     */
    private function begin(array $row): void
    {
        $job = (object) ['id' => $row['id'], 'lease' => $row['lease'], 'kind' => $row['kind'], 'pid' => 0, 'pipe' => null, 'said' => '',
            'beatAt' => microtime(true), 'every' => (float) $row['heartbeat_seconds'], 'reason' => null, 'outcome' => null,
            'progress' => null, 'reports' => 0, 'tries' => 0];
        $this->jobs[$row['lease']] = $job;
        try {
            $pair = @stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0) ?: throw new RuntimeException('could not create a socket');
            [$job->pipe, $writer] = $pair;
            $parent = posix_getpid();
            $job->pid = $this->fork(function () use ($row, $job, $writer, $parent) {
                fclose($job->pipe);
                (new JobqJob($row, $writer, $parent))->run($this->handlers[$row['kind']]);
            });
            fclose($writer);
            stream_set_blocking($job->pipe, false);
        } catch (RuntimeException $error) {
            $job->outcome = ['what' => 'release'];
            $this->fail("job {$job->id} of kind {$job->kind} could not be started, and is given back: " . $error->getMessage());
        }
    }

    /**
     * Reads the handler's output. A job ends with its process, because children of the process may hold the pipe open for longer.
     */
    private function hear(object $job): void
    {
        $ended = pcntl_waitpid($job->pid, $status, WNOHANG) === $job->pid;
        while (($read = @fread($job->pipe, 65536)) !== false && $read !== '') {
            $job->said .= $read;
        }
        while (($end = strpos($job->said, "\n")) !== false) {
            $said = json_decode(substr($job->said, 0, $end), true);
            $job->said = substr($job->said, $end + 1);
            if (array_key_exists('progress', $said)) {
                $job->progress = $said['progress'];
            } else {
                $job->outcome = $said;
            }
        }
        if ($ended) {
            fclose($job->pipe);
            $job->pid = 0;
            $job->outcome ??= ['what' => 'fail', 'text' => "the handler's process ended with status $status"];
        }
    }

    private function stopJob(object $job, string $reason): void
    {
        if ($job->reason === null || $reason === 'lost') {
            $job->reason = $reason;
            $job->pid && posix_kill($job->pid, ['cancel' => SIGUSR1, 'lost' => SIGUSR2, 'stopping' => SIGTERM][$reason]);
        }
    }

    private function abandon(object $job): void
    {
        if ($job->pid) {
            posix_kill($job->pid, SIGKILL);
            pcntl_waitpid($job->pid, $status);
            $job->pid = 0;
            $job->outcome = ['what' => 'release'];
        }
    }

    // ---- heartbeats and reports

    /**
     * Returns the value of the function, or null if it cannot run now. A report that breaks the connection, perhaps because its
     * shard is down, must not delay heartbeats, and heartbeats must not delay reports, so each pauses separately unless there is
     * no connection at all.
     */
    private function beats(callable $function, string $what = 'beats'): mixed
    {
        if (microtime(true) < $this->retryAt[$what]) {
            return null;
        }
        try {
            $pdo = $this->pdo['beats'] ??= JobqSql::connect();
            $begun = microtime(true);
            $answer = $function($pdo);
            unset($this->pause[$what]);
            $this->answered(microtime(true) - $begun);
            return $answer;
        } catch (PDOException $error) {
            if (!JobqSql::isBroken($this->pdo['beats'], $error)) {
                throw $error;
            }
            $this->broken('beats', $error, $this->pdo['beats'] === null ? ['beats', 'reports'] : [$what]);
            return null;
        }
    }

    /** Wakes the wait. Returns true when done, or when waits cannot be woken because jobq is not preloaded, and are short. */
    private function wake(): bool
    {
        try {
            return $this->beats(fn (PDO $pdo) => JobqSql::rows($pdo, 'SELECT jobq_wake(?)', [$this->option['worker_id']])) !== null;
        } catch (PDOException $error) {
            $this->say('the wait could not be woken: ' . $error->getMessage());
            return true;
        }
    }

    private function heartbeat(): void
    {
        $now = microtime(true);
        // Includes jobs that have ended, until their reports have arrived.
        $live = array_filter($this->jobs, fn ($job) => ($job->pid || $job->outcome !== null) && $job->reason !== 'lost');
        $others = array_filter([(float) $this->option['heartbeat_interval'], (float) $this->option['heartbeat_timeout'] / 3]);
        $due = $ended = $progressed = [];
        foreach ($live as $job) {
            $isDue = $now - $job->beatAt >= min([$job->every, ...$others]);
            if ($isDue && $job->outcome === null) {
                $due[] = $job;
            } elseif ($isDue) {
                $ended[] = $job;
            }
            if ($job->progress !== null && $job->outcome === null && ($isDue || $now - $job->beatAt > 0.5)) {
                $progressed[] = $job;
            }
        }
        try {
            // Send the heartbeats of running jobs before progress, and separately from jobs that have ended, because an
            // unanswered completion may still lock the row of such a job, and the heartbeats of other jobs must not wait.
            foreach (array_filter([$due, $ended]) as $jobs) {
                $rows = $this->beats(fn (PDO $pdo) => JobqSql::rows(
                    $pdo,
                    'SELECT state FROM jobq_heartbeat_many(?::bigint[], ?::bigint[])',
                    [JobqSql::list(array_map(fn ($job) => $job->id, $jobs)), JobqSql::list(array_map(fn ($job) => $job->lease, $jobs))]
                ));
                foreach ($rows ?? [] as $place => $row) {
                    $this->heard($jobs[$place], $row['state']);
                }
            }
            foreach ($progressed as $job) {
                $state = $job->reason === 'lost' ? null : $this->beats(fn (PDO $pdo) => JobqSql::heartbeat($pdo, $job));
                if ($state !== null) {
                    $job->progress = null;
                    $this->heard($job, $state);
                }
            }
        } catch (PDOException $error) {
            $this->say('heartbeats were refused: ' . $error->getMessage());
            $this->retryAt['beats'] = $now + 1;
        }
    }

    private function heard(object $job, string $state): void
    {
        $job->beatAt = microtime(true);
        // If the handler has ended, the report will find out.
        if ($state === 'held' || $state === 'finished' || $job->outcome !== null) {
            return;
        }
        if ($state !== 'cancel') {
            $this->say("job {$job->id} of kind {$job->kind}: the lease is lost");
        }
        $this->stopJob($job, $state === 'cancel' ? 'cancel' : 'lost');
    }

    /**
     * Turns a failure into a release, because the job's own transaction ended with 40001 or 40P01, so that the attempt is not
     * counted.
     */
    private function giveBack(object $job): void
    {
        $state = $job->outcome['state'] ?? '';
        $times = ($this->conflicts[$job->id] ?? 0) + 1;
        unset($this->conflicts[$job->id]);
        if ($job->outcome['what'] !== 'fail' || !in_array($state, ['40001', '40P01'], true) || $times > self::MOST_CONFLICTS) {
            return;
        }
        if (count($this->conflicts) > 1000) {
            $this->conflicts = [];   // removes entries of jobs that other workers have completed
        }
        $this->conflicts[$job->id] = $times;
        $this->say("job {$job->id} of kind {$job->kind}: its transaction collided with another one (SQLSTATE $state), so it is given back: "
            . "$times of " . self::MOST_CONFLICTS . ' times');
        $job->outcome = ['what' => 'release'];
    }

    /** Sends a report. Repeated until the server answers. */
    private function report(object $job): void
    {
        if ($job->reports === 0) {
            $this->giveBack($job);
        }
        $outcome = $job->outcome;
        if ($outcome['what'] === 'nothing' || $job->reason === 'lost') {
            unset($this->jobs[$job->lease]);
            return;
        }
        [$statement, $values] = match ($outcome['what']) {
            'complete' => ['SELECT jobq_complete(?, ?, ?::jsonb)', [$outcome['result']]],
            'snooze' => ['SELECT jobq_snooze(job_id => ?, lease => ?, delay => ?::interval)', ["{$outcome['delay']} s"]],
            'release' => ['SELECT jobq_release(?, ?)', []],
            default => ['SELECT jobq_fail(?, ?, ?, ?::interval, ?::boolean) IS NOT NULL', [$outcome['text'],
                isset($outcome['retryIn']) ? "{$outcome['retryIn']} s" : null, ($outcome['final'] ?? false) ? 'f' : 't']],
        };
        $lease = [$job->id, $job->lease];
        $job->reports++;
        try {
            $state = $this->beats(function (PDO $pdo) use ($job, $lease, $statement, $values) {
                if ($job->progress !== null) {
                    JobqSql::heartbeat($pdo, $job);
                    $job->progress = null;
                }
                $job->tries++;
                if (JobqSql::one($pdo, $statement, [...$lease, ...$values])) {
                    return 'finished';
                }
                // Maybe an earlier try succeeded, but its answer was lost. gone: the queue keeps no finished jobs.
                $state = JobqSql::one($pdo, 'SELECT jobq_heartbeat(?, ?)', $lease);
                return $state === 'gone' && $job->tries > 1 ? 'finished' : $state;
            }, 'reports');
        } catch (PDOException $error) {
            $this->say("job {$job->id}: the report was refused: " . $error->getMessage());
            $ascii = preg_replace('/[^\x00-\x7f]/u', '?', $outcome['text'] ?? '');
            if (in_array($error->errorInfo[0] ?? '', ['22P05', '22021'], true) && $ascii !== ($outcome['text'] ?? '')) {
                $job->outcome['text'] = $ascii;   // a character of the text does not exist in the encoding of the database
                return;
            }
            $rejected = ['complete' => 'result', 'snooze' => 'snooze', 'release' => 'release'][$outcome['what']] ?? 'failure';
            if (!isset($outcome['refused'])) {
                $text = "the $rejected was refused: " . $error->getMessage();
                $job->outcome = ['what' => 'fail', 'text' => $text, 'refused' => true] + $outcome;
            } elseif (isset($outcome['retryIn'])) {
                $job->outcome['retryIn'] = null;   // the server may have rejected the delay
            } else {
                $job->outcome = ['what' => 'nothing'];
            }
            return;
        }
        if ($state !== null) {
            $what = ($outcome['text'] ?? '') === 'cancelled' ? 'cancelled' : $outcome['what'] . ' ' . ($outcome['text'] ?? '');
            $this->say("job {$job->id} of kind {$job->kind}: " . ($state !== 'finished' ? 'the lease is lost' : $what));
            unset($this->jobs[$job->lease]);
        }
    }
}
