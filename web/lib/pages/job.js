// A single job: its data, its history, its dependencies, and the possible changes. Each part needs a right of its own; a role
// without the right sees the other parts.
import { Problem } from '../database.js';
import { badge, block, definitions, html, notice, number, span, table, time, timestamp } from '../html.js';
import { graph } from '../graph.js';
import { timeline } from '../timeline.js';
import { explainTable } from './queues.js';

const ROWS = 100;
const GRAPH_JOBS = 40;
const LARGE = 262144;   // stored size in bytes; larger payloads are not read
const EDITED = 16384;   // characters; larger payloads cannot be edited, so that the form stays below the limit for posted forms

const value = (column) => `CASE WHEN pg_column_size(j.${column}) <= ${LARGE} THEN left(jsonb_pretty(j.${column}), 100000)
  WHEN j.${column} IS NOT NULL THEN '(' || pg_size_pretty(pg_column_size(j.${column})::bigint) || ' as stored: read it with psql)' END AS ${column}`;
const SHARED = `j.id, j.queue, j.kind, j.status, j.priority, j.attempts, j.max_attempts, j.version, j.requires, j.worker_id, j.created_at, j.run_at,
  j.started_at, j.last_heartbeat, j.finished_at, j.cancel_requested_at, j.error, j.heartbeat_timeout::text,
  ${['payload', 'metadata', 'progress', 'result'].map(value).join(', ')}`;
const OWN = `, j.unique_key, j.unique_for::text, j.group_key, j.concurrency_key, j.lost_attempts, j.max_runtime::text, j.dead_from, j.expires_at,
  j.batch_id, j.status = 'failed' AND j._group_active IS NOT NULL AS halts`;

async function readJob(view, query, id) {
  const { rights } = view;
  if (rights.reads('jobs')) {
    const [row] = await query(`SELECT ${SHARED}${OWN} FROM jobq.jobs j WHERE j.id = $1`, [id]);
    return row;
  }
  if (!rights.calls('jobq_get')) return null;
  const [row] = await query(`SELECT ${SHARED} FROM ${rights.call('jobq_get')}($1) j`, [id]);
  return row;
}

const UNFINISHED = new Set(['scheduled', 'blocked', 'pending', 'processing']);

export function jobActions(view, job, steps) {
  const parts = [];
  const id = { id: job.id };
  if (job.status !== 'pending' && job.status !== 'processing' && job.status !== 'blocked' && view.mayCall('jobq_retry')) {
    parts.push(view.form('/do/retry', { label: job.dead_from ? `Redrive to ${job.dead_from}` : job.status === 'scheduled' ? 'Run now' : 'Retry', hidden: id }));
    if (job.payload.length <= EDITED && view.mayCall('jobq_enqueue')) {
      parts.push(html`<details><summary>Retry with another payload ...</summary>${view.form('/do/retry_with', { label: 'Retry with this payload', hidden: id, fields: html`<label>Payload (JSON) <textarea name="payload" rows="8" cols="60" spellcheck="false">${
        job.payload}</textarea></label>${steps.length > 0 ? html`<label class="check"><input type="checkbox" name="keep_steps"> Keep the saved steps</label>` : ''}` })}</details>`);
    }
    if (steps.length > 0 && view.mayCall('jobq_retry_from')) {
      parts.push(html`<details><summary>Retry from a step ...</summary>${view.form('/do/retry_from', { label: 'Retry from this step', hidden: id, fields: html`<label>Step <select name="step">${
        steps.map((step) => html`<option>${step.name}</option>`)}</select><small>this step and all steps saved after it run again</small></label>` })}</details>`);
    }
  }
  if (job.halts && view.mayCall('jobq_skip')) {
    parts.push(view.confirmed('/do/skip', { label: 'Skip', hidden: id, ask: 'The next job of its group runs. If the queue has a dead letter queue, this job moves there.' }));
  }
  if ((UNFINISHED.has(job.status) || job.halts) && view.mayCall('jobq_cancel') && job.cancel_requested_at === null) {
    parts.push(view.confirmed('/do/cancel', { label: 'Cancel', hidden: id, ask: job.status === 'processing' ? 'Its worker is asked to stop.' : job.halts ? 'The next job of its group runs.' : 'It will not run. Jobs that depend on it are cancelled, too.' }));
  }
  if (job.status !== 'processing' && view.mayCall('jobq_delete')) {
    parts.push(view.confirmed('/do/delete', { label: 'Delete', hidden: id, ask: 'The job and its attempts are deleted permanently.', back: view.href('/jobs', { queue: job.queue }) }));
  }
  return parts.length === 0 ? '' : html`<div class="actions">${parts}</div>`;
}

function factsOf(view, job) {
  return definitions([
    ['Queue', view.queue(job.queue)], ['Kind', job.kind], ['Priority', String(job.priority)],
    ['Attempts', html`${number(job.attempts)} of ${number(job.max_attempts)}${job.lost_attempts ? `, ${number(job.lost_attempts)} lost their worker` : ''}`],
    ['Enqueued', html`${timestamp(job.created_at)} (${time(job.created_at)})`],
    ['Due', html`${timestamp(job.run_at)} (${time(job.run_at)})`],
    ['Expires', job.expires_at && html`${timestamp(job.expires_at)} (${time(job.expires_at)})`],
    ['Claimed', job.started_at && html`${timestamp(job.started_at)} (${time(job.started_at)})`],
    ['Worker', job.worker_id],
    ['Last heartbeat', job.status === 'processing' ? time(job.last_heartbeat) : ''],
    ['Ended', job.finished_at && html`${timestamp(job.finished_at)} (${time(job.finished_at)}${job.started_at && job.status === 'completed' ? `, it took ${span((job.finished_at - job.started_at) / 1000)}` : ''})`],
    ['Asked to stop', job.cancel_requested_at && time(job.cancel_requested_at)],
    ['Dead letter from', job.dead_from && view.queue(job.dead_from)],
    ['Version', job.version === 0 ? '' : String(job.version)], ['Requires', (job.requires ?? []).join(', ')],
    ['Unique key', job.unique_key && html`<code>${job.unique_key}</code>${job.unique_for ? `, kept for ${job.unique_for} afterward` : ''}`],
    ['Batch', job.batch_id && view.link(job.batch_id, '/jobs', { batch: job.batch_id })],
    ['Group', job.group_key], ['Concurrency key', job.concurrency_key],
    ['Heartbeat timeout', job.heartbeat_timeout], ['Longest run', job.max_runtime],
  ]);
}

// Selects the details of an error by the keys that the contract of workers defines, and all other keys together.
const DETAILS = ['class', 'stack'].map((key) => `left(a.details->>'${key}', 20000) AS ${key}`).join(', ') +
  `, CASE WHEN jsonb_typeof(a.details) = 'object' THEN left(jsonb_pretty(nullif(a.details - '{class,stack}'::text[], '{}')), 4000) END AS others`;

function detailsOf({ class: type, stack, others }) {
  const texts = [['Stack trace', stack], ['Other details', others]].filter(([, text]) => text !== null);
  if (texts.length === 0) return type === null ? '' : html`<br>${type}`;
  return html`<details><summary>${type ?? 'Details'}</summary>${texts.map(([label, text]) => block(label, text))}</details>`;
}

async function attemptsPart(view, query, id) {
  if (!view.rights.reads('attempts')) return { rows: [], part: '' };
  const rows = await query(`SELECT a.attempt, a.outcome, a.worker_id, a.started_at, a.finished_at, a.reported, left(a.error, 4000) AS error, ${DETAILS}
    FROM jobq.attempts a WHERE a.job_id = $1 ORDER BY a.finished_at DESC LIMIT ${ROWS}`, [id]);
  return { rows, part: html`<h2>Attempts that did not complete</h2>${table('Attempts, the latest first', [
    { label: 'Attempt', number: true, cell: (row) => row.attempt },
    { label: 'Outcome', cell: (row) => badge(row.outcome) },
    { label: 'Worker', cell: (row) => html`${row.worker_id}${row.reported ? '' : ' (taken away)'}` },
    { label: 'Began', cell: (row) => time(row.started_at) },
    { label: 'Took', number: true, cell: (row) => (row.started_at ? span((row.finished_at - row.started_at) / 1000) : '') },
    { label: 'Error', wide: true, cell: (row) => html`${row.error}${detailsOf(row)}` },
  ], rows)}` };
}

const BADGES = { error: 'failed', warning: 'paused' };

// Highlights the log lines that are warnings and errors.
function eventCell({ event }) {
  const level = BADGES[/^log (\w+)/.exec(event)?.[1]];
  return level ? badge(level, event) : event;
}

// The log lines of a job can be many. While the job runs, the latest ones are of interest.
async function logPart(view, query, id) {
  if (!view.rights.calls('jobq_log')) return { rows: undefined, part: '' };
  const details = !view.rights.reads('attempts');   // otherwise, the table of attempts shows them
  const rows = await query(`SELECT a.at, a.event, a.attempt, a.worker_id, a.detail, a.place${details ? `, ${DETAILS}` : ''}
     FROM (SELECT l.*, row_number() OVER () AS place, count(*) OVER () AS all_of_them FROM ${view.rights.call('jobq_log')}($1) l) a
     WHERE a.place > a.all_of_them - ${2 * ROWS} ORDER BY a.place`, [id]);
  const omitted = Number(rows[0]?.place ?? 1) - 1;
  return { rows, part: html`<h2>History</h2>${omitted > 0 ? html`<p>${number(omitted)} earlier events are not shown.</p>` : ''}${table('Events', [
    { label: 'At', cell: (row) => timestamp(row.at) },
    { label: 'Event', cell: eventCell },
    { label: 'Attempt', number: true, cell: (row) => row.attempt },
    { label: 'Worker', cell: (row) => row.worker_id },
    { label: 'Detail', wide: true, cell: (row) => html`${row.detail}${details ? detailsOf(row) : ''}` },
  ], rows)}` };
}

async function readSteps(view, query, id) {
  if (!view.rights.reads('steps')) return [];
  return query(`SELECT s.number, s.name, s.kind, s.state, s.saved_at, s.until, s.event, s.jobs,
      CASE WHEN pg_column_size(s.result) <= 8192 THEN left(s.result::text, 500) WHEN s.result IS NOT NULL THEN '(large)' END AS result
    FROM jobq.steps s WHERE s.job_id = $1 ORDER BY s.number LIMIT ${ROWS}`, [id]);
}

function stepsPart(view, steps) {
  if (steps.length === 0) return '';
  return html`<h2>Steps</h2>${table('Steps', [
    { label: 'Step', cell: (row) => row.name },
    { label: 'What', cell: (row) => row.kind },
    { label: 'State', cell: (row) => badge(row.state) },
    { label: 'At', cell: (row) => time(row.saved_at) },
    { label: 'Until', cell: (row) => time(row.until) },
    { label: 'Awaits', cell: (row) => html`${row.event}${(row.jobs ?? []).slice(0, 10).map((id) => html` ${view.job(id)}`)}${(row.jobs ?? []).length > 10 ? ' ...' : ''}` },
    { label: 'Result', wide: true, cell: (row) => html`<code>${row.result}</code>` },
  ], steps)}`;
}

async function readChildren(view, query, id) {
  if (!view.rights.reads('jobs', 'edges')) return [];
  return query(`SELECT j.id, j.kind, j.status, j.created_at, j.started_at, j.finished_at FROM jobq.edges d JOIN jobq.jobs j ON j.id = d.target
    WHERE d.job_id = $1 AND d.kind = 'child' ORDER BY d.target LIMIT ${ROWS}`, [id]);
}

const RELATED = [['depends', 'Depends on', 'd.target', 'd.job_id'], ['depends', 'Others that depend on it', 'd.job_id', 'd.target'],
  ['child', 'Has spawned', 'd.target', 'd.job_id'], ['child', 'Spawned by', 'd.job_id', 'd.target']];

async function relatedPart(view, query, id) {
  const parts = [];
  if (view.rights.reads('jobs')) {
    for (const [kind, label, other, own] of view.rights.reads('edges') ? RELATED : []) {
      const rows = await query(`SELECT ${other} AS id, j.status, j.kind FROM jobq.edges d LEFT JOIN jobq.jobs j ON j.id = ${other}
        WHERE ${own} = $1 AND d.kind = '${kind}' ORDER BY ${other} LIMIT ${ROWS + 1}`, [id]);
      if (rows.length === 0) continue;
      parts.push([label, html`<ul class="jobs">${rows.slice(0, ROWS).map((row) => html`<li>${view.job(row.id)} ${row.kind} ${row.status ? badge(row.status) : '(deleted)'}</li>`)}</ul>${
        rows.length > ROWS ? `and more than ${ROWS}` : ''}`]);
    }
  }
  let drawing = '';
  if (view.rights.calls('jobq_dot')) {
    const [{ dot }] = await query(`SELECT ${view.rights.call('jobq_dot')}($1, $2) AS dot`, [id, GRAPH_JOBS]);
    drawing = dot === null ? '' : graph(view, dot, String(id));
  }
  if (parts.length === 0 && drawing === '') return '';
  return html`<h2>Other jobs</h2>${definitions(parts)}${drawing}`;
}

export async function jobPage(view, query, { id }) {
  if (!/^\d{1,19}$/.test(id) || BigInt(id) > 9223372036854775807n) throw new Problem('missing', `"${id}" is not the id of a job`, { status: 404 });
  const { rights } = view;
  const job = await readJob(view, query, id);
  const log = await logPart(view, query, id);
  if (job === undefined || (job === null && (log.rows ?? []).length === 0)) {
    if (job === null && log.rows === undefined) throw new Problem('right', `role "${rights.role}" may not see jobs`, { status: 403 });
    throw new Problem('missing', `job ${id} does not exist`, { status: 404 });
  }
  const steps = job ? await readSteps(view, query, id) : [];
  const attempts = await attemptsPart(view, query, id);
  const explained = (job === null || UNFINISHED.has(job.status) || job.halts) && rights.calls('jobq_explain')
    ? await query(`SELECT * FROM ${rights.call('jobq_explain')}($1) LIMIT 20`, [id]) : [];
  const texts = job ? [['Error', job.error], ['Payload', job.payload], ['Result', job.result], ['Progress', job.progress], ['Metadata', job.metadata]]
    .filter(([, text]) => text !== null) : [];
  return view.page(`Job ${id}`, html`
${job ? html`<p>${badge(job.status)} ${job.dead_from ? badge('failed', 'dead letter') : ''}${job.halts ? badge('failed', 'halts its group') : ''}</p>${jobActions(view, job, steps)}${factsOf(view, job)}`
    : notice('warn', `Role "${rights.role}" may not read jobs, so payload, result, and settings are not shown.`)}
${explained.length > 0 ? html`<h2>Why it does not run, or its state</h2>${explainTable(view, explained)}` : ''}
${texts.map(([label, text]) => html`<h2>${label}</h2>${block(label, text)}`)}
${job ? timeline(view, { job, attempts: attempts.rows, steps, children: await readChildren(view, query, id), lines: (log.rows ?? []).filter((row) => row.event.startsWith('log ')).map((row) => row.at) }) : ''}
${attempts.part}
${log.part}
${stepsPart(view, steps)}
${job ? await relatedPart(view, query, id) : ''}`, { live: true });
}
