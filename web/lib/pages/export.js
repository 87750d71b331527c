// The jobs of a search as a file. An export contains at most as many jobs as a bulk change.
import { Problem } from '../database.js';
import { SEARCHED_PAYLOAD, parseFilter } from '../jobs_search.js';
import { searchJobs } from './jobs.js';

const FIELDS = ['id', 'queue', 'kind', 'status', 'priority', 'attempts', 'max_attempts', 'created_at', 'run_at', 'started_at', 'finished_at', 'worker_id', 'unique_key', 'group_key',
  'concurrency_key', 'batch_id', 'dead_from'];
const DOCUMENTS = ['payload', 'metadata'];
const COLUMNS = [...FIELDS.map((name) => `j.${name}`), 'left(j.error, 2000) AS error',
  ...DOCUMENTS.map((name) => `CASE WHEN pg_column_size(j.${name}) <= ${SEARCHED_PAYLOAD} THEN j.${name}::text END AS ${name}`)].join(', ');
const NAMES = [...FIELDS, 'error', ...DOCUMENTS];
// Values that are JSON already. The numbers of JavaScript cannot hold every ID, or every number in a payload.
const RAW = new Set(['id', 'batch_id', ...DOCUMENTS]);

function jsonObject(row) {
  return `{${NAMES.map((name) => `"${name}": ${RAW.has(name) ? row[name] ?? 'null' : JSON.stringify(row[name])}`).join(', ')}}`;
}

// A program for spreadsheets would run text that begins like a formula, so such text gets an apostrophe in front.
export function csvCell(value) {
  const text = value instanceof Date ? value.toISOString() : String(value ?? '');
  const inert = typeof value !== 'number' && /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}

export const EXPORTS = {
  json: { type: 'application/json', write: ({ jobs, next }) => `{"complete": ${next === undefined}, "after": ${JSON.stringify(next ?? null)}, "jobs": [\n${jobs.map(jsonObject).join(',\n')}\n]}\n` },
  csv: { type: 'text/csv; charset=utf-8', write: ({ jobs }) => [NAMES, ...jobs.map((row) => NAMES.map((name) => row[name]))].map((row) => `${row.map(csvCell).join(',')}\r\n`).join('') },
};

export async function exportJobs(view, query, given, format) {
  const { filter, problems } = parseFilter(given);
  if (problems.length > 0) throw new Problem('argument', problems.join(' '), { status: 400 });
  const found = await searchJobs(view, query, filter, { cursor: given.after, limit: view.options.bulkSize, columns: COLUMNS });
  return { text: EXPORTS[format].write(found), name: `jobs${found.next === undefined ? '' : '-incomplete'}.${format}` };
}
