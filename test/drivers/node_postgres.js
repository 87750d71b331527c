// Calls every function of the public interface with node-postgres: untyped parameters, bigint ids and leases as strings, JavaScript
// arrays, and JSON objects. No cast is needed. Comments describe what a user must know about the driver.
'use strict';
const { Client } = require('pg');

let failed = 0;
function check(ok, label, detail) {
  if (!ok) failed += 1;
  console.log(`${ok ? 'ok' : 'not ok'} - node-postgres: ${label}${ok ? '' : ': ' + JSON.stringify(detail)}`);
}

async function main() {
  const client = new Client();
  await client.connect();
  const rows = async (text, values) => (await client.query(text, values)).rows;
  const value = async (text, values) => Object.values((await rows(text, values))[0])[0];
  const equal = async (wanted, label, text, values) => {
    const got = await value(text, values);
    check(JSON.stringify(got) === JSON.stringify(wanted), label, { got, wanted });
  };
  const queue = 'node';

  check(/^\d+\.\d+/.test(await value('SELECT jobq_version()')), 'jobq_version');
  check((await rows('SELECT * FROM jobq_claim()')).length === 0, 'jobq_claim()');
  await rows('SELECT jobq_create_queue($1, $2, $3, $4, $5, $6, $7, $8)',
    [queue, '5', '1 s', '1 min', '30 s', 3, '1 day', '2 days']);
  await rows('SELECT jobq_alter_queue($1, max_attempts => $2, max_depth => $3, on_full => $4, max_runtime => $5, on_max_runtime => $6,'
    + ' priority_ageing => $7, round_robin => $8)', [queue, 6, 100000, 'drop_oldest', '2 h', 'cancel', '1 min', true]);
  await equal(6, 'jobq_create_queue, jobq_alter_queue', 'SELECT max_attempts FROM jobq.queues WHERE queue = $1', [queue]);
  await equal('drop_oldest', 'jobq_alter_queue, on_full', 'SELECT on_full FROM jobq.queues WHERE queue = $1', [queue]);
  await equal('cancel', 'jobq_alter_queue, max_runtime', "SELECT on_max_runtime FROM jobq.queues WHERE queue = $1 AND max_runtime = '2 h' AND round_robin", [queue]);
  await rows('SELECT jobq_alter_kind($1, $2, max_attempts => $3, backoff => $4)', [queue, 'kind', 3, ['1 s', '1 min']]);
  await equal(3, 'jobq_alter_kind', "SELECT max_attempts FROM jobq.kinds WHERE queue = $1 AND kind = $2 AND backoff = '{1 s,1 min}'", [queue, 'kind']);
  await equal(true, 'jobq_drop_kind', 'SELECT jobq_drop_kind($1, $2, $3)', [queue, 'kind', ['max_attempts']]);
  await equal(true, 'jobq_pause_queue', 'SELECT jobq_pause_queue($1)', [queue]);
  await equal(true, 'jobq_resume_queue', 'SELECT jobq_resume_queue($1)', [queue]);

  // A JavaScript object is sent as JSON.
  const first = await value('SELECT jobq_enqueue($1, $2)', [queue, { n: 1 }]);
  check(typeof first === 'string' && /^\d+$/.test(first), 'jobq_enqueue by position; a bigint is a string', first);
  const named = await value(
    'SELECT jobq_enqueue($1, payload => $2, kind => $3, priority => $4, run_at => $5, max_attempts => $6,'
    + ' metadata => $7, concurrency_key => $8, options => $9)',
    [queue, { n: 2 }, 'mail', -1, new Date('2001-02-03T00:00:00Z'), 7, { who: 'me' }, 'me',
      { version: '2', requires: ['gpu', 'big, "disk"'], heartbeat_timeout: '90 s', max_runtime: '1 h' }]);
  const job = (await rows('SELECT * FROM jobq_get($1)', [named]))[0];
  check(job.id === named && job.kind === 'mail' && job.priority === -1 && job.requires[1] === 'big, "disk"'
    && job.metadata.who === 'me' && job.run_at.getUTCFullYear() === 2001, 'jobq_enqueue with named arguments, jobq_get', job);
  const every = await value(
    'SELECT jobq_enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)',
    [queue, {}, '', 0, null, null, null, 'ignore', null, null, null, null, 'cancel', null, null]);
  check(BigInt(every) > BigInt(named), 'jobq_enqueue with every argument', every);

  const unique = await value('SELECT jobq_enqueue($1, unique_key => $2, unique_for => $3, run_at => $4)',
    [queue, 'u', '1 hour', new Date('2100-01-01')]);
  await equal(unique, 'jobq_enqueue with a unique key', 'SELECT jobq_enqueue($1, $2, unique_key => $3, on_conflict => $4, run_at => $5)',
    [queue, { n: 9 }, 'u', 'replace', new Date('2100-01-02')]);
  const keyed = await rows('SELECT * FROM jobq_enqueue_many($1, $2, run_at => $3, unique_keys => $4)',
    [queue, [{ n: 1 }, { n: 2 }], new Date('2100-01-01'), ['u', null]]);
  check(keyed.length === 2 && keyed[0].job_id === unique && !keyed[0].is_new && keyed[1].is_new, 'jobq_enqueue_many with unique keys', keyed);

  const grouped = await rows('SELECT * FROM jobq_enqueue_many($1, $2, $3, group_keys => $4)',
    [queue, [{ n: 1 }, { n: 2 }], 'grouped', ['g', null]]);
  const after = await value('SELECT jobq_enqueue($1, kind => $2, group_key => $3)', [queue, 'grouped', 'g']);
  check(grouped.length === 2 && grouped[1].is_new && BigInt(after) > BigInt(grouped[1].job_id), 'jobs of a group', grouped);

  // jsonb[]: an array of objects. Strings in it must be JSON texts.
  let many = await rows('SELECT * FROM jobq_enqueue_many($1, $2, $3, priorities => $4)',
    [queue, [{ n: 3 }, { n: 4 }], 'batch', [5, 6]]);
  check(many.length === 2 && many[0].is_new && BigInt(many[0].job_id) < BigInt(many[1].job_id), 'jobq_enqueue_many', many);
  many = await rows('SELECT * FROM jobq_enqueue_many($1, $2, $3)', [queue, ['{"n": 5}', '{"n": 6}', '7'], 'batch']);
  check(many.length === 3, 'jobq_enqueue_many with JSON texts', many);
  // jsonb: node-postgres makes a PostgreSQL array of every JavaScript array, so a JSON array has to be a text.
  const specs = [{ queue, payload: 7, kind: 'spec' }, { queue, kind: 'spec', priority: 1 }];
  many = await rows('SELECT * FROM jobq_enqueue_jobs($1)', [JSON.stringify(specs)]);
  check(many.length === 2, 'jobq_enqueue_jobs', many);
  const [{ id: batch }] = await rows('SELECT jobq_create_batch($1, $2) AS id', ['a batch', { queue: 'batch callbacks' }]);
  await equal(true, 'jobq_seal_batch', 'SELECT jobq_seal_batch($1)', [batch]);
  const [counts] = await rows('SELECT total, sealed FROM jobq_get_batch($1)', [batch]);
  check(Number(counts.total) === 0 && counts.sealed === true, 'jobq_get_batch', counts);

  let [claim] = await rows('SELECT * FROM jobq_claim($1, $2, $3, $4, $5, $6, $7)',
    [queue, 'node worker', '1', ['mail'], [2], ['gpu', 'big, "disk"', 'more'], '20 s']);
  check(claim.id === named && typeof claim.lease === 'string' && claim.payload.n === 2 && claim.attempt === 1
    && claim.metadata.who === 'me' && Number.isSafeInteger(Number(claim.lease)), 'jobq_claim with every argument', claim);
  await equal('held', 'jobq_heartbeat', 'SELECT jobq_heartbeat($1, $2, $3)', [claim.id, claim.lease, { percent: 50 }]);
  many = await rows('SELECT * FROM jobq_heartbeat_worker($1)', ['node worker']);
  check(many.length === 1 && many[0].job_id === named && many[0].state === 'held', 'jobq_heartbeat_worker', many);
  await equal(false, 'jobq_complete with another lease', 'SELECT jobq_complete($1, $2)', [claim.id, '2']);
  await equal(true, 'jobq_complete', 'SELECT jobq_complete($1, $2, $3, $4)', [claim.id, claim.lease, { sent: true }, false]);
  await equal('finished', 'jobq_heartbeat after the completion', 'SELECT jobq_heartbeat($1, $2)', [claim.id, claim.lease]);
  await equal(false, 'jobq_complete with must_hold left out, by name',
    'SELECT jobq_complete(lease => $2, job_id => $1, result => $3)', [claim.id, claim.lease, null]);

  [claim] = await rows('SELECT id, lease FROM jobq_claim_any($1, batch => $2)', [['nowhere', queue], 1]);
  await equal('scheduled', 'jobq_claim_any, jobq_fail', 'SELECT jobq_fail($1, $2, $3, $4, $5, $6)',
    [claim.id, claim.lease, 'broke', '1 hour', true, { class: 'Broken' }]);
  await equal('pending', 'jobq_retry', 'SELECT jobq_retry($1)', [claim.id]);
  await equal('scheduled', 'jobq_reschedule', 'SELECT jobq_reschedule($1, $2)', [claim.id, new Date('2100-01-01')]);
  await equal('cancelled', 'jobq_cancel', 'SELECT jobq_cancel($1)', [claim.id]);
  await equal('cancelled', 'jobq_delete', 'SELECT jobq_delete($1)', [claim.id]);
  for (const call of ['jobq_delete($1)', 'jobq_cancel($1)', 'jobq_retry($1)', "jobq_reschedule($1, 'now')"]) {
    await equal(null, `${call} of an unknown '42...' means a job, never a queue`, `SELECT ${call}`, ['42000000000']);
  }

  [claim] = await rows('SELECT * FROM jobq_claim($1)', [queue]);
  await equal(true, 'jobq_release', 'SELECT jobq_release($1, $2)', [claim.id, claim.lease]);
  [claim] = await rows('SELECT * FROM jobq_claim($1)', [queue]);
  await client.query('CALL jobq_wait($1, $2, $3, $4, $5, $6)', ['node', '0 s', ['mail'], [2], ['gpu'], 'node worker']);
  await client.query('CALL jobq_wait_any($1, $2, patterns => $3, batches => $4)', [['node', 'nowhere'], '0 s', ['node%'], [1, 2, 3]]);
  many = await rows('SELECT * FROM jobq_claim_any($1, patterns => $2, weights => $3, batches => $4)', [['nowhere'], ['nowhere%'], [1, 2], [1, 2]]);
  check(many.length === 0, 'jobq_claim_any with patterns, weights, and batches', many);
  await equal(0, 'jobq_wake', 'SELECT jobq_wake($1)', ['node worker']);
  await client.query('CALL jobq_wait($1, $2, worker_id => $3)', ['nothing here', '1 hour', 'node worker']);
  await equal('run', 'jobq_step', 'SELECT state FROM jobq_step($1, $2, $3)', [claim.id, claim.lease, 'a']);
  const [saved] = await rows('SELECT * FROM jobq_step_done($1, $2, $3, $4)', [claim.id, claim.lease, 'a', { n: 1 }]);
  check(saved.state === 'saved' && saved.result.n === 1, 'jobq_step_done');
  const steps = await rows('SELECT * FROM jobq_steps($1, $2)', [[claim.id], [claim.lease]]);
  check(steps.length === 1 && steps[0].name === 'a' && steps[0].state === 'done', 'jobq_steps');
  const [spawned] = await rows('SELECT * FROM jobq_spawn($1, $2, $3, $4)', [claim.id, claim.lease, 'c', '[{"queue": "node children"}]']);
  check(spawned.state === 'saved' && spawned.job_ids.length === 1, 'jobq_spawn');
  await rows('SELECT jobq_complete(id, lease, $2) FROM jobq_claim($1)', ['node children', { n: 3 }]);
  const [ended] = await rows('SELECT * FROM jobq_await_jobs($1, $2, $3, $4)', [claim.id, claim.lease, spawned.job_ids, 'd']);
  check(ended.state === 'ready' && ended.results[0].status === 'completed' && ended.results[0].result.n === 3, 'jobq_await_jobs');
  await equal('ready', 'jobq_sleep', 'SELECT jobq_sleep($1, $2, $3, $4)', [claim.id, claim.lease, 'b', '0 s']);
  await equal(true, 'jobq_signal', 'SELECT jobq_signal($1, $2, $3)', [queue, 'node event', { n: 2 }]);
  const [signal] = await rows('SELECT * FROM jobq_await($1, $2, $3, $4)', [claim.id, claim.lease, 'node event', '1 hour']);
  check(signal.state === 'ready' && signal.payload.n === 2, 'jobq_await');
  await equal(true, 'jobq_snooze', 'SELECT jobq_snooze($1, $2, $3)', [claim.id, '1 hour', claim.lease]);
  const awaited = await value('SELECT jobq_enqueue($1)', ['node results']);
  await client.query('CALL jobq_wait_job($1, $2)', [awaited, '1 ms']);
  await equal(null, 'jobq_wait_job, jobq_result of a job that waits', 'SELECT jobq_result($1)', [awaited]);
  await rows('SELECT jobq_complete(id, lease, $2) FROM jobq_claim($1)', ['node results', { sum: 3 }]);
  await client.query('CALL jobq_wait_job($1)', [awaited]);
  check((await value('SELECT jobq_result($1)', [awaited])).sum === 3, 'jobq_wait_job, jobq_result of a completed one');
  const follower = await value('SELECT jobq_enqueue($1, depends_on => $2)', ['node results', [awaited]]);
  const [dependency] = await rows('SELECT * FROM jobq_dependency_results($1)', [follower]);
  check(dependency.job_id === awaited && dependency.result.sum === 3, 'depends_on, jobq_dependency_results');
  check((await value('SELECT jobq_dot($1, $2)', [follower, 10])).startsWith('digraph'), 'jobq_dot');
  check((await rows('SELECT reason FROM jobq_explain($1)', [follower])).length > 0, 'jobq_explain');
  check((await value('SELECT reason FROM jobq_explain_queue($1)', ['node nowhere'])) === 'unknown', 'jobq_explain_queue');
  check((await value('SELECT way FROM jobq_access()')) === 'direct', 'jobq_access');

  await client.query('BEGIN');
  [claim] = await rows('SELECT * FROM jobq_claim($1)', [queue]);
  await equal(true, 'jobq_complete without a lease in the claiming transaction', 'SELECT jobq_complete($1)', [claim.id]);
  await client.query('COMMIT');

  // Arrays of bigint: of strings, as the driver returned them.
  const claims = async (batch) => {
    const taken = await rows('SELECT id, lease FROM jobq_claim($1, batch => $2, kinds => $3)', [queue, batch, ['batch']]);
    return [taken.map((row) => row.id), taken.map((row) => row.lease)];
  };
  let [ids, leases] = await claims(2);
  many = await rows('SELECT * FROM jobq_heartbeat_many($1, $2)', [ids, leases]);
  check(many.length === 2 && many.every((row) => row.state === 'held'), 'jobq_heartbeat_many', many);
  await rows("SELECT count(*) FROM jobq_heartbeat_many('{}', '{}', $1)", [{ worker_id: queue, queues: [queue], slots: 4 }]);
  many = await rows('SELECT slots, state FROM jobq_workers() WHERE worker_id = $1', [queue]);
  check(many.length === 1 && many[0].slots === 4 && many[0].state === 'idle', 'jobq_workers', many);
  many = await rows('SELECT * FROM jobq_write_log($1, $2, $3, $4, $5)', [ids, leases, ['one', 'a, "b"'], ['info', 'error'], [0.5, 0]]);
  check(many.length === 2 && many.every((row) => row.stored === 1), 'jobq_write_log', many);
  many = await rows('SELECT * FROM jobq_release_many($1, $2)', [ids, leases]);
  check(many.length === 2 && many.every((row) => row.released), 'jobq_release_many', many);
  [ids, leases] = await claims(2);
  many = await rows('SELECT * FROM jobq_fail_many($1, $2, $3, $4, $5)', [ids, leases, ['no luck', 'a, "b"'], '1 hour', true]);
  check(many.length === 2 && many.every((row) => row.status === 'scheduled'), 'jobq_fail_many', many);
  [ids, leases] = await claims(1);
  const next = await rows('SELECT * FROM jobq_complete_and_claim($1, $2, $3, $4, $5, $6, $7)',
    [ids, leases, [{ done: 1 }], queue, 'node worker', 1, ['batch']]);
  check(next.length === 1 && next[0].id !== ids[0], 'jobq_complete_and_claim', next);
  many = await rows('SELECT * FROM jobq_complete_many($1, $2, $3, $4)', [[next[0].id], [next[0].lease], [{ done: 2 }], true]);
  check(many.length === 1 && many[0].completed, 'jobq_complete_many', many);
  many = await rows('SELECT * FROM jobq_complete_many($1, $2)', [[], []]);
  check(many.length === 0, 'jobq_complete_many of nothing', many);

  // An array of statuses is an array of strings; a filter by metadata is an object.
  await equal('2', 'jobq_reschedule_jobs', 'SELECT jobq_reschedule_jobs($1, $2, $3, $4)', [queue, '2100-01-01', 'spec', ['pending']]);
  await equal('2', 'jobq_cancel_jobs', 'SELECT jobq_cancel_jobs($1, $2, $3, max_jobs => $4)', [queue, 'spec', ['scheduled', 'pending'], 10]);
  await equal('2', 'jobq_retry_jobs', 'SELECT jobq_retry_jobs($1, $2, $3)', [queue, 'spec', ['cancelled']]);
  await equal('0', 'jobq_delete_jobs by metadata', 'SELECT jobq_delete_jobs($1, metadata => $2)', [queue, { not: 'there' }]);
  await equal('2', 'jobq_delete_jobs', 'SELECT jobq_delete_jobs($1, $2, $3, $4, $5, $6, $7)', [queue, 'spec', ['pending'], null, null, null, '10']);

  await rows('SELECT jobq_create_queue($1, dead_letter_queue => $2)', ['node letters', 'node dead']);
  await rows('SELECT jobq_enqueue($1)', ['node letters']);
  [claim] = await rows('SELECT id, lease FROM jobq_claim($1)', ['node letters']);
  await rows('SELECT jobq_fail($1, $2, retry => false)', [claim.id, claim.lease]);
  many = await rows('SELECT * FROM jobq_log($1)', [claim.id]);
  check(many.map((row) => row.event).join() === 'enqueued,claimed,attempt failed,failed,dead letter', 'jobq_log', many);
  await equal(true, 'jobq_set_limit', 'SELECT jobq_set_limit($1, $2, $3, $4, $5)', ['node limited', 'k', 2, 5, '1 s']);
  await equal('1', 'jobq.limits', 'SELECT count(*) FROM jobq.limits WHERE running = 0', []);
  await equal(false, 'jobq_skip', 'SELECT jobq_skip($1)', [claim.id]);
  await equal('1', 'jobq_redrive', 'SELECT jobq_redrive($1, $2, $3)', ['node dead', 10, 0.5]);
  await rows('SELECT jobq_drop_queue($1, true)', ['node letters']);

  check((await rows('SELECT * FROM jobq_tick($1)', [new Date()])).length > 0, 'jobq_tick');
  const role = process.env.JOBQ_TEST_ROLE;
  const may = "SELECT has_function_privilege($1, 'jobq_enqueue_jobs(jsonb)', 'execute')";
  await rows('SELECT jobq_grant($1, $2)', [role, 'producer']);
  await equal(true, 'jobq_grant', may, [role]);
  await rows('SELECT jobq_revoke($1, $2)', [role, 'producer']);
  await equal(false, 'jobq_revoke', may, [role]);
  check(BigInt(await value('SELECT jobq_purge_queue($1, $2)', [queue, ['scheduled']])) > 0n, 'jobq_purge_queue');
  await equal(true, 'jobq_drop_queue', 'SELECT jobq_drop_queue($1, $2)', [queue, true]);

  // The functions that are not called above, with values derived from the types of their arguments.
  await rows('SELECT pg_stat_force_next_flush()');
  const natural = { bigint: String, jsonb: (json) => (Array.isArray(json) ? JSON.stringify(json) : json), 'bigint[]': (ids) => ids.map(String), 'timestamp with time zone': (time) => new Date(time) };
  for (const call of await rows('SELECT * FROM derived_calls')) {
    const values = call.vals.map((given, n) => (given !== null && natural[call.types[n]] ? natural[call.types[n]](given) : given));
    const list = call.names.map((name, n) => `${name} => $${n + 1}`).join(', ');
    const problem = await rows(`${call.procedure ? 'CALL' : 'SELECT * FROM'} ${call.name}(${list})`, values).then(() => null, (error) => error);
    check(problem === null, `${call.name} with values of its types`, problem && problem.message);
  }
  await rows('SELECT pg_stat_force_next_flush()');
  await client.end();
}

main().then(() => process.exit(failed ? 1 : 0), (error) => {
  console.log(`not ok - node-postgres: ended with ${error.code || ''} ${error.message}`);
  console.log(`# ${error.stack.split('\n').slice(0, 12).join('\n# ')}`);
  process.exit(1);
});
