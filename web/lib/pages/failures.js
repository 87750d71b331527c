// Attempts that failed or lost their worker, grouped by the common part of their errors. Because no index orders attempts by
// time, the page examines the attempts of the newest jobs, up to a limit.
import { mustRead } from '../database.js';
import { badge, html, notice, number, table, time } from '../html.js';

// Numbers and IDs, which differ between errors of the same cause.
const PATTERN = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0x[0-9a-fA-F]+|[0-9]+';

// Returns the longest piece that all errors of a group contain, for a search.
export function fragmentOf(pattern) {
  return pattern.split(/#|\n/).reduce((longest, piece) => (piece.length > longest.length ? piece : longest), '').slice(0, 200);
}

export async function groupsOf(view, query, { scan, queue, limit = 50 }) {
  // A role that may not read jobs sees the errors without their queues.
  const jobs = view.rights.reads('jobs');
  const values = [scan, PATTERN, limit];
  const groups = await query(`
    SELECT g.outcome, g.pattern, count(*) AS attempts, count(DISTINCT g.job_id) AS jobs, min(g.finished_at) AS first,
           count(DISTINCT g.job_id) FILTER (WHERE g.failed) AS failed, max(g.finished_at) AS last, (array_agg(g.job_id ORDER BY g.finished_at DESC))[1] AS job,
           ${jobs ? '(array_agg(DISTINCT g.queue))[1:4]' : "'{}'::text[]"} AS queues
    FROM (SELECT a.job_id, a.outcome, a.finished_at, ${jobs ? 'coalesce(j.dead_from, j.queue)' : 'NULL'} AS queue,
                 ${jobs ? "j.status = 'failed' AND starts_with(coalesce(j.error, ''), coalesce(a.error, ''))" : 'false'} AS failed,
                 regexp_replace(coalesce(a.error, ''), $2, '#', 'g') AS pattern
          FROM (SELECT t.job_id, t.outcome, t.finished_at, left(t.error, 200) AS error FROM jobq.attempts t
                ORDER BY t.job_id DESC LIMIT $1) a
          ${jobs ? 'LEFT JOIN jobq.jobs j ON j.id = a.job_id' : ''}
          WHERE a.outcome IN ('failed', 'lost')
          ${jobs && queue !== undefined ? `AND coalesce(j.dead_from, j.queue) = $${values.push(queue)}` : ''}) g
    GROUP BY g.outcome, g.pattern ORDER BY attempts DESC, last DESC LIMIT $3`, values);
  return { groups, scan };
}

export function groupTable(view, groups) {
  return table('Attempts by error', [
    { label: 'Error', wide: true, cell: (row) => html`<code>${row.pattern || '(none)'}</code>` },
    { label: 'Outcome', cell: (row) => badge(row.outcome) },
    { label: 'Attempts', number: true, cell: (row) => number(row.attempts) },
    { label: 'Jobs', number: true, cell: (row) => number(row.jobs) },
    { label: 'Queues', cell: (row) => html`${(row.queues ?? []).filter((name) => name !== null).slice(0, 3).map((name) => html`${view.queue(name)} `)}${(row.queues ?? []).length > 3 ? '...' : ''}` },
    { label: 'First', cell: (row) => time(row.first) },
    { label: 'Last', cell: (row) => time(row.last) },
    { label: 'Latest job', cell: (row) => view.job(row.job) },
    ...(view.rights.reads('jobs') ? [{
      label: 'Failed',
      cell: (row) => (Number(row.failed) > 0 && fragmentOf(row.pattern) ? view.link(html`Failed jobs<span class="hidden"> with the error ${row.pattern}</span>`, '/jobs', { status: 'failed', error: fragmentOf(row.pattern) }) : ''),
    }] : []),
  ], groups, { empty: 'No failed or lost attempts were found among the jobs that were read.' });
}

export async function failuresPage(view, query, given) {
  mustRead(view.rights, 'attempts');
  const scan = Math.max(100, Math.floor(view.options.scan / 4));
  const queue = view.rights.reads('jobs') && given.queue ? given.queue : undefined;
  const { groups } = await groupsOf(view, query, { scan, queue });
  return view.page('Failures', html`
<p>The attempts of the newest jobs, at most ${number(scan)}. Numbers in errors are shown as #.</p>
${view.rights.reads('jobs') ? html`<form method="get" class="filter" role="search"><label>Queue <input name="queue" value="${queue ?? ''}" maxlength="63"></label><button>Search</button></form>`
    : notice('warn', `Role "${view.rights.role}" may not read jobq.jobs, so their queues are not shown.`)}
${groupTable(view, groups)}`, { live: true });
}
