// Creates jobs in every state, and hostile names, with jobq's own functions only.
export const EVIL = '<img src=x onerror="window.xss=1">\'"&';
const EVIL_KIND = '<script>window.xss=2</script>';

export const ROLES = ['dash_operator', 'dash_monitor', 'dash_some', 'dash_nobody', 'janitor'];

export async function seed({ sql, value }) {
  await sql('CREATE EXTENSION jobq');
  for (const role of ROLES) if (await value('SELECT count(*)::int FROM pg_roles WHERE rolname = $1', [role]) === 0) await sql(`CREATE ROLE ${role} LOGIN`);
  await sql("SELECT jobq_grant('dash_operator', 'operator'), jobq_grant('dash_operator', 'producer'), jobq_grant('dash_monitor', 'monitor'), jobq_grant('dash_some', 'operator', '{emails}')");
  const ids = {};
  const enqueue = (queue, payload, rest = '') => value(`SELECT jobq_enqueue($1, $2${rest})`, [queue, JSON.stringify(payload)]);
  const claim = async (queue, worker, batch = 1) => sql("SELECT id, lease FROM jobq_claim($1, $2, batch => $3, heartbeat_timeout => '1 hour')", [queue, worker, batch]);

  // emails: a job in each status
  ids.completed = await enqueue('emails', { to: 'ada@example.com' }, ", kind => 'welcome', metadata => '{\"tenant\": 7}'");
  const [done] = await claim('emails', 'mailer-1');
  await sql("SELECT jobq_complete($1, $2, '{\"message\": \"250 OK\"}')", [done.id, done.lease]);
  ids.failed = await enqueue('emails', { to: 'bob@example.com' }, ", kind => 'welcome'");
  const [bad] = await claim('emails', 'mailer-1');
  const lines = [...Array.from({ length: 210 }, (_, n) => `part ${n + 1}`), 'no more room'];
  await sql('SELECT FROM jobq_write_log($1, $2, $3, $4)', [lines.map(() => bad.id), lines.map(() => bad.lease), lines, lines.map((_, n) => (n < 210 ? 'debug' : 'error'))]);
  await sql("SELECT jobq_fail($1, $2, 'mailbox 4711 is full', retry => false, details => $3)", [bad.id, bad.lease,
    JSON.stringify({ class: 'MailboxFull', stack: 'MailboxFull: mailbox 4711 is full\n    at send (mail.js:7)', host: 'mail-1' })]);
  ids.retried = await enqueue('emails', { to: 'cy@example.com' }, ", kind => 'news'");
  const [again] = await claim('emails', 'mailer-2');
  await sql("SELECT jobq_fail($1, $2, 'mailbox 4712 is full', retry_in => '1 day')", [again.id, again.lease]);
  ids.running = await enqueue('emails', { to: 'dan@example.com' }, ", kind => 'news'");
  const [held] = await claim('emails', 'mailer-2');
  await sql("SELECT jobq_heartbeat($1, $2, '{\"percent\": 50}')", [held.id, held.lease]);
  ids.asked = await enqueue('emails', { to: 'eve@example.com' });
  await claim('emails', 'mailer-3');
  await sql('SELECT jobq_cancel($1)', [ids.asked]);
  ids.scheduled = await enqueue('emails', { to: 'fay@example.com' }, ", run_at => now() + interval '2 days', unique_key => 'fay'");
  ids.cancelled = await enqueue('emails', { to: 'gus@example.com' });
  await sql('SELECT jobq_cancel($1)', [ids.cancelled]);
  ids.pending = await enqueue('emails', { to: 'hal@example.com' }, ", kind => 'news'");

  // connected workers
  const connect = (info) => sql("SELECT FROM jobq_heartbeat_many('{}', '{}', $1)", [JSON.stringify({ ...info, expires_in: '1 day' })]);
  await connect({ worker_id: 'mailer-2', queues: ['emails'], kinds: ['welcome', 'news'], slots: 2, client: 'jobq-test 1.0.0' });
  await connect({ worker_id: 'cashier-1', queues: ['payments'] });
  await connect({ worker_id: EVIL, queues: [EVIL.slice(0, 40)], kinds: [EVIL_KIND], client: EVIL });

  // a graph
  ids.charge = await enqueue('orders', { order: 1 }, ", kind => 'charge'");
  ids.pack = await enqueue('orders', { order: 1 }, `, kind => 'pack', depends_on => '{${ids.charge}}'`);
  ids.invoice = await enqueue('orders', { order: 1 }, `, kind => 'invoice', depends_on => '{${ids.charge}}'`);
  ids.ship = await enqueue('orders', { order: 1 }, `, kind => 'ship', depends_on => '{${ids.pack},${ids.invoice}}'`);
  ids.groupHead = await enqueue('lines', {}, ", group_key => 'customer 1'");
  ids.groupNext = await enqueue('lines', {}, ", group_key => 'customer 1'");

  // halted groups
  for (const [queue, group] of [[`${EVIL}4`, EVIL], ['ledger', 'account 7']]) {
    await sql("SELECT jobq_create_queue($1, group_on_failure => 'halt')", [queue]);
    ids.halted = await value('SELECT jobq_enqueue($1, group_key => $2)', [queue, group]);
    await sql('SELECT jobq_enqueue($1, group_key => $2)', [queue, group]);
    await sql('SELECT FROM jobq_tick()');
    const [head] = await claim(queue, 'clerk');
    await sql('SELECT jobq_fail($1, $2, $3, retry => false)', [head.id, head.lease, `no such ${group}`]);
  }

  // steps, with jobs that spawn and wait
  ids.flow = await enqueue('flows', {}, ", kind => 'report'");
  const [flow] = await claim('flows', 'runner');
  await sql("SELECT jobq_step_done($1, $2, 'count', '17')", [flow.id, flow.lease]);
  await sql("SELECT jobq_spawn($1, $2, 'split', '[{\"queue\": \"parts\"}, {\"queue\": \"parts\"}]')", [flow.id, flow.lease]);
  await sql("SELECT jobq_await($1, $2, 'approved')", [flow.id, flow.lease]);

  // dead letters
  await sql("SELECT jobq_create_queue('payments', max_attempts => 1, dead_letter_queue => 'payments dead')");
  for (let i = 0; i < 3; i += 1) await enqueue('payments', { n: i }, ", kind => 'charge'");
  for (const job of await claim('payments', 'payer', 3)) await sql("SELECT jobq_fail($1, $2, 'card declined')", [job.id, job.lease]);
  ids.dead = await value("SELECT min(id) FROM jobq.jobs WHERE queue = 'payments dead'");

  // many jobs that failed for two reasons
  await sql("SELECT count(*) FROM jobq_enqueue_many('imports', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 250) n), kind => 'row')");
  const rows = await claim('imports', 'importer', 250);
  await sql('SELECT count(*) FROM jobq_fail_many($1, $2, $3, retry => false)', [rows.map((row) => row.id), rows.map((row) => row.lease),
    rows.map((_, i) => `row ${i}: ${i % 5 === 0 ? 'no such product' : `timeout after ${i} ms`}`)]);
  await sql("SELECT count(*) FROM jobq_enqueue_many('backlog', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 120) n), kind => 'thumb')");
  await sql("SELECT jobq_pause_queue('backlog'), jobq_create_queue('idle', max_depth => 1000)");
  await sql("SELECT jobq_set_limit('api', max_running => 20, rate => 100, per => '1 minute'), jobq_set_limit('api', '*', max_running => 2), jobq_set_limit('api', kind => 'invoice', max_running => 5)");

  ids.batch = await value("SELECT jobq_create_batch('import a.csv', on_complete => '{\"queue\": \"reports\"}')");
  await sql("SELECT count(*) FROM jobq_enqueue_many('imports', '{1, 2, 3}', kind => 'of a batch', run_ats => array_fill('2100-01-01'::timestamptz, '{3}'), options => jsonb_build_object('batch_id', $1::bigint))", [ids.batch]);

  // names that contain HTML
  await sql('SELECT jobq_create_batch($1)', [EVIL]);
  await sql('SELECT jobq_set_limit($1, $1, max_running => 1)', [EVIL]);
  ids.evil = await value('SELECT jobq_enqueue($1, $2, kind => $3, metadata => $2, unique_key => $1, concurrency_key => $1)', [EVIL, JSON.stringify({ [EVIL]: EVIL_KIND }), EVIL_KIND]);
  const [evil] = await claim(EVIL, EVIL);
  await sql('SELECT jobq_step_done($1, $2, $3, $4)', [evil.id, evil.lease, EVIL, JSON.stringify(EVIL_KIND)]);
  await sql('SELECT jobq_heartbeat($1, $2, $3)', [evil.id, evil.lease, JSON.stringify(EVIL)]);
  await sql('SELECT FROM jobq_write_log($1, $2, $3)', [[evil.id], [evil.lease], [EVIL]]);
  ids.evilFailed = await value('SELECT jobq_enqueue($1, kind => $2)', [`${EVIL}2`, EVIL_KIND]);
  const [failed] = await claim(`${EVIL}2`, EVIL);
  await sql('SELECT jobq_fail($1, $2, $3, retry => false, details => $4)', [failed.id, failed.lease, `${EVIL_KIND}${EVIL}`,
    JSON.stringify({ class: EVIL_KIND, stack: `${EVIL}${EVIL_KIND}`, [EVIL]: EVIL })]);
  ids.evilNext = await value('SELECT jobq_enqueue($1, kind => $2, depends_on => ARRAY[$3::bigint])', [EVIL, `"];${EVIL_KIND}`, evil.id]);

  await sql("SELECT jobq_schedule('nightly report', '0 3 * * *', 'reports', timezone => 'Europe/Berlin'), jobq_schedule('every minute', '@every 1m', 'reports', starts_at => now() + interval '1 day')");
  await sql('SELECT jobq_schedule($1, $2, $1, kind => $3, starts_at => now() + interval \'1 day\')', [EVIL, '0 4 * * *', EVIL_KIND]);
  await sql("SELECT jobq_pause_schedule('every minute')");
  await sql("CREATE FUNCTION sweep(job jsonb) RETURNS void LANGUAGE sql AS 'SELECT'");
  await sql("SELECT jobq_set_handler('chores', 'sweep', 'sweep(jsonb)', run_as => 'janitor'), jobq_set_handler($1, '', 'sweep(jsonb)', run_as => 'janitor')", [`${EVIL}3`]);
  return ids;
}
