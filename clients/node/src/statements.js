// The statements of a worker, that is, all SQL except the handlers' own. All values are parameters, and arrays are typed.
import { slotsOfPatterns } from './patterns.js';
import { toInterval } from './values.js';

const FILTER = 'kinds => $K::text[], versions => $V::int[], capabilities => $C::text[]';

// Replaces the parameter names in a statement with $1, $2, and so on.
const numbered = (text, names) => names.reduce((sofar, name, place) => sofar.replaceAll(`$${name}`, `$${place + 1}`), text);

const COMPLETED = 'job_ids => $I::bigint[], leases => $L::bigint[], results => $R::jsonb[]';
const ONE = `ARRAY[$Q::text], $W::text, $B::int, ${FILTER}, heartbeat_timeout => $H::interval, worker_info => $X::jsonb`;
const ONE_VALUES = ['Q', 'W', 'B', 'K', 'V', 'C', 'H', 'X'];
export const CLAIM = numbered(`SELECT jobq_claim_json(${ONE}) AS jobs`, ONE_VALUES);
export const COMPLETE_AND_CLAIM = numbered(`SELECT jobq_claim_json(${ONE}, ${COMPLETED}) AS jobs`, [...ONE_VALUES, 'I', 'L', 'R']);
export const WAIT = numbered(
    `CALL jobq_wait($Q::text, $T::interval, ${FILTER}, worker_id => $W::text, batch => $B::int, worker_info => $X::jsonb)`,
    ['Q', 'W', 'B', 'T', 'K', 'V', 'C', 'X']);

// For a worker that serves several queues.
const ANY = `$Q::text[], $W::text, $B::int, ${FILTER}, heartbeat_timeout => $H::interval, worker_info => $X::jsonb,
     patterns => $P::text[], batches => $S::int[], weights => $G::int[], oldest_first => $O::boolean`;
const ANY_VALUES = [...ONE_VALUES, 'P', 'S', 'G', 'O'];
export const CLAIM_ANY = numbered(`SELECT jobq_claim_json(${ANY}) AS jobs`, ANY_VALUES);
export const COMPLETE_AND_CLAIM_ANY = numbered(`SELECT jobq_claim_json(${ANY}, ${COMPLETED}) AS jobs`, [...ANY_VALUES, 'I', 'L', 'R']);
export const WAIT_ANY = numbered(
    `CALL jobq_wait_any($Q::text[], $T::interval, ${FILTER}, worker_id => $W::text, batch => $B::int, patterns => $P::text[],
     batches => $S::int[], worker_info => $X::jsonb)`,
    ['Q', 'W', 'B', 'T', 'K', 'V', 'C', 'X', 'P', 'S']);

// Checked first, so that a role that cannot read the tables causes no error in the server log.
export const MAY_LOOK = `SELECT count(*) = 2 AS may_look FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'jobq' AND c.relname IN ('jobs', 'lane_directory') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_table_privilege(c.oid, 'SELECT')`;
export const OTHER_KINDS = `SELECT DISTINCT d.kind FROM jobq.lane_directory d
    WHERE (d.queue = ANY ($1::text[]) OR d.queue LIKE ANY ($2::text[])) AND d.kind <> ALL ($3::text[])
    AND EXISTS (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane AND j.queue = d.queue AND j.kind = d.kind)
    ORDER BY d.kind LIMIT 20`;

export const COMPLETE_MANY = 'SELECT * FROM jobq_complete_many($1::bigint[], $2::bigint[], $3::jsonb[])';
export const COMPLETE_MUST_HOLD = 'SELECT jobq_complete($1::bigint, $2::bigint, $3::jsonb, must_hold => true)';
export const FAIL = 'SELECT jobq_fail($1::bigint, $2::bigint, $3::text, $4::interval, $5::boolean, $6::jsonb) AS status';
export const FAIL_WITHOUT_DETAILS = 'SELECT jobq_fail($1::bigint, $2::bigint, $3::text, $4::interval, $5::boolean) AS status';   // an older server
export const SNOOZE = 'SELECT jobq_snooze($1::bigint, $3::interval, $2::bigint) AS snoozed';
export const RELEASE_MANY = 'SELECT * FROM jobq_release_many($1::bigint[], $2::bigint[])';
export const HEARTBEAT = 'SELECT jobq_heartbeat($1::bigint, $2::bigint, $3::jsonb) AS state';
// A short lock_timeout, for this statement only: an open transaction may lock the row, and heartbeats of other jobs must not
// wait.
export const HEARTBEAT_BRIEFLY = `WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))
    SELECT jobq_heartbeat($1::bigint, $2::bigint, NULL) AS state FROM briefly`;
export const HEARTBEAT_MANY = 'SELECT * FROM jobq_heartbeat_many($1::bigint[], $2::bigint[], $3::jsonb)';
// The table of the log lines may be locked, too.
export const WRITE_LOG = `WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
    SELECT (jobq_write_log($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::double precision[])).stored FROM briefly`;
export const WAKE = 'SELECT jobq_wake($1::text)';

export const STEP = 'SELECT * FROM jobq_step($1::bigint, $2::bigint, $3::text)';
export const STEP_DONE = 'SELECT * FROM jobq_step_done($1::bigint, $2::bigint, $3::text, $4::jsonb)';
export const SLEEP = 'SELECT jobq_sleep($1::bigint, $2::bigint, $3::text, $4::interval, $5::timestamptz) AS state';
export const AWAIT = 'SELECT * FROM jobq_await($1::bigint, $2::bigint, $3::text, $4::interval, $5::text)';
export const AWAIT_JOBS = 'SELECT * FROM jobq_await_jobs($1::bigint, $2::bigint, $3::bigint[], $4::text, $5::text, $6::interval)';
export const SPAWN = 'SELECT * FROM jobq_spawn($1::bigint, $2::bigint, $3::text, $4::jsonb)';

// jobq_tick(now) gives jobs back to workers if the event they wait for is due by then, but the jobs use the server's clock.
export const SLEEPERS = 'SELECT EXISTS (SELECT FROM jobq.jobs WHERE _due AND run_at <= $1::timestamptz AND _steps IS NOT NULL) AS found';
export const WAKE_SLEEPERS = `UPDATE jobq.steps SET until = clock_timestamp()
    WHERE state = 'waiting' AND until > clock_timestamp() AND until <= $1::timestamptz`;
export const TICK = 'SELECT * FROM jobq_tick($1::timestamptz)';

const filter = (options) => [options.kinds, options.versions, options.capabilities];

// rooms: the free slots of the queues of a worker that serves several queues; a Map.
export const claimValues = (options, batch, workerInfo = null, rooms = null) =>
    [rooms ? [...rooms.keys()] : options.queue, options.workerId, batch, ...filter(options), toInterval(options.heartbeatTimeout), workerInfo,
        ...(rooms ? [...roomValues(options, rooms), ...orderValues(options, rooms)] : [])];

// The number of a pattern applies to each queue that it selects. A pattern does not select the queues in `rooms`.
const roomValues = ({ patterns }, rooms) => [patterns.size ? [...patterns.keys()] : null, [...rooms.values(), ...patterns.values()]];

const orderValues = ({ queueOrder, queues, patterns }, rooms) => {
    const slotsOf = slotsOfPatterns(patterns);
    const weights = () => [...[...rooms.keys()].map((queue) => queues.get(queue) ?? slotsOf(queue)), ...patterns.values()];
    return [queueOrder === 'random' ? weights() : null, queueOrder === 'oldest'];
};

export const waitValues = (options, batch, seconds, workerInfo = null, rooms = null) =>
    [rooms ? [...rooms.keys()] : options.queue, options.workerId, batch, toInterval(seconds), ...filter(options), workerInfo,
        ...(rooms ? roomValues(options, rooms) : [])];

/** Returns the IDs and leases of attempts as two arrays. */
export const leasesOf = (attempts) => [attempts.map(({ row }) => row.id), attempts.map(({ row }) => row.lease)];

export const resultsOf = (attempts) => attempts.map(({ outcome }) => outcome.result ?? null);

/** Returns the values of WRITE_LOG. lines: {id, lease, level, text, at}, at in seconds. */
export const logValues = (lines, now) =>
    [...['id', 'lease', 'text', 'level'].map((name) => lines.map((line) => line[name])), lines.map(({ at }) => Math.max(0, now - at))];
