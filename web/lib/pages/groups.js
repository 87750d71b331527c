// The groups that halt: each waits until an operator retries, skips, or cancels its failed job.
import { mustRead } from '../database.js';
import { html, notice, number, table, time } from '../html.js';

const MOST_WAITING = 1000;

// Selects halted groups along the index of group heads, and examines at most `scan` heads.
const BOUNDED = `
SELECT h.*, (SELECT count(*)::int FROM (SELECT FROM jobq.jobs w WHERE w._group_waiting = h._group_active LIMIT ${MOST_WAITING + 1}) n) AS waiting
FROM (SELECT g.* FROM (SELECT j._group_active, j.status, j.queue, j.group_key, j.id AS job_id, j.kind, left(j.error, 200) AS error, j.finished_at AS halted_at
                       FROM jobq.jobs j WHERE j._group_active IS NOT NULL ORDER BY j._group_active LIMIT $1) g
      WHERE g.status = 'failed' LIMIT $2) h`;
const VIEW = 'SELECT h.queue, h.group_key, h.job_id, h.kind, left(h.error, 200) AS error, h.halted_at, h.waiting FROM jobq.halted_groups h LIMIT $1';

// Returns at most `limit` halted groups. A role that may not read the jobs reads the view.
export async function haltedGroups(view, query, { scan, limit }) {
  return view.rights.reads('jobs') ? query(BOUNDED, [scan, limit]) : query(VIEW, [limit]);
}

function buttons(view, row) {
  const id = { id: row.job_id };
  const name = html`<span class="hidden"> job ${row.job_id}</span>`;
  return html`<div class="actions">${view.mayCall('jobq_retry') ? view.form('/do/retry', { label: html`Retry${name}`, hidden: id }) : ''}
${view.mayCall('jobq_skip') ? view.confirmed('/do/skip', { label: html`Skip${name}`, hidden: id, ask: 'The next job of the group runs. If the queue has a dead letter queue, the failed job moves there.' }) : ''}</div>`;
}

export async function groupsPage(view, query) {
  mustRead(view.rights, 'halted_groups');
  const { pageSize, scan } = view.options;
  const found = await haltedGroups(view, query, { scan, limit: pageSize + 1 });
  const rows = found.slice(0, pageSize);
  return view.page('Halted groups', html`
<p>The failed job of a halted group must be retried, skipped, canceled, or deleted before the next job of the group runs.</p>
${table('Halted groups', [
    { label: 'Group', cell: (row) => row.group_key },
    { label: 'Queue', cell: (row) => view.queue(row.queue) },
    { label: 'Failed job', cell: (row) => html`${view.job(row.job_id)} ${row.kind}` },
    { label: 'Error', wide: true, cell: (row) => row.error },
    { label: 'Halted', cell: (row) => time(row.halted_at) },
    { label: 'Waiting jobs', number: true, cell: (row) => (row.waiting > MOST_WAITING ? `more than ${number(MOST_WAITING)}` : number(row.waiting)) },
    ...(view.options.allowChanges ? [{ label: 'Change', cell: (row) => buttons(view, row) }] : []),
  ], rows, { empty: `No group is halted${view.rights.reads('jobs') ? ` among the first ${number(scan)} groups in use` : ''}.` })}
${found.length > pageSize ? notice('warn', `More than ${number(pageSize)} groups are halted. This page shows some of them.`) : ''}`, { live: true });
}
