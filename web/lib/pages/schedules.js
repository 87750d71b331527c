// Schedules, their next runs, and why they do not run.
import { mustRead } from '../database.js';
import { badge, html, notice, number, table, time } from '../html.js';

const RUNS = 4;

// Returns the next runs of a schedule on the page. `@every` counts from the previous run.
async function nextRuns(view, query, row) {
  const runs = await query(`SELECT r AS at FROM ${view.rights.call('jobq_next_runs')}($1, $2, $3, $4) r
    WHERE $5::timestamptz IS NULL OR r <= $5 ORDER BY r`, [row.cron, row.timezone, row.next_run_text, RUNS - 1, row.ends_at_text]);
  return [row.next_run, ...runs.map((run) => run.at)];
}

// Adds the next runs. A schedule whose time zone the server no longer knows must not hide the other schedules.
async function addRuns(view, query, rows) {
  for (const row of rows) row.runs = row.next_run === null ? [] : [row.next_run];
  if (!view.rights.calls('jobq_next_runs')) return;
  await query('SAVEPOINT runs');
  for (const row of rows) {
    if (row.next_run === null) continue;
    try {
      row.runs = await nextRuns(view, query, row);
    } catch (error) {
      if (error.code !== '22023') throw error;
      await query('ROLLBACK TO runs');
      row.problem = error.message;
    }
  }
}

function buttons(view, row) {
  const parts = [];
  const change = row.paused ? 'resume_schedule' : 'pause_schedule';
  const name = html`<span class="hidden"> ${row.name}</span>`;
  if (view.mayCall('jobq_schedule') && view.rights.reads('schedule_settings')) parts.push(view.link(html`Edit${name} ...`, '/schedule', { name: row.name }));
  if (view.mayCall(`jobq_${change}`)) parts.push(view.form(`/do/${change}`, { label: html`${row.paused ? 'Resume' : 'Pause'}${name}`, hidden: { name: row.name } }));
  if (view.mayCall('jobq_run_schedule')) parts.push(view.form('/do/run_schedule', { label: html`Run now${name}`, hidden: { name: row.name } }));
  return html`<div class="actions">${parts}</div>`;
}

export async function schedulesPage(view, query, given) {
  mustRead(view.rights, 'schedules');
  const { pageSize } = view.options;
  const found = await query(`SELECT s.*, s.next_run::text AS next_run_text, s.ends_at::text AS ends_at_text FROM jobq.schedules s
    WHERE s.name COLLATE "C" > $1 ORDER BY s.name COLLATE "C" LIMIT $2`, [given.after ?? '', pageSize + 1]);
  const rows = found.slice(0, pageSize);
  await addRuns(view, query, rows);
  return view.page('Schedules', html`${view.mayCall('jobq_schedule') ? html`<p>${view.link('Create a schedule ...', '/schedule')}</p>` : ''}
${table('Schedules', [
    { label: 'Name', cell: (row) => html`${row.name} ${row.paused ? badge('paused') : row.error ? badge('failed', 'error') : ''}` },
    { label: 'When', cell: (row) => html`<code>${row.cron}</code> ${row.timezone}` },
    { label: 'Queue', cell: (row) => html`${view.queue(row.queue)} ${row.kind}` },
    { label: 'Next runs', cell: (row) => (row.runs.length === 0 ? (row.paused ? 'paused' : 'none') : html`<ol class="runs">${row.runs.map((run) => html`<li>${time(run)}</li>`)}</ol>`) },
    { label: 'Last run', cell: (row) => html`${time(row.last_run)} ${row.last_job === null ? '' : html`job ${view.job(row.last_job)}`}` },
    { label: 'Skipped', cell: (row) => (Number(row.skipped) === 0 ? '0' : html`${number(row.skipped)}, the last ${time(row.last_skipped)}: ${row.skip_reason}`) },
    { label: 'Rules', cell: (row) => html`missed: ${row.missed}, overlap: ${row.overlap}` },
    ...(view.options.allowChanges ? [{ label: 'Change', cell: (row) => buttons(view, row) }] : []),
  ], rows, { empty: 'There is no schedule: SELECT jobq_schedule(...) makes one.' })}
${rows.filter((row) => row.problem && !row.error).map((row) => notice('bad', html`${row.name}: ${row.problem}`))}
${rows.filter((row) => row.error).map((row) => notice('bad', html`${row.name}: ${row.error} (${number(row.failures)} times in a row, again ${time(row.retry_at)})`))}
${found.length > pageSize ? view.more('/schedules', { after: rows.at(-1).name }, 'More schedules') : ''}`, { live: true });
}
