// The search for jobs: the meaning of a filter, the index that a search walks along, and the start of the next page. However many
// jobs are kept, a page examines at most `scan` jobs, and says if it stopped there. Needs no database: this file only makes SQL
// and interprets rows.
import { isMoment } from './moment.js';
import { STATUSES } from './sampler.js';

export const AGES = { '1m': '1 minute', '10m': '10 minutes', '1h': '1 hour', '1d': '1 day', '7d': '7 days' };
// Values of the filter "status". "unfinished" selects four statuses.
export const STATUS_CHOICES = [...STATUSES, 'unfinished'];
export const FIELDS = ['status', 'queue', 'kind', 'nokind', 'worker', 'error', 'key', 'older', 'from', 'to', 'dead', 'metadata', 'payload', 'batch'];
export const SEARCHED_PAYLOAD = 8192;   // stored size in bytes; a search does not read larger payloads

// Returns the filter in a form or an address. `problems` are messages for the reader. Empty fields are omitted.
export function parseFilter(given) {
  const filter = {};
  const problems = [];
  for (const field of FIELDS) {
    const value = given[field];
    if (typeof value === 'string' && value !== '') filter[field] = value;
  }
  if (filter.status !== undefined && !STATUS_CHOICES.includes(filter.status)) {
    problems.push(`Status "${filter.status}" does not exist.`);
    delete filter.status;
  }
  if (filter.older !== undefined && !Object.hasOwn(AGES, filter.older)) {
    problems.push(`Age "${filter.older}" does not exist.`);
    delete filter.older;
  }
  for (const field of ['from', 'to']) {
    if (filter[field] !== undefined && !isMoment(filter[field])) {
      problems.push(`"${filter[field]}" is not a time, such as 2026-01-31 09:30.`);
      delete filter[field];
    }
  }
  if (filter.nokind !== undefined) {
    delete filter.kind;
    filter.nokind = '1';
  }
  if (filter.dead !== undefined) filter.dead = '1';
  if (filter.metadata !== undefined) {
    try {
      JSON.parse(filter.metadata);
    } catch {
      problems.push('Metadata is not valid JSON.');
      delete filter.metadata;
    }
  }
  if (filter.batch !== undefined && !/^\d{1,18}$/.test(filter.batch)) {
    problems.push(`Batch "${filter.batch}" is not a number.`);
    delete filter.batch;
  }
  for (const field of FIELDS) {
    if (filter[field]?.includes('\0')) {
      problems.push(`${field} must not contain the character 0.`);
      delete filter[field];
    }
  }
  return { filter, problems };
}

const BIGINT = /^-?\d{1,19}$/;
// Stands for NULL in a cursor, because no text in PostgreSQL contains this character.
const NULL = '\0';
const TEXT_OR_NULL = /^(?:\0|[^\0]*)$/;
const ID_DOWN = [['id', 'bigint', BIGINT]];

// The indexes along which a search can walk. keys: columns of the order and their types. `along`: description for the reader.
export const WALKS = {
  newest: {
    along: 'newest first',
    keys: ID_DOWN,
    down: true,
    from: () => 'jobq.jobs j',
    where: () => 'true',
  },
  // Every failed job has an attempt that did not complete, and there are far fewer such attempts than kept jobs.
  attempts: {
    along: 'newest first, along the attempts that did not complete',
    keys: ID_DOWN,
    down: true,
    share: 0.25,
    from: ({ before, add }) => `(SELECT DISTINCT ON (a.job_id) a.job_id FROM jobq.attempts a
        WHERE ${before ? `a.job_id < ${add(before[0])}::bigint` : 'true'} ORDER BY a.job_id DESC) c JOIN jobq.jobs j ON j.id = c.job_id`,
    order: 'c.job_id',
    where: () => 'true',
    needs: ['attempts'],
  },
  ready: {
    along: 'kind by kind, in the order in which they are claimed',
    keys: [['_lane', 'bigint', BIGINT], ['priority', 'smallint', /^-?\d{1,5}$/], ['run_at', 'timestamptz', /^[-0-9:. +BC]{1,60}$/], ['id', 'bigint', BIGINT]],
    from: () => 'jobq.jobs j',
    where: ({ filter, add }) => {
      const conditions = ['j._ready'];
      if (filter.queue !== undefined || filter.kind !== undefined || filter.nokind) {
        const lanes = [];
        if (filter.queue !== undefined) lanes.push(`d.queue = ${add(filter.queue)}`);
        if (filter.nokind || filter.kind !== undefined) lanes.push(`d.kind = ${add(filter.nokind ? '' : filter.kind)}`);
        conditions.push(`j._lane = ANY (ARRAY(SELECT DISTINCT d.lane FROM jobq.lane_directory d WHERE ${lanes.join(' AND ')}))`);
      }
      return conditions.join(' AND ');
    },
    needs: ['lane_directory'],
  },
  due: {
    along: 'the next one first',
    keys: [['run_at', 'timestamptz', /^[-0-9:. +BC]{1,60}$/], ['id', 'bigint', BIGINT]],
    from: () => 'jobq.jobs j',
    where: () => 'j._due',
  },
  running: {
    along: 'worker by worker; those claimed within the last second may be missing',
    keys: [['worker_id', 'text', TEXT_OR_NULL], ['id', 'bigint', BIGINT]],
    // Jobs that were made to run manually may have no worker and come last. Each part of the condition after a cursor is one
    // index range.
    from: ({ before: [worker, id] = [], add, scan }) => {
      const part = (condition) => `(SELECT r.* FROM jobq.jobs r WHERE r._rescue_indexed AND ${condition} ORDER BY r.worker_id, r.id LIMIT ${scan})`;
      if (id === undefined) return 'jobq.jobs j';
      if (worker === NULL) return `${part(`r.worker_id IS NULL AND r.id > ${add(id)}::bigint`)} j`;
      return `(${part(`(r.worker_id, r.id) > (${add(worker)}::text, ${add(id)}::bigint)`)} UNION ALL ${part('r.worker_id IS NULL')}) j`;
    },
    fromCursor: true,
    where: ({ filter, add }) => `j._rescue_indexed${filter.worker === undefined ? '' : ` AND j.worker_id = ${add(filter.worker)}`}`,
  },
  // Jobs that wait for dependencies, for a signal, or for their turn in a group.
  blocked: {
    along: 'newest first; not all jobs of very long groups',
    keys: ID_DOWN,
    down: true,
    fromCursor: true,
    from: ({ before, add, scan }) => {
      const below = (column) => (before ? `AND ${column} < ${add(before[0])}::bigint` : '');
      return `(SELECT u.id FROM (
          (SELECT d.job_id AS id FROM jobq.edges d WHERE d.kind = 'depends' AND d.active ${below('d.job_id')} ORDER BY d.job_id DESC LIMIT ${scan})
          UNION (SELECT s.job_id FROM jobq.steps s WHERE s._awaited IS NOT NULL ${below('s.job_id')} ORDER BY s.job_id DESC LIMIT ${scan})
          UNION (SELECT g.id FROM jobq.jobs g WHERE g._group_waiting IS NOT NULL ${below('g.id')} LIMIT ${scan})) u) c
        JOIN jobq.jobs j ON j.id = c.id`;
    },
    order: 'c.id',
    where: () => 'true',
    needs: ['edges', 'steps'],
  },
  batch: {
    along: 'newest first, along the jobs of the batch',
    keys: ID_DOWN,
    down: true,
    from: () => 'jobq.jobs j',
    where: ({ filter, add }) => `j.batch_id = ${add(filter.batch)}::bigint`,
  },
  key: {
    along: 'the unfinished job that has the key, and finished jobs that keep it',
    keys: ID_DOWN,
    down: true,
    from: () => 'jobq.jobs j',
    where: ({ filter, add }) => {
      const key = add(filter.key);
      return `j.id = ANY (ARRAY(SELECT h.id FROM jobq.jobs h WHERE h._holds_key AND h.unique_key = ${key}
          UNION SELECT k.job_id FROM jobq.kept_keys k WHERE k.unique_key = ${key}))`;
    },
    needs: ['kept_keys'],
  },
};

export function walkOf(filter) {
  if (filter.key !== undefined) return 'key';
  if (filter.batch !== undefined) return 'batch';
  switch (filter.status) {
    case 'pending': return 'ready';
    case 'scheduled': return 'due';
    case 'processing': return 'running';
    case 'blocked': return 'blocked';
    case 'failed': return 'attempts';
    default: return 'newest';
  }
}

export function encodeCursor(walk, values) {
  return Buffer.from(JSON.stringify([walk, ...values])).toString('base64url');
}

// Returns the values of a cursor of this walk, or undefined if the text is not such a cursor.
export function decodeCursor(walk, text) {
  if (typeof text !== 'string' || text.length > 2000) return undefined;
  let values;
  try {
    values = JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
  const { keys } = WALKS[walk];
  if (!Array.isArray(values) || values.length !== keys.length + 1 || values[0] !== walk) return undefined;
  const fits = keys.every(([, , pattern], i) => typeof values[i + 1] === 'string' && pattern.test(values[i + 1]));
  return fits ? values.slice(1) : undefined;
}

// Returns whether a search in payloads compares JSON. Otherwise, it compares text.
function isDocument(text) {
  try {
    return typeof JSON.parse(text) === 'object' && text.trim() !== 'null';
  } catch {
    return false;
  }
}

// Returns the SQL conditions for the filter. `add` takes a value and returns its placeholder.
export function conditionsOf(filter, add) {
  const conditions = [];
  if (filter.status === 'unfinished') conditions.push("j.status <= 'processing'");
  else if (filter.status !== undefined) conditions.push(`j.status = ${add(filter.status)}::jobq.job_status`);
  if (filter.queue !== undefined) {
    const queue = add(filter.queue);
    // A dead letter matches its present queue and its original queue.
    conditions.push(filter.dead ? `(j.queue = ${queue} OR j.dead_from = ${queue})` : `j.queue = ${queue}`);
  }
  if (filter.nokind) conditions.push("j.kind = ''");
  if (filter.kind !== undefined) conditions.push(`j.kind = ${add(filter.kind)}`);
  if (filter.worker !== undefined) conditions.push(`j.worker_id = ${add(filter.worker)}`);
  if (filter.error !== undefined) conditions.push(`position(${add(filter.error)} in j.error) > 0`);
  if (filter.key !== undefined) conditions.push(`j.unique_key = ${add(filter.key)}`);
  if (filter.older !== undefined) conditions.push(`j.created_at < clock_timestamp() - ${add(AGES[filter.older])}::interval`);
  if (filter.batch !== undefined) conditions.push(`j.batch_id = ${add(filter.batch)}::bigint`);
  if (filter.from !== undefined) conditions.push(`j.created_at >= ${add(filter.from)}::timestamptz`);
  if (filter.to !== undefined) conditions.push(`j.created_at < ${add(filter.to)}::timestamptz`);
  if (filter.payload !== undefined) {
    const text = add(filter.payload);
    conditions.push(`CASE WHEN pg_column_size(j.payload) <= ${SEARCHED_PAYLOAD} THEN ${isDocument(filter.payload) ? `j.payload @> ${text}::jsonb` : `position(${text} in j.payload::text) > 0`} END`);
  }
  if (filter.dead) conditions.push('j.dead_from IS NOT NULL');
  if (filter.metadata !== undefined) conditions.push(`j.metadata @> ${add(filter.metadata)}::jsonb`);
  return conditions;
}

// The share of the jobs that a page examines if it searches in payloads, because converting payloads to text takes long.
const PAYLOAD_SHARE = 0.25;
const MARGIN = 60000;   // milliseconds by which the times of jobs may deviate from the order of their IDs
const NEAR = 100n;

// Returns an ID near the first job that was enqueued at this time, with a binary search along the primary key, because no index
// contains the times. Jobs whose created_at was set with plain SQL may be elsewhere.
async function idAt(query, at, [low, high]) {
  let [first, last] = [BigInt(low), BigInt(high)];
  while (last - first > NEAR) {
    const middle = (first + last) / 2n;
    const [row] = await query('SELECT j.id, j.created_at < $2::timestamptz AS early FROM jobq.jobs j WHERE j.id >= $1 ORDER BY j.id LIMIT 1', [String(middle), at]);
    if (row?.early) first = BigInt(row.id);
    else last = middle;
  }
  return { first: String(first), last: String(last) };
}

const RANGED = new Set(['newest', 'attempts']);

// Returns the range of IDs in which a search with a time range must look: { first, last }.
export async function rangeOf(query, filter) {
  if (!RANGED.has(walkOf(filter)) || (filter.from === undefined && filter.to === undefined)) return {};
  const [{ low, high }] = await query('SELECT min(j.id) AS low, max(j.id) AS high FROM jobq.jobs j');
  if (low === null) return {};
  const shifted = (text, by) => new Date(Date.parse(`${text.replace(' ', 'T')}${text.length > 10 ? 'Z' : ''}`) + by);
  return {
    ...(filter.from !== undefined && { first: (await idAt(query, shifted(filter.from, -MARGIN), [low, high])).first }),
    ...(filter.to !== undefined && { last: (await idAt(query, shifted(filter.to, MARGIN), [low, high])).last }),
  };
}

export function parameters() {
  const values = [];
  return { values, add: (value) => `$${values.push(value)}` };
}

// Returns the statement for one page of `limit` jobs with `columns` of j. Its rows contain `matches`, `n`, and the keys k0, k1
// ... The last examined job is always included, so that the next page can start after it. The outer query has no ORDER BY,
// because sorting would read all `scan` jobs even if the first few match; filters and limits keep the order of the inner query.
export function searchStatement(filter, { before, columns, limit, scan, range = {} }) {
  const name = walkOf(filter);
  const walk = WALKS[name];
  const { values, add } = parameters();
  const most = Math.max(1, Math.floor(scan * (walk.share ?? 1) * (filter.payload === undefined ? 1 : PAYLOAD_SHARE)));
  const given = { filter, before, add, scan: most };
  const from = walk.from(given);
  const where = [walk.where(given)];
  const order = walk.order ? [walk.order] : walk.keys.map(([column]) => `j.${column}`);
  if (range.first !== undefined) where.push(`${order[0]} >= ${add(range.first)}::bigint`);
  if (range.last !== undefined) where.push(`${order[0]} <= ${add(range.last)}::bigint`);
  if (before && !walk.fromCursor) {
    const places = walk.keys.map(([, type], i) => `${add(before[i])}::${type}`);
    where.push(walk.keys.length === 1 ? `${order[0]} ${walk.down ? '<' : '>'} ${places[0]}`
      : `(${order.join(', ')}) ${walk.down ? '<' : '>'} (${places.join(', ')})`);
  }
  const sorted = order.map((column) => `${column}${walk.down ? ' DESC' : ''}`).join(', ');
  const matches = conditionsOf(filter, add).join(' AND ') || 'true';
  const text = `
SELECT ${columns}, j.matches, j.n, ${walk.keys.map((_, i) => `j.k${i}::text AS k${i}`).join(', ')}
FROM (SELECT j.*, coalesce(${matches}, false) AS matches, row_number() OVER (ORDER BY ${sorted})::int AS n,
             ${order.map((column, i) => `${column} AS k${i}`).join(', ')}
      FROM ${from} WHERE ${where.join(' AND ')} ORDER BY ${sorted} LIMIT ${most}) j
WHERE j.matches OR j.n = ${most}
LIMIT ${limit + 2}`;
  return { text, values, walk: name, most, limit };
}

// Interprets the rows of that statement: the jobs of the page, the start of the next page, and whether the limit ended the
// search.
export function searchResult({ walk, most, limit }, rows) {
  const keysOf = (row) => WALKS[walk].keys.map((_, i) => row[`k${i}`] ?? NULL);
  rows.sort((a, b) => a.n - b.n);
  const found = rows.filter((row) => row.matches);
  const jobs = found.slice(0, limit);
  if (found.length > limit) return { jobs, next: encodeCursor(walk, keysOf(jobs.at(-1))), cut: false };
  const last = rows.at(-1);
  if (last?.n === most) return { jobs, next: encodeCursor(walk, keysOf(last)), cut: true };
  return { jobs, next: undefined, cut: false };
}
