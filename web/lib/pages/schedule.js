// The form that creates or changes a schedule.
import { Problem, mustRead } from '../database.js';
import { html, notice, timestamp } from '../html.js';
import { momentField } from '../moment.js';

const RUNS = 5;
const TIMES = ['starts_at', 'ends_at'].map((name) => `to_char(s.${name}, 'YYYY-MM-DD HH24:MI:SS') AS ${name}`).join(', ');

function select(name, chosen, choices) {
  return html`<select name="${name}">${choices.map((choice) => html`<option${choice === chosen ? html` selected` : ''}>${choice}</option>`)}</select>`;
}

async function readSchedule(view, query, name) {
  mustRead(view.rights, 'schedule_settings');
  const [row] = await query(`SELECT s.name, s.cron, s.timezone, s.queue, s.kind, left(jsonb_pretty(s.payload), 100000) AS payload, s.options::text, s.missed, s.max_missed, s.overlap,
    s.deadline::text, s.jitter::text, ${TIMES}, s.source, s.next_run FROM jobq.schedule_settings s WHERE s.name = $1`, [name]);
  if (!row) throw new Problem('missing', `schedule "${name}" does not exist`, { status: 404 });
  return row;
}

// The next runs show whether an expression means what it should.
async function runsPart(view, query, { cron, timezone }) {
  if (!view.rights.calls('jobq_next_runs')) return '';
  await query('SAVEPOINT runs');
  try {
    const runs = await query(`SELECT r AS at FROM ${view.rights.call('jobq_next_runs')}($1, $2, NULL, ${RUNS}) r`, [cron, timezone]);
    return html`<h2>The next times of the expression</h2><ol class="runs">${runs.map(({ at }) => html`<li>${timestamp(at)}</li>`)}</ol>`;
  } catch (error) {
    if (error.code !== '22023') throw error;
    await query('ROLLBACK TO runs');
    return notice('bad', error.message);
  }
}

export async function schedulePage(view, query, given) {
  const { rights, options } = view;
  if (!options.allowChanges) throw new Problem('read-only', 'the dashboard was started without --allow-changes', { status: 403 });
  if (!view.mayCall('jobq_schedule')) throw new Problem('right', `role "${rights.role}" may not call jobq_schedule`, { status: 403 });
  const known = given.name ? await readSchedule(view, query, given.name) : undefined;
  const row = known ?? { cron: '', timezone: 'UTC', payload: '{}', options: '{}', missed: 'once', max_missed: 100, overlap: 'allow', queue: given.queue };
  const text = (label, field, most, more = '', note = '') => html`<label>${label} <input name="${field}" value="${row[field] ?? ''}" maxlength="${most}"${more}>${note ? html`<small>${note}</small>` : ''}</label>`;
  const required = html` required`;
  return view.page(known ? `Schedule ${known.name}` : 'Create a schedule', html`
${view.form('/do/schedule', { label: known ? 'Change the schedule' : 'Create the schedule', columns: true, back: view.href('/schedules'),
    hidden: known ? { name: known.name, source: known.source } : { new: '1' }, fields: html`
${known ? '' : text('Name', 'name', 255, required)}
${text('When', 'cron', 1000, required, 'minute, hour, day of the month, month, weekday, such as 0 6 * * mon-fri; or @every 90s')}
${text('Time zone', 'timezone', 100, required)}
${text('Queue', 'queue', 63, required)}
${text('Kind', 'kind', 255)}
<label class="whole">Payload (JSON) <textarea name="payload" rows="6" cols="60" spellcheck="false" required>${row.payload}</textarea></label>
<label class="whole">Other attributes of the jobs (JSON) <input name="options" value="${row.options}" maxlength="10000" spellcheck="false" required><small>such as {"priority": -5, "max_attempts": 3}</small></label>
<label>Missed runs ${select('missed', row.missed, ['once', 'all', 'skip'])}<small>once: make up for the latest one</small></label>
${text('Maximum number of missed runs', 'max_missed', 4, html` inputmode="numeric" required`, 'for "all"')}
<label>If the last job has not finished ${select('overlap', row.overlap, ['allow', 'skip', 'replace'])}</label>
${text('Deadline', 'deadline', 60, '', 'a run that is later is skipped, such as 10 min; empty: none')}
${text('Random delay up to', 'jitter', 60, '', 'such as 30 s; empty: none')}
${momentField('Starts at (UTC)', 'starts_at', row.starts_at)}
${momentField('Ends at (UTC)', 'ends_at', row.ends_at)}` })}
${known && view.mayCall('jobq_unschedule') ? html`<div class="actions">${view.confirmed('/do/unschedule', { label: 'Remove', ask: 'The schedule is removed, but not the jobs that it has enqueued.', hidden: { name: known.name }, back: view.href('/schedules') })}</div>` : ''}
${known ? await runsPart(view, query, known) : ''}`);
}
