// Tests what the dashboard rejects and changes, with plain HTTP, because a browser would not send half of these requests.
import { becomesTrue, dashboard, is, like, ok, post, request, session, textOf } from './harness.mjs';

const ids = (page) => /name="ids" value="([^"]*)"/.exec(page.text)?.[1];

export async function refusals({ readOnly, writable, db }) {
  const { value } = db;
  const paused = () => value("SELECT paused FROM jobq.queues WHERE queue = 'emails'");
  const good = await session(writable);
  ok(good.cookie && good.token, 'a page gives a session and a token');
  const cookie = good.page.headers['set-cookie'][0];
  ok(/HttpOnly/i.test(cookie) && /SameSite=Lax/i.test(cookie) && /Path=\//.test(cookie), 'the cookie is HttpOnly and SameSite', cookie);
  const other = await session(writable);
  const pause = { queue: 'emails', back: '/queues' };
  for (const [name, given] of [['without a token', { ...good, token: undefined }], ['with a wrong token', { ...good, token: 'x' }], ['with the token of another session', { ...good, token: other.token }],
    ['without a session', { ...good, cookie: undefined }], ['from another origin', { ...good, origin: 'http://evil.example' }], ['without an origin', { ...good, origin: null }],
    ['from a null origin', { ...good, origin: 'null' }], ['from our port of another scheme', { ...good, origin: writable.replace('http:', 'https:') }]]) {
    const answer = await post(writable, '/do/pause_queue', pause, given);
    is(answer.status, 403, `a change ${name} is rejected`);
    is(await paused(), false, `a change ${name} changes nothing`);
  }
  is((await request(writable, { path: '/do/pause_queue?queue=emails', headers: { cookie: good.cookie } })).status, 404, 'no GET changes anything');
  const rebound = await request(writable, { path: '/queues', headers: { host: 'evil.example' } });
  is(rebound.status, 421, 'a request for another host name is rejected');
  ok(!rebound.text.includes('emails'), 'the answer to another host name shows no queues');
  is((await request(writable, { path: '/queues', headers: { host: `localhost:${new URL(writable).port}` } })).status, 200, 'localhost is an allowed host name');
  const headers = good.page.headers;
  like(headers['content-security-policy'], /default-src 'none'; script-src 'self'; style-src 'self'/, 'the content security policy is strict');
  ok(!/unsafe|\*|data:|http/.test(headers['content-security-policy']), 'the content security policy has no exceptions');
  is([headers['x-content-type-options'], headers['x-frame-options'], headers['cache-control'], headers['referrer-policy']], ['nosniff', 'DENY', 'no-store', 'same-origin'], 'the other security headers are set');
  ok(!/ style="|<style| on[a-z]+="|<script>/.test(good.page.text), 'no page has inline scripts or styles');
  const jumped = await post(writable, '/do/resume_queue', { queue: 'emails', back: '//evil.example/' }, good);
  is([jumped.status, jumped.headers.location], [303, '/'], 'a change never redirects to another site');
  // The server does not read all of the request, so the connection may end early.
  const large = await post(writable, '/do/pause_queue', { queue: 'x'.repeat(300000) }, good).catch((error) => ({ status: error.message }));
  ok([413, 'socket hang up', 'write EPIPE', 'read ECONNRESET'].includes(large.status), 'a form that is too large is rejected', large.status);
  is((await post(writable, '/do/drop_queue', { queue: 'emails' }, good)).status, 404, 'an unknown change is rejected');

  // Read-only mode rejects changes even with the token of a valid session.
  const closed = await session(readOnly);
  is(closed.token, undefined, 'read-only: no page has a form that changes anything');
  const { createHmac } = await import('node:crypto');
  const guess = createHmac('sha256', 'x').update('x').digest('base64url');
  for (const [path, fields] of [['/do/pause_queue', pause], ['/do/retry', { id: '1' }], ['/do/cancel', { id: '1' }], ['/bulk', { action: 'delete', status: 'failed', ids: '1', sure: '1' }]]) {
    is((await post(readOnly, path, fields, { ...closed, token: guess })).status, 403, `read-only: ${path} is rejected`);
  }
  is((await request(readOnly, { path: '/bulk?action=retry&status=failed' })).status, 403, 'read-only: there is no preview');
  like(textOf(closed.page.text), /Read-only: the dashboard was started without --allow-changes/, 'read-only: the page says so');
}

async function say(writable, path, fields, wanted, name) {
  const who = await session(writable);
  const answer = await post(writable, path, { back: '/queues', ...fields }, who);
  if (!is(answer.status, 303, `${name}: is done`)) { console.log(`# ${textOf(answer.text).slice(0, 600)}`); return ''; }
  const next = await request(writable, { path: answer.headers.location, headers: { cookie: who.cookie } });
  const told = textOf(/<div role="status">(.*?)<\/div>/s.exec(next.text)?.[1] ?? '');
  like(told, wanted, `${name}: the result is shown`);
  const again = await request(writable, { path: '/queues', headers: { cookie: who.cookie } });
  ok(!again.text.includes('role="status"'), `${name}: the result is shown only once`);
  return told;
}

async function wrong(writable, path, fields, wanted, name) {
  const who = await session(writable);
  const answer = await post(writable, path, { back: '/queues', ...fields }, who);
  is(answer.status, 400, `${name}: it is rejected`);
  like(textOf(answer.text), wanted, `${name}: the reason is shown`);
}

export async function single({ writable, db, ids: known }) {
  const { value, sql } = db;
  const statusOf = (id) => value('SELECT status::text FROM jobq.jobs WHERE id = $1', [id]);
  await say(writable, '/do/pause_queue', { queue: 'emails' }, /Queue emails is paused/, 'pause');
  is(await value("SELECT paused FROM jobq.queues WHERE queue = 'emails'"), true, 'pause: the queue is paused');
  await say(writable, '/do/resume_queue', { queue: 'emails' }, /is resumed/, 'resume');
  await say(writable, '/do/set_limit', { queue: 'idle', of: 'key', name: 'acme', max_running: '5', rate: '100', per: '1 minute' }, /is set/, 'limit');
  is((await sql("SELECT max_running, rate, per::text FROM jobq.limit_settings WHERE queue = 'idle' AND key = 'acme'"))[0], { max_running: 5, rate: 100, per: '00:01:00' }, 'limit: it is set');
  await say(writable, '/do/set_limit', { queue: 'idle', of: 'key', name: 'acme' }, /removed/, 'limit removed');
  is(await value("SELECT count(*)::int FROM jobq.limit_settings WHERE queue = 'idle'"), 0, 'limit: it is removed');
  await say(writable, '/do/set_limit', { queue: 'idle', of: 'kind', name: 'pdf', max_running: '3' }, /is set/, 'limit of a kind');
  is((await sql("SELECT kind, key, max_running FROM jobq.limits WHERE queue = 'idle'"))[0], { kind: 'pdf', key: null, max_running: 3 }, 'limit of a kind: it is set');
  await say(writable, '/do/set_limit', { queue: 'idle', of: 'kind', name: 'pdf' }, /removed/, 'limit of a kind removed');
  await say(writable, '/do/set_limit', { queue: 'idle', of: 'kind', name: '', max_running: '3' }, /is set/, 'limit of jobs without a kind');
  is(await value("SELECT kind FROM jobq.limits WHERE queue = 'idle'"), '', 'limit of jobs without a kind: it is set');
  await say(writable, '/do/set_limit', { queue: 'idle', of: 'kind', name: '' }, /removed/, 'limit of jobs without a kind removed');
  await say(writable, '/do/set_depth', { queue: 'idle', max_depth: '12', on_full: 'drop_oldest' }, /depth/, 'depth');
  is((await sql("SELECT max_depth, on_full FROM jobq.queues WHERE queue = 'idle'"))[0], { max_depth: 12, on_full: 'drop_oldest' }, 'depth: it is set');
  await say(writable, '/do/set_depth', { queue: 'idle', max_depth: '1000', on_full: 'reject' }, /depth/, 'depth, as it was');
  await say(writable, '/do/alter_kind', { queue: 'idle', kind: 'mail', setting: 'max_attempts', value: '3' }, /max_attempts of kind "mail" is set/, 'kind');
  await say(writable, '/do/alter_kind', { queue: 'idle', kind: 'mail', setting: 'backoff', value: '{1s,1min}' }, /is set/, 'kind: a list');
  await say(writable, '/do/alter_kind', { queue: 'idle', kind: 'mail', setting: 'max_runtime', value: '0' }, /is set/, 'kind: none');
  is((await sql("SELECT max_attempts, backoff::text FROM jobq.kinds WHERE queue = 'idle' AND kind = 'mail'"))[0], { max_attempts: 3, backoff: '{00:00:01,00:01:00}' }, 'kind: the settings are set');
  const page = textOf((await request(writable, { path: '/queue?name=idle' })).text);
  like(page, /mail backoff \["00:00:01", "00:01:00"\]/, 'kind: the page shows a list');
  like(page, /mail max_attempts 3/, 'kind: the page shows a number');
  like(page, /mail max_runtime none/, 'kind: the page shows "none"');
  await say(writable, '/do/drop_kind', { queue: 'idle', kind: 'mail', setting: 'max_attempts' }, /is removed/, 'kind: removed');
  await say(writable, '/do/drop_kind', { queue: 'idle', kind: 'mail', setting: 'max_attempts' }, /did not exist/, 'kind: removed before');
  await say(writable, '/do/drop_kind', { queue: 'idle', kind: 'mail', setting: 'backoff' }, /is removed/, 'kind: list removed');
  await say(writable, '/do/drop_kind', { queue: 'idle', kind: 'mail', setting: 'max_runtime' }, /is removed/, 'kind: last one removed');
  await wrong(writable, '/do/alter_kind', { queue: 'idle', kind: 'mail', setting: 'max_lost => 1); --', value: '3' }, /must be the name of a setting/, 'kind: no setting');
  await wrong(writable, '/do/set_limit', { queue: 'idle', rate: '5' }, /needs both the number of starts and the time/, 'half a rate');
  await wrong(writable, '/do/set_limit', { queue: 'idle', max_running: '', rate: '', per: '' }, /a limit needs/, 'an empty limit');
  await wrong(writable, '/do/set_depth', { queue: 'idle', max_depth: 'many', on_full: 'reject' }, /a number from/, 'no number');
  await wrong(writable, '/do/retry', { id: '1; DROP TABLE jobq.jobs' }, /id of a job must be a number/, 'no number of a job');
  await wrong(writable, '/do/retry', { id: '9223372036854775808' }, /id of a job must be a number/, 'too large a number');

  const failed = await value("SELECT id FROM jobq.jobs WHERE queue = 'imports' AND status = 'failed' ORDER BY id LIMIT 1");
  await say(writable, '/do/retry', { id: failed }, /it is pending/, 'retry');
  is(await statusOf(failed), 'pending', 'retry: the job is pending');
  await say(writable, '/do/cancel', { id: failed }, /it is cancelled/, 'cancel');
  is(await statusOf(failed), 'cancelled', 'cancel: the job is canceled');
  await say(writable, '/do/delete', { id: failed }, /is deleted/, 'delete');
  is(await statusOf(failed), undefined, 'delete: the job is deleted');
  await say(writable, '/do/delete', { id: failed }, /no longer exists/, 'delete again');
  await say(writable, '/do/delete', { id: known.running }, /was not deleted because it is running/, 'delete of a running job');
  await sql("SELECT jobq_create_queue('halting', group_on_failure => 'halt')");
  const [halting] = await sql("SELECT jobq_enqueue('halting', group_key => 'g') AS id");
  await sql('SELECT jobq_tick()');
  await sql("SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halting', 'w', heartbeat_timeout => '1 hour')");
  await say(writable, '/do/skip', { id: halting.id }, /is skipped, and its group continues/, 'skip');
  await say(writable, '/do/skip', { id: halting.id }, /does not halt a group/, 'skip again');
  const [held] = await sql("SELECT jobq_enqueue('chased') AS id");
  await sql("SELECT jobq_claim('chased', 'chaser', heartbeat_timeout => '1 hour')");
  await say(writable, '/do/cancel', { id: held.id }, /asked to stop/, 'cancel of a running job');
  await say(writable, '/do/retry', { id: known.dead }, /it is pending/, 'redrive of one dead letter');
  is((await sql('SELECT queue, status::text FROM jobq.jobs WHERE id = $1', [known.dead]))[0], { queue: 'payments', status: 'pending' }, 'redrive of one job: it is in its original queue');

  const story = textOf((await request(writable, { path: `/job/${known.failed}` })).text);
  like(story, /Timeline From .* Wait for the first claim .* Attempt 1 failed .* 19\d log lines/, 'the timeline of a failed job shows its wait, its attempt, and its log lines');
  like(textOf((await request(writable, { path: `/job/${known.flow}` })).text), /Timeline .* count done .* split done .* approved waiting .* Child \d+ pending .* Child \d+ pending/, 'the timeline of a job shows its steps and children');

  const [flow] = await sql("SELECT id FROM jobq_enqueue('stairs') AS id");
  const [lease] = await sql("SELECT lease FROM jobq_claim('stairs')");
  for (const step of ['one', 'two']) await sql("SELECT jobq_step_done($1, $2, $3, '1')", [flow.id, lease.lease, step]);
  await sql("SELECT jobq_fail($1, $2, 'stumbled', retry => false)", [flow.id, lease.lease]);
  await say(writable, '/do/retry_from', { id: flow.id, step: 'two' }, /it is pending/, 'retry from a step');
  is((await sql('SELECT name FROM jobq.steps WHERE job_id = $1', [flow.id])).map((row) => row.name), ['one'], 'retry from a step: earlier steps are kept');

  const hundred = await say(writable, '/do/enqueue', { queue: 'by hand', kind: 'mail', payload: '{"n": 12345678901234567890}', priority: '-5', run_at: '2100-01-31T09:30', max_attempts: '3',
    unique_key: 'only', group_key: '', concurrency_key: 'acme', metadata: '{"tenant": 7}' }, /Job \d+ is enqueued/, 'enqueue');
  is((await sql('SELECT queue, kind, payload::text, priority, run_at, max_attempts, unique_key, group_key, concurrency_key, metadata FROM jobq.jobs WHERE id = $1', [/\d+/.exec(hundred)?.[0]]))[0],
    { queue: 'by hand', kind: 'mail', payload: '{"n": 12345678901234567890}', priority: -5, run_at: '2100-01-31T09:30:00.000Z', max_attempts: 3, unique_key: 'only', group_key: null, concurrency_key: 'acme',
      metadata: { tenant: 7 } }, 'enqueue: the job has the given attributes');
  const plain = await say(writable, '/do/enqueue', { queue: 'by hand', payload: '{}', kind: '', priority: '', run_at: '' }, /Job \d+ is enqueued/, 'enqueue with defaults');
  is((await sql('SELECT kind, priority, status::text, max_attempts FROM jobq.jobs WHERE id = $1', [/\d+/.exec(plain)?.[0]]))[0], { kind: '', priority: 0, status: 'pending', max_attempts: 20 }, 'enqueue: empty fields have defaults');
  for (const [fields, pattern] of [[{ queue: '' }, /queue: 1 to 63 bytes/], [{ payload: '{' }, /payload is not valid JSON/], [{ priority: '1.5' }, /priority must be a number/], [{ priority: '32768' }, /priority must be a number/],
    [{ run_at: 'now()' }, /run_at must be a time/], [{ metadata: 'x' }, /metadata is not valid JSON/]]) {
    await wrong(writable, '/do/enqueue', { queue: 'by hand', payload: '{}', ...fields }, pattern, `enqueue with ${JSON.stringify(fields)}`);
  }
  await sql("SELECT jobq_drop_queue('by hand', force => true)");

  const typo = { id: await value("SELECT jobq_enqueue('typos', '{\"to\": \"ada@exmaple.com\", \"order\": 12345678901234567890}')") };
  await say(writable, '/do/cancel', typo, /it is cancelled/, 'cancel of a job with a wrong payload');
  const edited = await request(writable, { path: `/job/${typo.id}` });
  like(edited.text, /<textarea name="payload"[^>]*>\{\s*&quot;to&quot;: &quot;ada@exmaple\.com/, 'retry with another payload: the page of the job contains the payload');
  await wrong(writable, '/do/retry_with', { ...typo, payload: '{"to": ada}' }, /payload is not valid JSON/, 'no JSON');
  await wrong(writable, '/do/retry_with', typo, /payload is not valid JSON/, 'no payload');
  is(await statusOf(typo.id), 'cancelled', 'retry with another payload: an invalid payload changes nothing');
  await say(writable, '/do/retry_with', { ...typo, payload: '{"to": "ada@example.com", "order": 12345678901234567890}' }, /it is pending/, 'retry with another payload');
  is(await value('SELECT payload::text FROM jobq.jobs WHERE id = $1', [typo.id]), '{"to": "ada@example.com", "order": 12345678901234567890}', 'retry with another payload: the payload is exact');
  const late = await post(writable, '/do/retry_with', { ...typo, payload: '1', back: '/queues' }, await session(writable));
  is(late.status, 409, 'retry with another payload: a job that is pending is not changed');
  like(textOf(late.text), /neither finished nor scheduled/, 'retry with another payload: the page says why');

  await say(writable, '/do/pause_schedule', { name: 'nightly report' }, /is paused/, 'pause of a schedule');
  await say(writable, '/do/resume_schedule', { name: 'nightly report' }, /is resumed/, 'resume of a schedule');
  const told = await say(writable, '/do/run_schedule', { name: 'nightly report' }, /has enqueued job \d+/, 'run of a schedule');
  is(await value('SELECT queue FROM jobq.jobs WHERE id = $1', [/job (\d+)/.exec(told)?.[1]]), 'reports', 'run of a schedule: the job is enqueued');

  const weekly = { name: 'weekly', cron: '0 6 * * mon', timezone: 'Europe/Berlin', queue: 'reports', kind: 'sales', payload: '{"n": 12345678901234567890}', options: '{"priority": -5}', missed: 'all', max_missed: '7',
    overlap: 'skip', deadline: '10 min', jitter: '30 s', starts_at: '2100-01-01 09:30', ends_at: '2101-01-01' };
  await say(writable, '/do/schedule', { ...weekly, new: '1' }, /Schedule weekly is created\. It runs next at 2100-01-04 05:00:00 UTC/, 'a new schedule');
  await sql("UPDATE jobq.schedule_settings SET source = 'app' WHERE name = 'weekly'");
  const settings = () => sql("SELECT cron, timezone, queue, kind, payload::text, options::text, missed, max_missed, overlap, deadline::text, jitter::text, starts_at, ends_at, source FROM jobq.schedule_settings WHERE name = 'weekly'");
  const created = (await settings())[0];
  is(created, { cron: '0 6 * * mon', timezone: 'Europe/Berlin', queue: 'reports', kind: 'sales', payload: '{"n": 12345678901234567890}', options: '{"priority": -5}', missed: 'all', max_missed: 7, overlap: 'skip',
    deadline: '00:10:00', jitter: '00:00:30', starts_at: '2100-01-01T09:30:00.000Z', ends_at: '2101-01-01T00:00:00.000Z', source: 'app' }, 'a new schedule: it is as given');
  await wrong(writable, '/do/schedule', { ...weekly, new: '1' }, /schedule weekly exists already/, 'a new schedule with the name of another one');
  await wrong(writable, '/do/schedule', { ...weekly, new: '1', name: 'x', cron: 'soon' }, /cron|expression|soon/, 'a schedule that is invalid');
  await wrong(writable, '/do/schedule', { ...weekly, max_missed: '0' }, /max_missed must be a number/, 'a schedule with an invalid number');
  const form = (await request(writable, { path: '/schedule?name=weekly' })).text;
  const unescape = (text) => text.replace(/&quot;/g, '"').replace(/&lt;/g, '<').replace(/&amp;/g, '&');
  const fields = Object.fromEntries([...[...form.matchAll(/<input [^>]*?name="(\w+)" value="([^"]*)"/g)], ...[...form.matchAll(/<textarea name="(\w+)"[^>]*>([^<]*)</g)],
    ...[...form.matchAll(/<select name="(\w+)">.*?<option selected>(\w+)</g)]].map(([, name, text]) => [name, unescape(text)]));
  like(textOf(form), /The next times of the expression/, 'a schedule: the form shows the next times');
  delete fields.token;
  await say(writable, '/do/schedule', { ...fields, back: '/schedules' }, /Schedule weekly is changed/, 'a schedule that is saved without a change');
  is((await settings())[0], created, 'a schedule that is saved without a change: it is as before');
  await say(writable, '/do/schedule', { ...weekly, cron: '0 7 * * mon', source: 'app' }, /It runs next at 2100-01-04 06:00:00 UTC/, 'a schedule that is changed');
  await say(writable, '/do/unschedule', { name: 'weekly' }, /Schedule weekly is removed/, 'a schedule that is removed');
  await say(writable, '/do/unschedule', { name: 'weekly' }, /no longer exists/, 'a schedule that was removed before');
  is((await request(writable, { path: '/schedule?name=weekly' })).status, 404, 'a schedule that does not exist has no form');

  const batch = await value("SELECT max(id) FROM jobq.batches WHERE name = 'import a.csv'");
  like(textOf((await request(writable, { path: '/batches' })).text), /import a\.csv open/, 'a batch: the page shows that it is open');
  await say(writable, '/do/seal_batch', { id: batch }, /Batch \d+ is sealed/, 'seal of a batch');
  await say(writable, '/do/seal_batch', { id: batch }, /was already sealed/, 'second seal of a batch');
  is(await value('SELECT sealed FROM jobq.batches WHERE id = $1', [batch]), true, 'seal of a batch: it is sealed');
  const members = `/bulk?action=cancel&status=unfinished&batch=${batch}`;
  ok((await request(writable, { path: '/batches' })).text.includes(members.replaceAll('&', '&amp;')), 'a batch: the page has a link to cancel its jobs');
  const preview = await request(writable, { path: members });
  like(textOf(preview.text), / 3 jobs match\./, 'cancel of a batch: the preview shows its jobs');
  await say(writable, '/bulk', { action: 'cancel', status: 'unfinished', batch, ids: ids(preview), sure: '1' }, /Cancel: 3 of 3 jobs\./, 'cancel of a batch');
  is(await value("SELECT cancelled::int FROM jobq.batches WHERE id = $1", [batch]), 3, 'cancel of a batch: its jobs are canceled');

  const halted = textOf((await request(writable, { path: '/groups' })).text);
  like(halted, /account 7 ledger \d+ no such account 7 .*? 1 Retry/, 'a halted group: the page shows its failed job and the number of waiting jobs');
  like(textOf((await request(writable, { path: '/' })).text), /2 groups are halted/, 'a halted group: the overview mentions it');
  await say(writable, '/do/retry', { id: known.halted }, /it is (pending|blocked)/, 'retry of the failed job of a group');
  ok(!textOf((await request(writable, { path: '/groups' })).text).includes('account 7'), 'a halted group: after the retry, it is no longer halted');
  is((await request(writable, { path: '/jobs?batch=x' })).status, 200, 'a batch that is not a number: the page says so');

  // Like an update of the time zone data that drops the zone of a schedule.
  await sql("SELECT jobq_schedule('lunar', '0 3 * * *', 'craters')");
  await sql('BEGIN');
  await sql('SET LOCAL session_replication_role = replica');
  await sql("UPDATE jobq.schedule_settings SET timezone = 'Moon/Tycho' WHERE name = 'lunar'");
  await sql('COMMIT');
  const schedules = await request(writable, { path: '/schedules' });
  is(schedules.status, 200, 'a schedule in an unknown time zone: the page is shown');
  like(textOf(schedules.text), /lunar: .*Moon\/Tycho/, 'a schedule in an unknown time zone: the page says so');
  like(schedules.text, /nightly report(?:(?!<tr).)*?(?:<li>.*?){4}/s, 'a schedule in an unknown time zone: other schedules have their next runs');
  const craters = await request(writable, { path: '/queue?name=craters' });
  is(craters.status, 200, 'a queue that only a schedule uses has a page');
  like(textOf(craters.text), /The queue has not had a job yet/, 'a queue that only a schedule uses: the page says that it has had no jobs');
  is((await request(writable, { path: '/queue?name=nowhere' })).status, 404, 'an unknown queue has no page');
  for (const path of ['/queue?name=a%00b', '/jobs?metadata=%22%5Cu0000%22', '/jobs?metadata=1e1000000', '/jobs?after=zzz', '/bulk?action=__proto__&status=failed']) {
    is((await request(writable, { path })).status, 400, `${path}: an invalid parameter is an error of the client`);
  }
  await sql("SELECT jobq_unschedule('lunar')");
}

export async function many({ writable, db, env }) {
  const { value, sql } = db;
  const countOf = (queue, status) => value('SELECT count(*)::int FROM jobq.jobs WHERE queue = $1 AND status = $2::jobq.job_status', [queue, status]);
  const preview = (parameters) => request(writable, { path: `/bulk?${new URLSearchParams(parameters)}` });
  const filter = { action: 'retry', status: 'failed', queue: 'imports', error: 'no such product' };
  const wanted = await value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'imports' AND status = 'failed' AND error LIKE '%no such product%'");
  const others = await countOf('imports', 'failed') - wanted;
  const shown = await preview(filter);
  like(textOf(shown.text), new RegExp(` ${wanted} jobs match\\.`), `bulk: the preview says that ${wanted} match`);
  is(ids(shown).split(' ').length, wanted, 'bulk: the preview lists the jobs');
  is(await countOf('imports', 'failed'), wanted + others, 'bulk: a preview changes nothing');
  await wrong(writable, '/bulk', { ...filter, ids: ids(shown) }, /check the box/, 'bulk without the box');
  await wrong(writable, '/bulk', { ...filter, status: '', ids: ids(shown), sure: '1' }, /choose one of the statuses/, 'bulk without a status');
  await wrong(writable, '/bulk', { ...filter, ids: '1 2 x', sure: '1' }, /does not come from the preview/, 'bulk with rubbish');
  await wrong(writable, '/bulk', { ...filter, ids: Array.from({ length: 6000 }, (_, i) => i).join(' '), sure: '1' }, /does not come from the preview/, 'bulk with too many');
  is((await preview({ ...filter, status: 'pending' })).status, 400, 'bulk: a retry does not apply to pending jobs');

  // Between the preview and the confirmation, another session retries one of the jobs, and another job stops matching the filter.
  const [first, second] = ids(shown).split(' ');
  await sql('SELECT jobq_retry($1)', [first]);
  await sql("UPDATE jobq.jobs SET error = 'another' WHERE id = $1", [second]);
  await say(writable, '/bulk', { ...filter, ids: ids(shown), sure: '1' }, new RegExp(`Retry: ${wanted - 2} of ${wanted} jobs\\. 2 no longer matched`), 'bulk');
  is([await countOf('imports', 'failed'), await value('SELECT status::text FROM jobq.jobs WHERE id = $1', [second])], [others + 1, 'failed'], 'bulk: only the jobs of the preview that still match are changed');
  await say(writable, '/bulk', { action: 'cancel', status: 'pending', queue: 'imports', ids: ids(await preview({ action: 'cancel', status: 'pending', queue: 'imports' })), sure: '1' }, /Cancel: \d+ of \d+ jobs\./, 'bulk cancel');
  is(await countOf('imports', 'pending'), 0, 'bulk cancel: no job is pending');
  const cancelled = await countOf('imports', 'cancelled');
  await say(writable, '/bulk', { action: 'delete', status: 'cancelled', queue: 'imports', ids: ids(await preview({ action: 'delete', status: 'cancelled', queue: 'imports' })), sure: '1' }, new RegExp(`Delete: ${cancelled} of ${cancelled}`), 'bulk delete');
  is(await countOf('imports', 'cancelled'), 0, 'bulk delete: the jobs are deleted');

  // The unique key of one job is now taken by another job. The other jobs are retried.
  for (let i = 0; i < 3; i += 1) await sql("SELECT jobq_cancel(jobq_enqueue('unique', unique_key => $1))", [`key ${i}`]);
  await sql("SELECT jobq_enqueue('unique', unique_key => 'key 1')");
  const unique = await preview({ action: 'retry', status: 'cancelled', queue: 'unique' });
  await say(writable, '/bulk', { action: 'retry', status: 'cancelled', queue: 'unique', ids: ids(unique), sure: '1' }, /Retry: 2 of 3 jobs\. 1 could not be changed \(job \d+: /, 'bulk with a taken key');

  // If there are more jobs than one change accepts, the page says so.
  const narrow = await dashboard({ args: ['--allow-changes', '--bulk-size', '10', '--scan', '200'], env });
  const bounded = await request(narrow.address, { path: '/bulk?action=cancel&status=pending&queue=backlog' });
  like(textOf(bounded.text), /More than 10 jobs match/, 'bulk: the page says that there are more jobs than it changes');
  is(ids(bounded).split(' ').length, 10, 'bulk: only the allowed number of jobs is changed');
  like(textOf((await request(narrow.address, { path: '/jobs?queue=emails' })).text), /The search stopped after 200 jobs/, 'a search says where it stopped');
  await narrow.stop();

  // Dead letters
  const letters = await countOf('payments dead', 'failed');
  const redrive = { action: 'redrive', queue: 'payments', status: 'failed', dead: '1' };
  const { text } = await preview(redrive);
  like(textOf(text), new RegExp(` ${letters} jobs match`), `redrive: the preview says ${letters}`);
  const rates = new RegExp(`^(?:${text.match(/name="per_second"[^>]* pattern="([^"]+)"/)[1]})$`, 'u');
  is(['7', '0.5', '0x5', '.5'].filter((rate) => rates.test(rate)), ['7', '0.5'], 'redrive: the rate may have decimals');
  await say(writable, '/bulk', { ...redrive, ids: '', sure: '1', per_second: '0.5' }, new RegExp(`Redriven: ${letters} dead letters`), 'redrive');
  is([await countOf('payments dead', 'failed'), await countOf('payments', 'scheduled')], [0, letters - 1], 'redrive: the jobs are in their original queue, one after the other');
}

// Errors of jobs that are being retried have no failed jobs, and a list without jobs offers no changes.
export async function looks({ writable, db }) {
  const { sql, value } = db;
  const row = async () => (await request(writable, { path: '/failures?queue=again' })).text.split('<tr').find((text) => text.includes('gateway is away')) ?? '';
  const list = async () => textOf((await request(writable, { path: '/jobs?status=failed&error=gateway%20is%20away' })).text);
  for (const retry of [true, false]) {
    await sql("SELECT jobq_enqueue('again')");
    const [job] = await sql("SELECT id, lease FROM jobq_claim('again', 'tester')");
    await sql("SELECT jobq_fail($1, $2, 'gateway is away', retry_in => '1 day', retry => $3)", [job.id, job.lease, retry]);
    is([/Failed jobs/.test(await row()), /All that match/.test(await list())], [!retry, !retry], `failures: ${retry ? 'no link and no' : 'a link and'} changes if ${retry ? 'no' : 'a'} job has failed`);
  }
  await sql("SELECT jobq_pause_queue('again'), jobq_enqueue('again')");
  // While the counters are unknown, the overview shows the last sample.
  await becomesTrue('percentiles of a queue', async () => /How long jobs wait and run .*Waits Wait p50 Wait p95 Wait p99 Runs Run p50 Run p95 Run p99 \(none\) 2 /.test(textOf((await request(writable, { path: '/queue?name=again&range=24h' })).text)));
  await becomesTrue('overview: the singular and plural of job', async () => /Queue again is paused with 1 pending job\./.test(textOf((await request(writable, { path: '/' })).text)));
  await value("SELECT jobq_drop_queue('again', force => true)");
  await sql("SELECT jobq_set_limit('late', max_running => 0), jobq_enqueue('late', run_at => now() - interval '1 hour')");
  await becomesTrue('overview: the reason beside a late queue', async () => /Queue late : its oldest claimable job has been due for 1 h.*?: limit /.test(textOf((await request(writable, { path: '/' })).text)));
  await value("SELECT jobq_drop_queue('late', force => true)");
}

export async function exports({ writable, readOnly, db }) {
  const wanted = await db.value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'backlog'");
  const json = await request(readOnly, { path: '/jobs.json?queue=backlog' });
  const { complete, jobs } = JSON.parse(json.text);
  is([json.status, json.headers['content-type'], json.headers['content-disposition'], complete, jobs.length, jobs.at(-1).kind, jobs.at(-1).payload], [200, 'application/json', 'attachment; filename="jobs.json"', true, wanted, 'thumb', 1],
    'export: JSON contains all jobs of the filter');
  await db.sql("SELECT jobq_enqueue('exported', '{\"order\": 12345678901234567890}', kind => '=HYPERLINK(1)'), jobq_enqueue('exported', to_jsonb(repeat('x', 20000) || (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n)))");
  const csv = await request(readOnly, { path: '/jobs.csv?queue=exported' });
  const [head, large, formula, ...rest] = csv.text.split('\r\n');
  is([csv.headers['content-type'], head.split(',').slice(0, 3), rest], ['text/csv; charset=utf-8', ['id', 'queue', 'kind'], ['']], 'export: CSV has a row for each job');
  like(formula, /^\d+,exported,'=HYPERLINK\(1\),.*,"\{""order"": 12345678901234567890\}",$/, 'export: CSV contains no formula, and exact numbers');
  ok(large.endsWith(',,'), 'export: a large payload is omitted', large.slice(0, 500));
  like((await request(readOnly, { path: '/jobs.json?queue=exported' })).text, /"order": 12345678901234567890/, 'export: numbers in JSON are exact');
  await db.sql("SELECT jobq_drop_queue('exported', force => true)");
  is((await request(readOnly, { path: '/jobs.csv?from=x' })).status, 400, 'export: an invalid filter is rejected');
  const page = textOf((await request(writable, { path: '/jobs?queue=backlog&payload=thumb-that-is-nowhere' })).text);
  like(page, /None among|None\./, 'a search in payloads without a match says so');
}

export async function log({ board, readOnlyBoard }) {
  await becomesTrue('changes are logged', () => board.output.text.includes('"change":"do/pause_queue"'));
  const lines = board.output.text.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  const pause = lines.find((line) => line.change === 'do/pause_queue' && line.said?.queue === 'emails' && line.done);
  is([pause.role, pause.said.queue, pause.said.token], ['dash_operator', 'emails', undefined], 'the log says which role changed what, and contains no token');
  const refused = (found, pattern) => found.filter((line) => line.status === 403 && line.change === 'do/pause_queue' && pattern.test(line.error));
  is([refused(lines, /not from "http:..evil.example"/).length, refused(lines, /not from nowhere/).length, refused(lines, /form does not belong to this session/).length],
    [1, 1, 4], 'the log has each change that was rejected because it did not come from a page of the dashboard');
  ok(refused(lines, /./).every((line) => line.at && line.said === undefined), 'the log contains no fields of rejected forms');
  is(lines.filter((line) => line.status === 404).map((line) => line.change), ['do/drop_queue'], 'a change that does not exist is logged');
  await becomesTrue('read-only: rejected changes are logged', () => readOnlyBoard.output.text.includes('"change":"bulk"'));
  is(readOnlyBoard.output.text.split('\n').filter((line) => /^{.*"status":403/.test(line)).length, 4, 'read-only: all rejected changes are logged');
}
