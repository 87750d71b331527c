// The changes that buttons make, each with one call to a jobq function. `parse` converts the fields of the form to arguments, or
// returns what is wrong with them. `tell` describes the change after it was made, and `path` is the page to show then, if it is not
// the page with the button. `check` rejects a change in its transaction.
import { Problem } from './database.js';
import { isMoment } from './moment.js';

function wrong(message) {
  throw new Problem('argument', message, { status: 400 });
}

function id(body) {
  if (!/^\d{1,19}$/.test(body.id ?? '') || BigInt(body.id) > 9223372036854775807n) wrong('the id of a job must be a number');
  return body.id;
}

function name(field, most) {
  return (body) => {
    const text = body[field] ?? '';
    if (text === '' || Buffer.byteLength(text) > most || text.includes('\0')) wrong(`${field}: 1 to ${most} bytes`);
    return text;
  };
}

// Returns the text as it is, because the numbers of JavaScript cannot hold every number in JSON.
function json(field) {
  return (body) => {
    try {
      JSON.parse(body[field] ?? '');
    } catch (error) {
      wrong(`${field} is not valid JSON: ${error.message}`);
    }
    return body[field];
  };
}

function whole(field, least, most) {
  return (body) => {
    const text = (body[field] ?? '').trim();
    if (text === '') return null;
    if (!/^-?\d{1,10}$/.test(text) || Number(text) < least || Number(text) > most) wrong(`${field} must be a number from ${least} to ${most}`);
    return Number(text);
  };
}

const queue = name('queue', 63);
const schedule = name('name', 255);
const statusAfter = (what) => (body, status) => {
  if (status === null) return ['bad', `Job ${body.id} no longer exists.`];
  return ['good', `${what} job ${body.id}: it is ${status}.`];
};

function limit(body) {
  const named = body.name ?? '';
  const ofKind = body.of === 'kind';
  const [running, rate] = [whole('max_running', 0, 1000000)(body), whole('rate', 1, 2147483647)(body)];
  const per = (body.per ?? '').trim();
  if ((rate === null) !== (per === '')) wrong('a rate needs both the number of starts and the time');
  if (body.max_running !== undefined && running === null && rate === null) wrong('a limit needs a maximum number of running jobs, or a rate');
  return [queue(body), ofKind || named === '' ? null : named, running, rate, per === '' ? null : per, ofKind ? named : null];
}

function depth(body) {
  const most = whole('max_depth', 0, 2147483647)(body);
  if (most === null) wrong('max_depth must be a number; 0 means no maximum');
  if (!['reject', 'drop_oldest'].includes(body.on_full)) wrong('on_full must be reject or drop_oldest');
  return [queue(body), most, body.on_full];
}

// Returns a time in UTC, which is the time zone of the session, or null if the field is empty.
function moment(field) {
  return (body) => {
    const text = (body[field] ?? '').trim();
    if (text === '') return null;
    if (!isMoment(text)) wrong(`${field} must be a time, such as 2026-01-31 09:30`);
    return text;
  };
}

// Returns the value of a field that may be empty, or null if it is.
const optional = (field, parse) => (body) => ((body[field] ?? '') === '' ? null : parse(body));

// The arguments of jobq_enqueue. Empty fields are omitted, so that the defaults of the function apply.
const JOB = { queue, kind: optional('kind', name('kind', 255)), payload: json('payload'), priority: whole('priority', -32768, 32767), run_at: moment('run_at'),
  max_attempts: whole('max_attempts', 1, 2147483647), unique_key: optional('unique_key', name('unique_key', 1024)), group_key: optional('group_key', name('group_key', 1024)),
  concurrency_key: optional('concurrency_key', name('concurrency_key', 255)), metadata: optional('metadata', json('metadata')) };

// The arguments of jobq_schedule. Empty fields are omitted. A change passes all arguments, because jobq_schedule resets the others.
const interval = (field) => optional(field, name(field, 60));
const SCHEDULE = { name: schedule, cron: name('cron', 1000), queue, payload: json('payload'), kind: optional('kind', name('kind', 255)), timezone: name('timezone', 100), missed: name('missed', 10),
  max_missed: whole('max_missed', 1, 1000), overlap: name('overlap', 10), deadline: interval('deadline'), jitter: interval('jitter'), starts_at: moment('starts_at'), ends_at: moment('ends_at'),
  source: optional('source', name('source', 255)), options: optional('options', json('options')) };
const given = (fields, body) => Object.entries(fields).map(([field, parse]) => [field, parse(body)]).filter(([, value]) => value !== null);

// Prevents that a new schedule changes another one with the same name.
async function isNew(query, body) {
  if (body.new === undefined) return;
  const [found] = await query('SELECT 1 FROM jobq.schedules s WHERE s.name = $1', [body.name]);
  if (found) wrong(`schedule ${body.name} exists already`);
}

// The name of a setting becomes the name of an argument of the call.
function setting(body) {
  if (!/^[a-z_]{1,63}$/.test(body.setting ?? '')) wrong('setting must be the name of a setting');
  return body.setting;
}

function kind(body) {
  const text = body.kind ?? '';
  if (Buffer.byteLength(text) > 255 || text.includes('\0')) wrong('kind: at most 255 bytes');
  return text;
}

export const CHANGES = {
  pause_queue: { call: 'jobq_pause_queue', parse: (body) => [queue(body)], tell: (body, done) => ['good', done ? `Queue ${body.queue} is paused, and no job of it is claimed.` : `Queue ${body.queue} was already paused.`] },
  resume_queue: { call: 'jobq_resume_queue', parse: (body) => [queue(body)], tell: (body, done) => ['good', done ? `Queue ${body.queue} is resumed.` : `Queue ${body.queue} was not paused.`] },
  set_limit: { call: 'jobq_set_limit', parse: limit, types: ['text', 'text', 'integer', 'integer', 'interval', 'text'], tell: (body, done) => (body.max_running || body.rate
    ? ['good', `The limit of queue ${body.queue} is set.`] : ['good', done ? 'The limit is removed.' : 'This limit did not exist.']) },
  set_depth: { call: 'jobq_alter_queue', parse: depth, names: ['queue', 'max_depth', 'on_full'], tell: (body) => ['good', `The depth of queue ${body.queue} is set.`] },
  alter_kind: { call: 'jobq_alter_kind', names: (body) => ['queue', 'kind', setting(body)], parse: (body) => [queue(body), kind(body), (body.value ?? '').trim()],
    tell: (body) => ['good', `The setting ${body.setting} of kind "${body.kind ?? ''}" is set.`] },
  drop_kind: { call: 'jobq_drop_kind', parse: (body) => [queue(body), kind(body), [setting(body)]], tell: (body, done) => (done
    ? ['good', `The setting ${body.setting} of kind "${body.kind ?? ''}" is removed.`] : ['good', 'This setting did not exist.']) },
  enqueue: { call: 'jobq_enqueue', names: (body) => given(JOB, body).map(([field]) => field), parse: (body) => given(JOB, body).map(([, value]) => value),
    tell: (body, id) => ['good', `Job ${id} is enqueued.`], path: (id) => `/job/${id}` },
  retry: { call: 'jobq_retry', parse: (body) => [id(body)], tell: statusAfter('Retried') },
  retry_with: { call: 'jobq_retry', names: ['job_id', 'payload', 'keep_steps'], parse: (body) => [id(body), json('payload')(body), body.keep_steps === 'on'], tell: statusAfter('Retried') },
  retry_from: { call: 'jobq_retry_from', parse: (body) => [id(body), name('step', 255)(body)], tell: statusAfter('Retried') },
  cancel: { call: 'jobq_cancel', parse: (body) => [id(body)], tell: (body, status) => (status === 'processing' ? ['good', `The worker of job ${body.id} is asked to stop.`] : statusAfter('Cancelled')(body, status)) },
  skip: { call: 'jobq_skip', parse: (body) => [id(body)], tell: (body, done) => (done ? ['good', `Job ${body.id} is skipped, and its group continues.`] : ['bad', `Job ${body.id} does not halt a group.`]) },
  delete: { call: 'jobq_delete', parse: (body) => [id(body)], tell: (body, status) => (status === null ? ['bad', `Job ${body.id} no longer exists.`]
    : status === 'processing' ? ['bad', `Job ${body.id} was not deleted because it is running.`] : ['good', `Job ${body.id} is deleted.`]) },
  schedule: { call: 'jobq_schedule', names: (body) => given(SCHEDULE, body).map(([field]) => field), parse: (body) => given(SCHEDULE, body).map(([, value]) => value), check: isNew,
    tell: (body, next) => ['good', next === null ? `Schedule ${body.name} is ${body.new ? 'created' : 'changed'}. It has no next run, because it is paused or has ended.`
      : `Schedule ${body.name} is ${body.new ? 'created' : 'changed'}. It runs next at ${next.toISOString().slice(0, 19).replace('T', ' ')} UTC.`] },
  unschedule: { call: 'jobq_unschedule', parse: (body) => [schedule(body)], tell: (body, done) => (done ? ['good', `Schedule ${body.name} is removed.`] : ['bad', `Schedule ${body.name} no longer exists.`]) },
  pause_schedule: { call: 'jobq_pause_schedule', parse: (body) => [schedule(body)], tell: (body, done) => ['good', done ? `Schedule ${body.name} is paused.` : `Schedule ${body.name} was already paused.`] },
  resume_schedule: { call: 'jobq_resume_schedule', parse: (body) => [schedule(body)], tell: (body, done) => ['good', done ? `Schedule ${body.name} is resumed from now on.` : `Schedule ${body.name} was not paused.`] },
  seal_batch: { call: 'jobq_seal_batch', parse: (body) => [id(body)], tell: (body, sealed) => (sealed === null ? ['bad', `Batch ${body.id} no longer exists.`] : ['good', sealed ? `Batch ${body.id} is sealed.` : `Batch ${body.id} was already sealed.`]) },
  run_schedule: { call: 'jobq_run_schedule', parse: (body) => [schedule(body)], tell: (body, job) => (job === null ? ['bad', `Schedule ${body.name} did not run because its last job has not finished.`] : ['good', `Schedule ${body.name} has enqueued job ${job}.`]) },
};

// Makes the change and returns { kind, text } to show on the next page, and its path.
export async function change(database, rights, what, body) {
  const { call, parse, names: namesOf, types = [], tell, path, check } = CHANGES[what];
  const values = parse(body);
  const names = typeof namesOf === 'function' ? namesOf(body) : namesOf;
  if (!rights.calls(call)) throw new Problem('right', `role "${rights.role}" may not call ${call}`, { status: 403 });
  const passed = values.map((_, i) => `${names ? `${names[i]} => ` : ''}$${i + 1}${types[i] ? `::${types[i]}` : ''}`);
  const [{ done }] = await database.change(async (query) => {
    await check?.(query, body);
    return query(`SELECT ${rights.call(call)}(${passed.join(', ')}) AS done`, values);
  });
  const [kind, text] = tell(body, done);
  return { kind, text, path: path?.(done) };
}
