// The connected workers, the workers that hold jobs, found along the index of the rescue, and jobq's own background workers.
import { badge, html, notice, number, span, table, time } from '../html.js';

const SHOWN = 3;
// The colors of job statuses that fit the states of workers.
const COLORS = { waiting: 'pending', busy: 'processing', idle: 'scheduled' };

const few = (names, each) => html`${names.slice(0, SHOWN).map((name) => html`${each(name)} `)}${names.length > SHOWN ? '...' : ''}`;

// The function also works for operators of some queues, which may not read the view.
async function connectedPart(view, query) {
  const { rights, options } = view;
  if (!rights.calls('jobq_workers')) return '';
  const rows = await query(`SELECT * FROM ${rights.call('jobq_workers')}() ORDER BY state = 'busy' DESC, worker_id LIMIT $1`, [options.pageSize]);
  return table('Connected workers', [
    { label: 'Worker', cell: (row) => view.link(row.worker_id, '/jobs', { status: 'processing', worker: row.worker_id }) },
    { label: 'State', cell: (row) => badge(COLORS[row.state], row.state) },
    { label: 'Jobs', number: true, cell: (row) => (row.slots === null ? number(row.running) : `${number(row.running)} of ${number(row.slots)}`) },
    { label: 'Queues', cell: (row) => few(row.queues, (name) => view.queue(name)) },
    { label: 'Kinds', cell: (row) => (row.kinds === null ? '' : few(row.kinds, (kind) => kind || '(none)')) },
    { label: 'Client', cell: (row) => row.client },
    { label: 'Since', cell: (row) => time(row.started_at) },
    { label: 'Last claim', cell: (row) => time(row.last_claim) },
    { label: 'Last seen', cell: (row) => time(row.last_seen) },
  ], rows, { empty: 'No worker is connected with worker_info, or jobq is not preloaded.' });
}

async function holders(view, query) {
  const { scan, pageSize } = view.options;
  const rows = await query(`
    SELECT h.worker_id, count(*)::int AS jobs, min(h.started_at) AS oldest, min(h.last_heartbeat) AS heartbeat,
           count(*) FILTER (WHERE h.cancel_requested_at IS NOT NULL)::int AS asked,
           (array_agg(h.id ORDER BY h.started_at, h.id))[1:5] AS ids, (array_agg(DISTINCT h.queue))[1:4] AS queues,
           bool_or(h.n = $1) AS cut
    FROM (SELECT j.id, j.worker_id, j.queue, j.started_at, j.last_heartbeat, j.cancel_requested_at, row_number() OVER (ORDER BY j.worker_id, j.id) AS n
          FROM jobq.jobs j WHERE j._rescue_indexed ORDER BY j.worker_id, j.id LIMIT $1) h
    GROUP BY h.worker_id ORDER BY jobs DESC, h.worker_id LIMIT $2`, [scan, pageSize]);
  return { rows, cut: rows.some((row) => row.cut) };
}

function holdersPart(view, { rows, cut }) {
  return html`${table('Workers that hold jobs', [
    { label: 'Worker', cell: (row) => view.link(row.worker_id ?? '(unknown)', '/jobs', { status: 'processing', worker: row.worker_id }) },
    { label: 'Jobs', number: true, cell: (row) => number(row.jobs) },
    { label: 'Queues', cell: (row) => html`${row.queues.slice(0, 3).map((name) => html`${view.queue(name)} `)}${row.queues.length > 3 ? '...' : ''}` },
    { label: 'Runs', cell: (row) => html`${row.ids.map((id) => html`${view.job(id)} `)}${row.jobs > row.ids.length ? '...' : ''}` },
    { label: 'Oldest since', cell: (row) => time(row.oldest) },
    { label: 'Oldest heartbeat', cell: (row) => time(row.heartbeat) },
    { label: 'Asked to stop', number: true, cell: (row) => number(row.asked) },
  ], rows, { empty: 'No job is running, or all running jobs were claimed within the last second.' })}
${cut ? notice('warn', `Only ${number(view.options.scan)} running jobs were read. There are more.`) : ''}`;
}

const DUTIES = ['rescued', 'cancelled', 'expired', 'promoted', 'unblocked', 'pruned', 'repaired', 'reconciled'];

export async function workersPage(view, query) {
  const { rights } = view;
  const background = rights.reads('background_workers') ? await query('SELECT * FROM jobq.background_workers ORDER BY database NULLS FIRST LIMIT 200') : [];
  return view.page('Workers', html`<h2>Workers</h2>
${await connectedPart(view, query)}
${rights.reads('jobs') ? holdersPart(view, await holders(view, query)) : notice('warn', `Role "${rights.role}" may not read jobq.jobs, so the workers that hold jobs are not shown.`)}
<h2>Background workers of jobq</h2>
${table('The launcher, and the background worker of each database', [
    { label: 'Database', cell: (row) => row.database ?? '(the launcher)' },
    { label: 'State', cell: (row) => badge(row.last_error && !row.last_error_over_at ? 'failed' : 'idle', row.state) },
    { label: 'Process', number: true, cell: (row) => row.pid },
    { label: 'Last round', cell: (row) => time(row.last_round) },
    { label: 'Next round', cell: (row) => time(row.next_round) },
    { label: 'Since the start', wide: true, cell: (row) => DUTIES.filter((duty) => Number(row[duty]) > 0).map((duty) => `${duty} ${number(row[duty])}`).join(', ') },
    { label: 'Last error', wide: true, cell: (row) => (row.last_error ? html`${row.last_error}, ${time(row.last_error_at)}${row.last_error_over_at ? html`, over for ${span((Date.now() - row.last_error_over_at) / 1000)}` : ''}` : '') },
    { label: 'Note', wide: true, cell: (row) => row.note },
  ], background, { empty: 'jobq is not preloaded, or the role may not see its workers.' })}`, { live: true });
}
