<?php
// Tests which errors require a new connection, and what happens to a wait that cannot get one. Needs a server selected by PGHOST
// and so on.
declare(strict_types=1);

require __DIR__ . '/JobqWorker.php';

function raises(string $state, string $message): string
{
    return "DO $$ BEGIN RAISE EXCEPTION '$message' USING ERRCODE = '$state'; END $$";
}

$cases = [
    'a rejection whose message mentions connections' => [raises('P0001', 'no connection: the SSL server closed, EOF, terminated'), false],
    'a missing privilege' => [raises('42501', 'permission denied for table terminations'), false],
    'an invalid statement' => ['SELEC', false],
    'a collision' => [raises('40001', 'once more'), true],
    'a deadlock' => [raises('40P01', 'once more'), true],
    'a standby' => [raises('25006', 'read only'), true],
    'a full server' => [raises('53300', 'too many'), true],
    'a connection that ends during a statement' => ['SELECT pg_terminate_backend(pg_backend_pid())', true],
];
$failed = 0;
$check = function (string $what, ?PDO $pdo, string $statement, array $values, bool $broken) use (&$failed): void {
    try {
        JobqSql::rows($pdo ?? new PDO('pgsql:port=1;host=127.0.0.1'), $statement, $values);
        $found = 'no error';
    } catch (PDOException $error) {
        $found = JobqSql::isBroken($pdo, $error);
    }
    $failed += $found === $broken ? 0 : 1;
    echo $found === $broken ? 'ok' : 'not ok', " - $what\n", $found === $broken ? '' : '# ' . var_export($found, true) . "\n";
};
foreach ($cases as $what => [$statement, $broken]) {
    $check($what, JobqSql::connect(), $statement, [], $broken);
}
$check('a wrong number of values', JobqSql::connect(), 'SELECT ?::int', [1, 2], false);
$check('no server', null, 'SELECT 1', [], true);
$pdo = JobqSql::connect();
JobqSql::one(JobqSql::connect(), 'SELECT pg_terminate_backend(?, 60000)', [JobqSql::one($pdo, 'SELECT pg_backend_pid()', [])]);
$check('a connection that has ended', $pdo, 'SELECT 1', [], true);
$check('the next statement on it', $pdo, 'SELECT 1', [], true);

foreach (['CREATE ROLE few LOGIN CONNECTION LIMIT 2', "SELECT jobq_grant('few', 'worker')"] as $statement) {
    JobqSql::rows(JobqSql::connect(), $statement, []);
}
$code = 'require "JobqWorker.php"; $worker = JobqWorker::fromEnvironment(); $worker->handle("none", fn () => null); exit($worker->run());';
$output = tmpfile();
$process = proc_open(['php', '-r', $code], [2 => $output], $pipes, __DIR__, ['PGUSER' => 'few'] + getenv());
sleep(2);
proc_terminate($process);
$status = proc_close($process);
rewind($output);
$said = stream_get_contents($output);
$times = substr_count($said, 'too many connections');
$right = $status === 0 && $times >= 2 && $times <= 10;
$failed += $right ? 0 : 1;
echo $right ? 'ok' : 'not ok', " - a wait that gets no connection is logged and repeated after pauses\n", $right ? '' : "# $status $times $said\n";
echo count($cases) + 5 - $failed, " passed, $failed failed\n";
exit($failed ? 1 : 0);
