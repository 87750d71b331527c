// The list of queues, and the page of a queue: its numbers, why it stands still, its settings and limits, and the possible
// changes.
import { Problem, mustRead } from '../database.js';
import { badge, definitions, html, notice, number, rate, span, table, time } from '../html.js';
import { chart, rangeLinks, rangeOf } from '../chart.js';
import { PERCENTS } from '../percentiles.js';
import { sparkline } from '../sparkline.js';
import { enqueueLink } from './enqueue.js';
import { MAX_QUEUES, STATUSES } from '../sampler.js';

// Returns for how many seconds the oldest claimable job of each queue has been due. Looks at these queues only.
export async function agesOf(query, rows) {
  const found = await query(`SELECT n.queue, extract(epoch FROM jobq.oldest_pending_age(n.queue))::float8 AS age
    FROM unnest($1::text[]) n(queue)`, [rows.map((row) => row.queue)]);
  return new Map(found.filter((row) => row.age !== null).map((row) => [row.queue, row.age]));
}

// Returns the most important reason why the jobs of each of these queues do not start.
export async function reasonsOf(view, query, queues) {
  if (queues.length === 0 || !view.rights.calls('jobq_explain_queue')) return new Map();
  const rows = await query(`SELECT n.queue, e.reason, e.detail FROM unnest($1::text[]) n(queue),
    LATERAL (SELECT * FROM ${view.rights.call('jobq_explain_queue')}(n.queue) LIMIT 1) e`, [queues]);
  return new Map(rows.map((row) => [row.queue, row]));
}

export function countsNotice({ counts, slow, at }) {
  if (at === undefined) return notice('warn', 'The dashboard has not read the numbers of the queues yet.');
  if (!counts) return slow ? notice('warn', html`These numbers were read at ${time(at)}, because reading the numbers of this many queues takes long.`) : '';
  return notice('warn', html`jobq is not preloaded, or still counts, so these numbers come from reading all jobs, which takes longer the more jobs there are. They were read at ${time(at)}.`);
}

// Explains why a queue has no numbers on a page.
function someNotice({ some, at, rows, total }, queues) {
  if (!some || at === undefined || rows.length === queues.length) return '';
  return notice('warn', `The dashboard has numbers only for the ${number(MAX_QUEUES)} busiest of ${number(total.queues)} queues. A queue without numbers is not among them, and may have jobs.`);
}

export function searchForm(view, search = '') {
  return html`<form method="get" action="${view.href('/queues')}" class="filter" role="search"><label>Name contains <input name="search" value="${search}" maxlength="63"></label><button>Search</button></form>`;
}

// Returns the numbers for a queue without a row: zero jobs, or unknown.
function withoutRow({ some }) {
  return Object.fromEntries(STATUSES.map((status) => [status, some ? null : 0]));
}

export async function queuesPage(view, query, given, { sampler }) {
  if (!view.rights.reads('queue_stats') && view.rights.some_queues) return ownQueuesPage(view, query);
  mustRead(view.rights, 'queue_stats', 'queues');
  const { pageSize } = view.options;
  const search = (given.search ?? '').slice(0, 63);
  const after = given.after ?? '';
  // jobq.queues contains queues that have settings but no jobs yet.
  const named = await query(`SELECT q.queue, q.paused, q.max_depth, q.dead_letter_queue FROM jobq.queues q
    WHERE q.queue COLLATE "C" > $1 AND position($2 in q.queue) > 0 ORDER BY q.queue COLLATE "C" LIMIT $3`, [after, search, pageSize + 1]);
  const shown = named.slice(0, pageSize);
  const stats = await sampler.statsOf(query, shown.map((row) => row.queue));
  const byName = new Map(stats.rows.map((row) => [row.queue, row]));
  const rows = shown.map((row) => ({ ...withoutRow(stats), ...byName.get(row.queue), ...row }));
  const ages = stats.counts ? new Map() : await agesOf(query, rows.filter((row) => row.pending > 0));
  const seconds = sampler.seconds();
  const count = (status) => ({ label: status, number: true, cell: (row) => (row[status] > 0 ? view.link(number(row[status]), '/jobs', { queue: row.queue, status }) : number(row[status])) });
  return view.page('Queues', html`${countsNotice(stats)}${someNotice(stats, shown)}
${searchForm(view, search)}
${table('Queues', [
    { label: 'Queue', cell: (row) => html`${view.queue(row.queue)} ${row.paused ? badge('paused') : ''}` },
    count('pending'), count('processing'), count('scheduled'), count('blocked'), count('completed'), count('failed'), count('cancelled'),
    { label: 'Oldest', number: true, cell: (row) => span(ages.get(row.queue)) },
    { label: 'Claimed', number: true, cell: (row) => rate(row.claimed) },
    { label: 'Pending before', cell: (row) => sparkline(`Pending in ${row.queue}`, sampler.series('pending', row.queue), { seconds }) },
    ...(view.mayCall('jobq_pause_queue', 'jobq_resume_queue') ? [{ label: 'Claims', cell: (row) => pauseForm(view, row) }] : []),
  ], rows, { empty: search ? 'No queue has such a name.' : 'There are no queues yet.' })}
${named.length > pageSize ? view.more('/queues', { search, after: shown.at(-1).queue }, 'More queues') : ''}`, { live: true });
}

// The page for a role that operates only certain queues: shows these queues, without counts.
async function ownQueuesPage(view, query) {
  const rows = await query('SELECT o.queue FROM jobq.operator_queues o ORDER BY o.queue COLLATE "C" LIMIT 1000');
  return view.page('Queues', html`${notice('warn', `Role "${view.rights.role}" was granted only some queues. Counts, lists, and searches require access to all queues, but the role can open single jobs by id.`)}
${table('Your queues', [{ label: 'Queue', cell: (row) => view.queue(row.queue) }], rows)}${jobForm(view)}`);
}

export function jobForm(view) {
  return html`<form method="get" action="${view.href('/job')}" class="filter"><label>Job <input name="id" inputmode="numeric" pattern="[0-9]{1,19}" required></label><button>Show</button></form>`;
}

function pauseForm(view, row) {
  return view.form('/do/' + (row.paused ? 'resume_queue' : 'pause_queue'),
    { label: html`${row.paused ? 'Resume' : 'Pause'} <span class="hidden">${row.queue}</span>`, hidden: { queue: row.queue } });
}

export function explainTable(view, rows) {
  return table('Why', [
    { label: 'Reason', cell: (row) => badge(row.reason) },
    { label: 'Detail', wide: true, cell: (row) => row.detail },
    { label: 'Jobs', cell: (row) => html`${(row.jobs ?? []).slice(0, 10).map((id) => html`${view.job(id)} `)}${(row.jobs ?? []).length > 10 ? '...' : ''}` },
    { label: 'Processes', cell: (row) => (row.pids ?? []).join(' ') },
    { label: 'Until', cell: (row) => time(row.until) },
  ], rows);
}

const SETTINGS = [['max_attempts', 'Attempts'], ['backoff_base', 'Backoff from'], ['backoff_max', 'Backoff to'],
  ['heartbeat_timeout', 'Heartbeat timeout'], ['max_lost', 'Lost workers'], ['max_runtime', 'Longest run'], ['on_max_runtime', 'After that'],
  ['keep_completed', 'Completed jobs are kept'], ['keep_failed', 'Failed jobs are kept'], ['max_depth', 'Maximum number of waiting jobs'],
  ['on_full', 'When full'], ['dead_letter_queue', 'Dead letters go to'], ['priority_ageing', 'Priority ageing'], ['round_robin', 'Keys take turns'],
  ['expires_in', 'Waiting jobs expire after'], ['backoff', 'Delays after failures'], ['group_on_failure', 'After a failure, groups'],
  ['limits', 'Named limits of jobs']];

async function settingsOf(query, queue) {
  const [row] = await query(`SELECT q.paused, q.has_settings, ${SETTINGS.map(([name]) => `q.${name}::text`).join(', ')}
    FROM jobq.queues q WHERE q.queue = $1`, [queue]);
  return row;
}

function limitedPart({ key, kind, name }) {
  if (name) return html`named limit <code>${name}</code>`;
  if (kind === '') return 'jobs without a kind';
  if (kind !== null) return kind === '*' ? 'each other kind' : html`kind <code>${kind}</code>`;
  if (key === null) return 'the whole queue';
  return key === '*' ? 'each other key' : html`key <code>${key}</code>`;
}

function limitsPart(view, queue, limits) {
  const may = view.mayCall('jobq_set_limit');
  return html`<h2>Limits</h2>
${table('Limits', [
    { label: 'Of', cell: limitedPart },
    { label: 'Running', number: true, cell: (row) => (row.max_running === null ? '' : `${number(row.running)} of ${number(row.max_running)}`) },
    { label: 'Rate', number: true, cell: (row) => (row.rate === null ? '' : `${number(row.rate)} each ${row.per}`) },
    { label: 'May start now', number: true, cell: (row) => number(row.tokens) },
    { label: 'Next', cell: (row) => time(row.next_token) },
    ...(may ? [{ label: 'Change', cell: (row) => (row.name ? '' : view.confirmed('/do/set_limit', { label: 'Remove', ask: 'Jobs that the limit holds back can start immediately.', hidden: { queue, of: row.kind === null ? 'key' : 'kind', name: row.kind ?? row.key ?? '' } })) }] : []),
  ], limits, { empty: 'No limits.' })}
${may ? html`<details><summary>Set a limit ...</summary>${view.form('/do/set_limit', { label: 'Set the limit', hidden: { queue }, fields: html`
<label>Of <select name="of"><option value="key">a concurrency key</option><option value="kind">a kind</option></select></label>
<label>Name <input name="name" maxlength="255"><small>empty: the whole queue, or jobs without a kind; *: each key or kind without its own limit</small></label>
<label>Running at once <input name="max_running" type="number" min="0" max="1000000"></label>
<label>Starts <input name="rate" type="number" min="1" max="2147483647"></label>
<label>in each <input name="per" placeholder="1 minute" maxlength="60"></label>` })}</details>` : ''}`;
}

// Returns one row for each setting that a kind sets itself instead of using the setting of the queue.
async function settingsOfKinds(query, queue) {
  return query(`SELECT k.kind, o.key AS setting, to_jsonb(k) ->> o.key AS value FROM jobq.kinds k, jsonb_each_text(k.origins) o
    WHERE k.queue = $1 AND k.has_settings AND o.value = 'kind' ORDER BY k.kind COLLATE "C", o.key LIMIT 501`, [queue]);
}

async function kindsPart(view, query, queue) {
  if (!view.rights.reads('kinds')) return '';
  const may = view.mayCall('jobq_alter_kind', 'jobq_drop_kind');
  const rows = await settingsOfKinds(query, queue);
  if (rows.length === 0 && !may) return '';
  const names = may ? await query(`SELECT a.attname AS name FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'jobq.kind_settings'::pg_catalog.regclass
    AND a.attnum > 0 AND NOT a.attisdropped AND a.attname NOT IN ('queue', 'kind', 'created_at') ORDER BY a.attnum`) : [];
  return html`<h2>Settings of kinds</h2>
${table('Settings of kinds', [
    { label: 'Kind', cell: (row) => row.kind || '(none)' },
    { label: 'Setting', cell: (row) => row.setting },
    { label: 'Value', cell: (row) => row.value ?? 'none' },
    ...(may ? [{ label: 'Change', cell: (row) => view.confirmed('/do/drop_kind', { label: 'Remove', ask: 'The setting of the queue applies again.', hidden: { queue, kind: row.kind, setting: row.setting } }) }] : []),
  ], rows.slice(0, 500), { empty: 'The settings of the queue apply to all kinds.' })}${rows.length > 500 ? html`<p>There are more.</p>` : ''}
${may ? html`<details><summary>Set a setting of a kind ...</summary>${view.form('/do/alter_kind', { label: 'Set the setting', hidden: { queue }, fields: html`
<label>Kind <input name="kind" maxlength="255"><small>empty: jobs without a kind</small></label>
<label>Setting <select name="setting">${names.map(({ name }) => html`<option>${name}</option>`)}</select></label>
<label>Value <input name="value" maxlength="4000"><small>such as 3, 10 min, or {1s,1min} for backoff; 0 or empty: none</small></label>` })}</details>` : ''}`;
}

function actionsPart(view, queue, settings, deadLetters) {
  const parts = [];
  if (view.mayCall('jobq_pause_queue', 'jobq_resume_queue')) parts.push(pauseForm(view, { queue, paused: settings.paused }));
  if (view.mayCall('jobq_alter_queue')) {
    parts.push(html`<details><summary>Depth ...</summary>${view.form('/do/set_depth', { label: 'Set the depth', hidden: { queue }, fields: html`
<label>Maximum number of waiting jobs <input name="max_depth" type="number" min="0" max="2147483647" required value="${settings.max_depth ?? ''}"><small>approximate; 0: no maximum</small></label>
<label>When it is full <select name="on_full">${['reject', 'drop_oldest'].map((choice) => html`<option${choice === settings.on_full ? html` selected` : ''}>${choice}</option>`)}</select></label>` })}</details>`);
  }
  if (deadLetters && view.mayCall('jobq_redrive') && view.rights.reads('jobs')) parts.push(view.link('Redrive dead letters ...', '/bulk', { action: 'redrive', queue, status: 'failed', dead: '1' }));
  parts.push(enqueueLink(view, { queue }));
  return parts.every((part) => part === '') ? '' : html`<div class="actions">${parts}</div>`;
}

// Returns whether something refers to a queue that does not exist yet. A queue exists as soon as it has a job or settings.
async function isExpected(view, query, queue) {
  const named = [['queues', 'dead_letter_queue'], ['schedules', 'queue'], ['handlers', 'queue']].filter(([relation]) => view.rights.reads(relation));
  const [{ expected }] = await query(`SELECT ${named.map(([relation, column]) => `EXISTS (SELECT FROM jobq.${relation} n WHERE n.${column} = $1)`).join(' OR ')} AS expected`, [queue]);
  return expected;
}

// label, series, whether it is a rate, and the current value
const CHARTS = [['Pending', 'pending', false, (row, age) => html`${number(row?.pending)}${age === undefined ? '' : `, the oldest due for ${span(age)}`}`], ['Running', 'processing', false, (row) => number(row?.processing)],
  ['Enqueued', 'enqueued', true, (row) => rate(row?.enqueued)], ['Completed', 'completed', true, (row) => rate(row?.completions)],
  ['Failed or lost', 'errors', true, (row) => rate(typeof row?.failures === 'number' ? row.failures + row.losses : null)]];
const MOST_KINDS = 50;

function percentilesPart({ since, rows }) {
  if (rows.length === 0) return '';
  const columns = (label, name) => [{ label: `${label}s`, number: true, cell: (row) => number(row[name]?.count) },
    ...PERCENTS.map((percent, i) => ({ label: `${label} p${percent}`, number: true, cell: (row) => (row[name] === undefined ? '' : row[name].values[i] === Infinity ? 'over 2 h' : span(row[name].values[i])) }))];
  return html`<h2>How long jobs wait and run</h2>${table(since ? html`Jobs since ${time(since)}. The given share of the jobs took at most this time.` : 'Jobs since the server began to count. The given share of the jobs took at most this time.',
    [{ label: 'Kind', cell: (row) => row.kind || '(none)' }, ...columns('Wait', 'waits'), ...columns('Run', 'runs')], rows.slice(0, MOST_KINDS))}`;
}

export async function queuePage(view, query, given, { sampler }) {
  const { rights } = view;
  const queue = given.name ?? '';
  if (!rights.reads('queue_stats', 'queues')) {
    if (!rights.some_queues) mustRead(rights, 'queue_stats', 'queues');
    return ownQueuePage(view, query, queue);
  }
  const settings = await settingsOf(query, queue);
  const stats = await sampler.statsOf(query, [queue]);
  const [row] = stats.rows;
  if (!settings && !row && !(await isExpected(view, query, queue))) throw new Problem('missing', `queue "${queue}" does not exist`, { status: 404 });
  const ages = stats.counts ? new Map() : await agesOf(query, [{ queue }]);
  const range = rangeOf(given);
  const limits = rights.reads('limits') ? await query(`SELECT l.key, l.kind, l.max_running, l.running, l.rate, l.per::text, l.tokens, l.next_token
    FROM jobq.limits l WHERE l.queue = $1 ORDER BY l.kind NULLS FIRST, l.key NULLS FIRST LIMIT 100`, [queue]) : [];
  if (rights.reads('named_limits')) limits.push(...await query(`SELECT n.name, NULL AS key, NULL AS kind, n.max_running, n.running, n.rate, n.per::text, n.tokens, n.next_token
    FROM jobq.named_limits n WHERE $1 = ANY (n.queues) ORDER BY n.name LIMIT 100`, [queue]));
  const explained = rights.calls('jobq_explain_queue') ? await query(`SELECT * FROM ${rights.call('jobq_explain_queue')}($1) LIMIT 50`, [queue]) : [];
  const sources = await query('SELECT q.queue FROM jobq.queues q WHERE q.dead_letter_queue = $1 ORDER BY q.queue LIMIT 20', [queue]);
  const lanes = rights.reads('lanes') ? await query(`SELECT l.kind, l.version, l.requires FROM jobq.lanes l WHERE l.queue = $1
    ORDER BY l.kind, l.version, l.requires LIMIT 51`, [queue]) : [];
  const dead = Boolean(settings?.dead_letter_queue) || sources.length > 0;
  return view.page(`Queue ${queue}`, html`${countsNotice(stats)}${someNotice(stats, [queue])}
${settings || row ? '' : html`<p class="empty">The queue has not had a job yet.</p>`}
<p>${settings?.paused ? badge('paused') : badge('idle', 'open')} ${sources.length > 0 ? html`Dead letters come from ${sources.map((one) => html`${view.queue(one.queue)} `)}` : ''}</p>
${actionsPart(view, queue, settings ?? {}, dead)}
<ul class="tiles">${STATUSES.map((status) => html`<li><a href="${view.href('/jobs', { queue, status })}"><b>${number((row ?? withoutRow(stats))[status])}</b> ${badge(status)}</a></li>`)}</ul>
${rangeLinks(view, '/queue', { name: queue }, range)}
<ul class="graphs">${CHARTS.map(([label, name, rates, now]) => chart(label, sampler.history.points(range, name, queue), { range, rates, now: now(row, ages.get(queue)) }))}</ul>
${percentilesPart(sampler.percentiles.of(queue))}
<h2>Why jobs do or do not start</h2>${explainTable(view, explained)}
${limitsPart(view, queue, limits)}
<h2>Settings</h2>${settings ? definitions(SETTINGS.map(([name, label]) => [label, name === 'dead_letter_queue' && settings[name] ? view.queue(settings[name]) : settings[name]])) : ''}
${await kindsPart(view, query, queue)}
${lanes.length > 0 ? html`<h2>Kinds</h2>${table('Kinds of jobs in the queue', [
    { label: 'Kind', cell: (lane) => view.link(lane.kind || '(none)', '/jobs', { queue, status: 'pending', ...(lane.kind ? { kind: lane.kind } : { nokind: '1' }) }) },
    { label: 'Version', number: true, cell: (lane) => lane.version },
    { label: 'Requires', cell: (lane) => (lane.requires ?? []).join(', ') },
  ], lanes.slice(0, 50))}${lanes.length > 50 ? html`<p>There are more.</p>` : ''}` : ''}`, { live: true });
}

async function ownQueuePage(view, query, queue) {
  const { rights } = view;
  const [own] = await query('SELECT o.queue FROM jobq.operator_queues o WHERE o.queue = $1', [queue]);
  if (!own) throw new Problem('missing', `role "${rights.role}" was not granted a queue "${queue}"`, { status: 404 });
  const explained = await query(`SELECT * FROM ${rights.call('jobq_explain_queue')}($1) LIMIT 50`, [queue]);
  const actions = ['pause_queue', 'resume_queue'].filter((name) => view.mayCall(`jobq_${name}`))
    .map((name) => view.form(`/do/${name}`, { label: name === 'pause_queue' ? 'Pause' : 'Resume', hidden: { queue } }));
  return view.page(`Queue ${queue}`, html`<div class="actions">${actions}</div><h2>Why jobs do or do not start</h2>${explainTable(view, explained)}${jobForm(view)}`);
}
