// Changes of many jobs: shows a preview first, and after confirmation changes exactly the jobs of the preview. jobq_retry_jobs
// and similar functions would read all kept jobs; here the search of the job list finds jobs, and each is changed by its ID.
import { Problem, mustRead } from '../database.js';
import { html, notice, number, plural, table } from '../html.js';
import { WALKS, conditionsOf, parameters, parseFilter, walkOf } from '../jobs_search.js';
import { jobsTable, searchJobs } from './jobs.js';

const CHUNK = 100;   // number of jobs per transaction
const SHOWN = 20;

// done: the statuses that a job has after the change.
export const ACTIONS = {
  retry: { label: 'Retry', call: 'jobq_retry', statuses: ['scheduled', 'completed', 'failed', 'cancelled'], done: ['pending', 'blocked', 'scheduled'] },
  cancel: { label: 'Cancel', call: 'jobq_cancel', statuses: ['unfinished', 'scheduled', 'blocked', 'pending', 'processing'], done: ['cancelled', 'processing'], danger: true },
  delete: { label: 'Delete', call: 'jobq_delete', statuses: ['scheduled', 'blocked', 'pending', 'completed', 'failed', 'cancelled'], done: ['scheduled', 'blocked', 'pending', 'completed', 'failed', 'cancelled'], danger: true },
  redrive: { label: 'Redrive', call: 'jobq_redrive', statuses: ['failed'] },
};

function actionOf(view, name, filter) {
  const action = Object.hasOwn(ACTIONS, name ?? '') ? ACTIONS[name] : undefined;
  if (!action) throw new Problem('argument', 'unknown change', { status: 400 });
  if (!view.options.allowChanges) throw new Problem('read-only', 'the dashboard was started without --allow-changes', { status: 403 });
  if (!view.mayCall(action.call)) throw new Problem('right', `role "${view.rights.role}" may not call ${action.call}`, { status: 403 });
  if (!action.statuses.includes(filter.status)) {
    throw new Problem('argument', `choose one of the statuses ${action.statuses.join(', ')} first`, { status: 400 });
  }
  if (name === 'redrive' && filter.queue === undefined) throw new Problem('argument', 'choose a queue first', { status: 400 });
  return action;
}

function summary(filter) {
  return table('The filter', [{ label: 'Field', cell: ([name]) => name }, { label: 'Value', wide: true, cell: ([, value]) => value }], Object.entries(filter));
}

function countsBy(jobs) {
  const counts = new Map();
  for (const { queue, kind } of jobs) {
    const key = JSON.stringify([queue, kind]);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].map(([key, count]) => [...JSON.parse(key), count]).sort((a, b) => b[2] - a[2]).slice(0, SHOWN);
}

export async function bulkPage(view, query, given) {
  const { filter, problems } = parseFilter(given);
  if (problems.length > 0) throw new Problem('argument', problems.join(' '), { status: 400 });
  const action = actionOf(view, given.action, filter);
  const { bulkSize } = view.options;
  const { jobs, next, cut, most } = await searchJobs(view, query, filter, { limit: bulkSize });
  const exactly = next === undefined;
  const verb = action.label.toLowerCase();
  const many = exactly ? `${plural(jobs.length, 'job')} ${jobs.length === 1 ? 'matches' : 'match'}.`
    : cut ? `${plural(jobs.length, 'job')} ${jobs.length === 1 ? 'matches' : 'match'} among the ${number(most)} jobs that the search has read. There may be more.`
      : `More than ${plural(jobs.length, 'job')} match. These are the first ones, which is the maximum number of jobs per change.`;
  const label = given.action === 'redrive' ? `Redrive up to ${plural(bulkSize, 'dead letter')}` : `${action.label} ${plural(jobs.length, 'job')}`;
  const confirm = html`<label class="check"><input type="checkbox" name="sure" value="1" required> I want to ${verb} them</label>`;
  const rate = given.action === 'redrive' ? html`<p>Each job starts again with all its attempts in the queue where it failed, oldest first. jobq_redrive reads all jobs in the table, which takes about 0.1 s per 100,000 jobs.</p>
<label>Maximum number of jobs per second <input name="per_second" inputmode="decimal" pattern="[0-9]{1,6}(\.[0-9]{1,6})?"><small>empty: all at once</small></label>` : '';
  return view.page(`${action.label} jobs`, html`${summary(filter)}<p><strong>${many}</strong></p>
${jobs.length === 0 ? '' : html`${table('By queue and kind', [
    { label: 'Queue', cell: ([queue]) => view.queue(queue) }, { label: 'Kind', cell: ([, kind]) => kind },
    { label: 'Jobs', number: true, cell: ([, , count]) => number(count) }], countsBy(jobs))}
${given.action === 'redrive' ? '' : notice('warn', `Only these jobs are changed, if they still match when you press the button.${action.danger ? ' Unfinished jobs that depend on them may be cancelled, too.' : ''}`)}
${view.form('/bulk', { label, danger: action.danger, back: view.href('/jobs', filter),
    hidden: { ...filter, action: given.action, ids: given.action === 'redrive' ? '' : jobs.map((job) => job.id).join(' ') }, fields: html`${rate}${confirm}` })}`}
<p class="more">${view.link('Back to the list', '/jobs', filter)}</p>
${jobs.length === 0 ? '' : html`<h2>The first ${number(Math.min(SHOWN, jobs.length))} of them</h2>${jobsTable(view, jobs.slice(0, SHOWN), 'None.')}`}`);
}

// ---- the change itself

function statementOf(view, action, filter, ids) {
  const { values, add } = parameters();
  const conditions = [`j.id = ANY (${add(ids)}::bigint[])`, ...conditionsOf(filter, add)];
  return { text: `SELECT s.id, ${view.rights.call(action.call)}(s.id)::text AS status
    FROM (SELECT j.id FROM jobq.jobs j WHERE ${conditions.join(' AND ')} ORDER BY j.id OFFSET 0) s`, values };
}

// Changes a chunk of jobs in one transaction. If one job causes an error (its unique key is taken, or a trigger fails), changes
// each job in a transaction of its own, so that the others are still changed.
async function changeChunk(view, database, action, filter, ids, found) {
  try {
    const { text, values } = statementOf(view, action, filter, ids);
    const rows = await database.change((query) => query(text, values));
    for (const row of rows) {
      if (action.done.includes(row.status)) found.changed += 1;
    }
  } catch (problem) {
    if (problem.kind !== 'error') throw problem;
    if (ids.length === 1) {
      found.failed += 1;
      found.error ??= `job ${ids[0]}: ${problem.message}`;
      return;
    }
    for (const id of ids) await changeChunk(view, database, action, filter, [id], found);
  }
}

function parseIds(text, most) {
  const ids = (text ?? '').split(' ').filter((id) => id !== '');
  if (ids.length === 0 || ids.length > most || !ids.every((id) => /^\d{1,19}$/.test(id) && BigInt(id) <= 9223372036854775807n)) {
    throw new Problem('argument', 'the list of jobs does not come from the preview', { status: 400 });
  }
  return ids;
}

async function redrive(view, database, filter, body) {
  const rate = body.per_second ?? '';
  if (rate !== '' && !/^[0-9]{1,6}(\.[0-9]{1,6})?$/.test(rate)) throw new Problem('argument', 'the maximum number of jobs per second must be a number', { status: 400 });
  const [{ count }] = await database.change((query) => query(
    `SELECT ${view.rights.call('jobq_redrive')}($1, max_jobs => $2, per_second => $3) AS count`, [filter.queue, view.options.bulkSize, rate === '' ? null : rate]));
  return { kind: 'good', text: `Redriven: ${plural(count, 'dead letter')}.` };
}

// Changes the jobs and returns a message about the result: { kind, text }.
export async function changeMany(view, database, body) {
  const { filter, problems } = parseFilter(body);
  if (problems.length > 0) throw new Problem('argument', problems.join(' '), { status: 400 });
  const action = actionOf(view, body.action, filter);
  mustRead(view.rights, 'jobs', ...(WALKS[walkOf(filter)].needs ?? []));
  if (body.sure !== '1') throw new Problem('argument', 'check the box to confirm the change', { status: 400 });
  if (body.action === 'redrive') return redrive(view, database, filter, body);
  const ids = parseIds(body.ids, view.options.bulkSize);
  const found = { changed: 0, failed: 0, error: undefined };
  let stopped;
  for (let i = 0; i < ids.length && !stopped; i += CHUNK) {
    await changeChunk(view, database, action, filter, ids.slice(i, i + CHUNK), found).catch((problem) => { stopped = problem; });
  }
  const left = ids.length - found.changed - found.failed;
  const texts = [`${action.label}: ${number(found.changed)} of ${plural(ids.length, 'job')}.`];
  if (found.failed > 0) texts.push(`${number(found.failed)} could not be changed (${found.error}).`);
  if (stopped) texts.push(`It stopped: ${stopped.message}. The other ${number(left)} were not changed.`);
  else if (left > 0) texts.push(`${number(left)} no longer matched, and were not changed.`);
  return { kind: stopped || found.failed > 0 ? 'bad' : 'good', text: texts.join(' ') };
}
