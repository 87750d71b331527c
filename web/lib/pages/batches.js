// Batches: sets of jobs whose end enqueues other jobs, with their progress.
import { Problem, mustRead } from '../database.js';
import { badge, html, notice, number, table, time } from '../html.js';

const ID = /^\d{1,18}$/;

// The share of the jobs that have ended, rounded down, so that 100 % means that all have ended.
function progress(row) {
  if (row.progress === null) return 'no jobs';
  return html`<progress max="1" value="${String(row.progress)}" aria-label="Progress"></progress> ${Math.floor(row.progress * 100)} %`;
}

function state(row) {
  if (row.error !== null) return badge('failed', 'error');
  if (row.finished_at !== null) return html`ended ${time(row.finished_at)}`;
  return row.sealed ? 'sealed' : badge('pending', 'open');
}

// Links to the jobs of the batch in one status. On that page, all of them can be canceled or retried.
function jobsLink(view, row, column, status) {
  return Number(row[column]) === 0 ? '0' : view.link(number(row[column]), '/jobs', { batch: row.id, status });
}

// The links lead to previews. A member can be retried after its batch has finished.
function buttons(view, row) {
  const name = html`<span class="hidden"> of batch ${row.id}</span>`;
  const link = (label, action, status) => view.link(html`${label}${name} ...`, '/bulk', { action, status, batch: row.id });
  const [open, failed] = [Number(row.pending) + Number(row.running), Number(row.failed)];
  return html`<div class="actions">${row.sealed || !view.mayCall('jobq_seal_batch') ? ''
    : view.form('/do/seal_batch', { label: html`Seal<span class="hidden"> batch ${row.id}</span>`, hidden: { id: row.id } })}
${open > 0 && view.rights.reads('jobs') && view.mayCall('jobq_cancel') ? link('Cancel the jobs', 'cancel', 'unfinished') : ''}
${failed > 0 && view.rights.reads('jobs') && view.mayCall('jobq_retry') ? link('Retry the failed jobs', 'retry', 'failed') : ''}</div>`;
}

export async function batchesPage(view, query, given) {
  mustRead(view.rights, 'batches');
  const { pageSize } = view.options;
  if (given.before !== undefined && !ID.test(given.before)) throw new Problem('argument', 'the address of the page is incomplete', { status: 400 });
  const found = await query(`SELECT b.* FROM jobq.batches b WHERE $1::bigint IS NULL OR b.id < $1 ORDER BY b.id DESC LIMIT $2`,
    [given.before ?? null, pageSize + 1]);
  const rows = found.slice(0, pageSize);
  return view.page('Batches', html`
${table('Batches, the newest first', [
    { label: 'Batch', cell: (row) => html`${view.link(row.id, '/jobs', { batch: row.id })} ${row.name}` },
    { label: 'State', cell: state },
    { label: 'Progress', cell: progress },
    { label: 'Pending', number: true, cell: (row) => jobsLink(view, row, 'pending') },
    { label: 'Running', number: true, cell: (row) => jobsLink(view, row, 'running', 'processing') },
    { label: 'Completed', number: true, cell: (row) => jobsLink(view, row, 'completed', 'completed') },
    { label: 'Failed', number: true, cell: (row) => jobsLink(view, row, 'failed', 'failed') },
    { label: 'Canceled', number: true, cell: (row) => jobsLink(view, row, 'cancelled', 'cancelled') },
    { label: 'Callbacks', cell: (row) => (row.callbacks ?? []).map((id) => html`${view.job(id)} `) },
    { label: 'Created', cell: (row) => html`${time(row.created_at)} by ${row.created_by}` },
    ...(view.options.allowChanges ? [{ label: 'Change', cell: (row) => buttons(view, row) }] : []),
  ], rows, { empty: 'There is no batch: SELECT jobq_create_batch(...) makes one.' })}
${rows.filter((row) => row.error !== null).map((row) => notice('bad', html`The callbacks of batch ${row.id} cannot be enqueued: ${row.error}`))}
<p>The links in the numbers show the jobs that still exist.</p>
${found.length > pageSize ? view.more('/batches', { before: rows.at(-1).id }, 'Older batches') : ''}`, { live: true });
}
