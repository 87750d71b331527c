<?php
// The handlers for the scenarios: see clients/scenarios/README.md.
declare(strict_types=1);

require __DIR__ . '/JobqWorker.php';

/** Reads the database on a separate connection, which it opens again when it breaks. */
function ask(string $statement, array $values): mixed
{
    static $pdo = null;
    while (true) {
        try {
            return JobqSql::one($pdo ??= JobqSql::connect(), $statement, $values);
        } catch (PDOException) {
            $pdo = null;
            usleep(200000);
        }
    }
}

function tell(JobqJob $job, string $event): void
{
    ask('INSERT INTO scenario.events VALUES (?, ?, ?) RETURNING 1', [$job->id, $job->attempt, $event]);
}

function isOpen(?string $gate): bool
{
    return $gate === null || ask('SELECT count(*) FROM scenario.gates WHERE name = ?', [$gate]) > 0;
}

function awaitGate(JobqJob $job, ?string $gate, bool $deaf = false): void
{
    while (!isOpen($gate)) {
        $deaf || $job->check();
        usleep(100000);
    }
}

function effect(PDO $pdo, JobqJob $job, string $name): void
{
    JobqSql::rows($pdo, 'INSERT INTO scenario.effects VALUES (?, ?, ?)', [$job->id, $job->attempt, $name]);
}

function deaf(JobqJob $job): array
{
    tell($job, 'started');
    awaitGate($job, $job->payload['gate'] ?? null, true);
    return ['gate' => $job->payload['gate'] ?? null];
}

$handlers = [
    'echo' => fn (JobqJob $job) => json_decode($job->payloadText, false, JobqSql::DEPTH),
    'fail' => fn (JobqJob $job) => $job->attempt <= $job->payload['times']
        ? throw new RuntimeException($job->payload['message']) : ['attempt' => $job->attempt],
    'reject' => fn (JobqJob $job) => throw new JobqFail(
        $job->payload['message'],
        $job->payload['retry_in'] ?? null,
        !isset($job->payload['retry_in'])
    ),
    'snooze' => function (JobqJob $job) {
        if ($job->progress) {
            return ['snoozed' => true];
        }
        $job->setProgress(['snoozed' => true]);
        throw new JobqSnooze($job->payload['delay']);
    },
    'wait' => function (JobqJob $job) {
        tell($job, 'started');
        try {
            awaitGate($job, $job->payload['gate'] ?? null);
        } catch (JobqStop $stop) {
            tell($job, $stop->reason);
            throw $stop;
        }
        return ['gate' => $job->payload['gate'] ?? null];
    },
    'deaf' => deaf(...),
    'sleep' => function (JobqJob $job) {
        tell($job, 'started');
        $until = microtime(true) + $job->payload['seconds'];
        while (microtime(true) < $until) {
            usleep(100000);
        }
        return new stdClass();
    },
    'progress' => function (JobqJob $job) {
        tell($job, 'started');
        for ($step = 1; $step <= $job->payload['steps']; $step++) {
            $job->setProgress(['step' => $step]);
        }
        awaitGate($job, $job->payload['gate'] ?? null);
        return ['steps' => $job->payload['steps']];
    },
    'transfer' => function (JobqJob $job) {
        deaf($job);
        $job->completing(function (PDO $pdo) use ($job) {
            effect($pdo, $job, 'transfer');
            if (isset($job->payload['error']) && $job->attempt === 1) {
                throw new RuntimeException($job->payload['error']);
            }
            return ['moved' => true];
        });
    },
    'steps' => function (JobqJob $job) {
        tell($job, 'started');
        $results = [];
        foreach ($job->payload['names'] as $name) {
            if ($name === ($job->payload['before'] ?? null)) {
                awaitGate($job, $job->payload['gate'] ?? null);
            }
            $results[] = $job->step($name, function (PDO $pdo) use ($job, $name) {
                effect($pdo, $job, $name);
                return ['name' => $name];
            });
        }
        return $results;
    },
    'garbage' => function (JobqJob $job) use (&$handlers) {
        if ($job->payload['in'] === 'error') {
            throw new RuntimeException("bad \xff\0 bytes");
        }
        if ($job->payload['in'] === 'result') {
            return "\0";
        }
        $job->setProgress("\0");
        return $handlers['wait']($job);
    },
    'poison' => function (JobqJob $job) {
        tell($job, 'started');
        posix_kill($job->worker, SIGKILL);
    },
];

try {
    $worker = JobqWorker::fromEnvironment();
    foreach ($handlers as $kind => $handler) {
        $worker->handle($kind, $handler);
    }
    exit($worker->run());
} catch (Exception $error) {
    fwrite(STDERR, 'scenario.php: ' . $error->getMessage() . "\n");
    exit(1);
}
