// The list of jobs: a filter, a page of results, and how many jobs the search has examined.
import { Problem, mustRead } from '../database.js';
import { badge, html, notice, number, plural, table, time } from '../html.js';
import { momentField } from '../moment.js';
import { AGES, FIELDS, STATUS_CHOICES, WALKS, decodeCursor, parseFilter, rangeOf, searchResult, searchStatement, walkOf } from '../jobs_search.js';
import { ACTIONS } from './bulk.js';
import { enqueueLink } from './enqueue.js';

// For a payload that is stored outside the table row, only its size is read.
const COLUMNS = `j.id, j.queue, j.kind, j.status, j.attempts, j.max_attempts, j.priority, j.created_at, j.run_at, j.started_at,
  j.finished_at, j.worker_id, left(j.error, 200) AS error, j.dead_from,
  CASE WHEN pg_column_size(j.payload) <= 8192 THEN left(j.payload::text, 120)
       ELSE '(' || pg_size_pretty(pg_column_size(j.payload)::bigint) || ')' END AS payload`;

export async function searchJobs(view, query, filter, { cursor, limit, columns = COLUMNS }) {
  const { rights, options } = view;
  mustRead(rights, 'jobs', ...(WALKS[walkOf(filter)].needs ?? []));
  let before;
  if (cursor !== undefined) {
    before = decodeCursor(walkOf(filter), cursor);
    if (before === undefined) throw new Problem('argument', 'the address of the page is incomplete', { status: 400 });
  }
  const statement = searchStatement(filter, { before, columns, limit, scan: options.scan, range: await rangeOf(query, filter) });
  const rows = await query(statement.text, statement.values);
  return { ...searchResult(statement, rows), most: statement.most, walk: statement.walk };
}

function select(name, chosen, choices) {
  return html`<select name="${name}"><option value="">any</option>${choices.map(([value, text]) =>
    html`<option value="${value}"${value === chosen ? html` selected` : ''}>${text}</option>`)}</select>`;
}

export function filterForm(view, filter) {
  const more = ['worker', 'key', 'older', 'from', 'to', 'metadata', 'payload', 'nokind', 'dead', 'batch'].some((field) => filter[field] !== undefined);
  return html`<form method="get" action="${view.href('/jobs')}" class="filter" role="search">
<label>Status ${select('status', filter.status, STATUS_CHOICES.map((status) => [status, status]))}</label>
<label>Queue <input name="queue" value="${filter.queue ?? ''}" maxlength="63"></label>
<label>Kind <input name="kind" value="${filter.kind ?? ''}" maxlength="255"></label>
<label>Error contains <input name="error" value="${filter.error ?? ''}" maxlength="300"></label>
<details${more ? html` open` : ''}><summary>More</summary>
<label>Worker <input name="worker" value="${filter.worker ?? ''}" maxlength="255"></label>
<label>Unique key <input name="key" value="${filter.key ?? ''}" maxlength="1024"></label>
<label>Batch <input name="batch" value="${filter.batch ?? ''}" inputmode="numeric" pattern="[0-9]{1,18}"></label>
<label>Enqueued ${select('older', filter.older, Object.entries(AGES).map(([value, text]) => [value, `more than ${text} ago`]))}</label>
${momentField('Enqueued from (UTC)', 'from', filter.from)}
${momentField('Enqueued before (UTC)', 'to', filter.to)}
<label>Payload contains <input name="payload" value="${filter.payload ?? ''}" placeholder="{&quot;order&quot;: 17}" maxlength="2000"><small>JSON or text; up to 8 kB of a payload are searched</small></label>
<label>Metadata contain <input name="metadata" value="${filter.metadata ?? ''}" placeholder="{&quot;tenant&quot;: 7}" maxlength="2000"></label>
<label class="check"><input type="checkbox" name="nokind" value="1"${filter.nokind ? html` checked` : ''}> without a kind</label>
<label class="check"><input type="checkbox" name="dead" value="1"${filter.dead ? html` checked` : ''}> dead letters</label>
</details><button>Search</button></form>`;
}

// Returns the time that is most relevant for a job in its status.
function when(row) {
  switch (row.status) {
    case 'scheduled': return html`due ${time(row.run_at)}`;
    case 'processing': return html`claimed ${time(row.started_at)}`;
    case 'pending':
    case 'blocked': return html`enqueued ${time(row.created_at)}`;
    default: return html`ended ${time(row.finished_at)}`;
  }
}

export function jobsTable(view, jobs, empty) {
  return table('Jobs', [
    { label: 'Job', cell: (row) => view.job(row.id) },
    { label: 'Status', cell: (row) => html`${badge(row.status)}${row.dead_from === null ? '' : html` ${badge('failed', 'dead letter')}`}` },
    { label: 'When', name: 'when', cell: when },
    { label: 'Queue', cell: (row) => view.queue(row.queue) },
    { label: 'Kind', cell: (row) => row.kind },
    { label: 'Attempts', number: true, cell: (row) => `${number(row.attempts)} of ${number(row.max_attempts)}` },
    { label: 'Worker', cell: (row) => row.worker_id },
    { label: 'Payload', wide: true, cell: (row) => (row.payload === '{}' ? '' : html`<code>${row.payload}</code>`) },
    { label: 'Error', wide: true, cell: (row) => row.error },
  ], jobs, { empty, name: 'lines' });
}

function bulkLinks(view, filter) {
  const may = Object.entries(ACTIONS).filter(([name, action]) => name !== 'redrive' && action.statuses.includes(filter.status) && view.mayCall(action.call));
  if (may.length === 0) return '';
  return html`<div class="actions"><span>All that match:</span>${may.map(([name, action]) => view.link(`${action.label} ...`, '/bulk', { action: name, ...filter }))}</div>`;
}

export async function jobsPage(view, query, given) {
  const { filter, problems } = parseFilter(given);
  const { options } = view;
  const { jobs, next, cut, most, walk } = await searchJobs(view, query, filter, { cursor: given.after, limit: options.pageSize });
  const where = WALKS[walk].along;
  return view.page('Jobs', html`
<form method="get" action="${view.href('/job')}" class="filter"><label>Job number <input name="id" inputmode="numeric" pattern="[0-9]{1,19}" required></label><button>Show</button>${enqueueLink(view, { queue: filter.queue, kind: filter.kind })}</form>
${filterForm(view, filter)}
${problems.map((problem) => notice('bad', problem))}
<p>In order: ${where}. ${FIELDS.some((field) => filter[field] !== undefined && field !== 'status') || walk === 'newest' && filter.status
    ? `Filters without an index read at most ${number(most)} jobs per page.` : ''}</p>
${jobs.length === 0 ? '' : bulkLinks(view, filter)}
${jobsTable(view, jobs, cut ? `None among the ${number(most)} jobs that were read.` : 'None.')}
${cut ? notice('warn', `The search stopped after ${number(most)} jobs. There may be more matches.`) : ''}
<p class="more">${given.after ? html`${view.link('First page', '/jobs', filter)} ` : ''}${next ? view.link(cut ? 'Look further' : 'Next page', '/jobs', { ...filter, after: next }) : ''}${jobs.length === 0 ? '' : html` <span>Export up to ${plural(options.bulkSize, 'job')}: ${
    ['csv', 'json'].map((format) => html`${view.link(format.toUpperCase(), `/jobs.${format}`, { ...filter, after: given.after })} `)}</span>`}</p>`, { live: true });
}
