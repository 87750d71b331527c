// The functions in the database that run jobs.
import { mustRead } from '../database.js';
import { badge, html, number, table } from '../html.js';

export async function handlersPage(view, query, given) {
  mustRead(view.rights, 'handlers');
  const { pageSize } = view.options;
  const [queue, kind] = [given.after ?? '', given.kind ?? ''];
  const found = await query(`SELECT * FROM jobq.handlers h WHERE (h.queue, h.kind) > ($1, $2) OR ($1 = '' AND $2 = '')
    ORDER BY h.queue, h.kind LIMIT $3`, [queue, kind, pageSize + 1]);
  const rows = found.slice(0, pageSize);
  return view.page('Handlers', html`
${table('Functions of the database that run jobs', [
    { label: 'Queue', cell: (row) => view.queue(row.queue) },
    { label: 'Kind', cell: (row) => row.kind || '(none)' },
    { label: 'Function', cell: (row) => html`<code>${row.handler}</code>` },
    { label: 'As', cell: (row) => row.run_as },
    { label: 'State', cell: (row) => html`${badge(row.state === 'broken' ? 'failed' : row.state === 'running' ? 'processing' : 'idle', row.state)} ${row.reason ?? ''}` },
    { label: 'Running', number: true, cell: (row) => `${number(row.running)} of ${number(row.max_executors)}` },
    { label: 'Only', cell: (row) => [row.versions && `versions ${row.versions.join(', ')}`, row.capabilities && `with ${row.capabilities.join(', ')}`].filter(Boolean).join('; ') },
    { label: 'Settings', wide: true, cell: (row) => (row.settings ?? []).join(' ') },
  ], rows, { empty: 'There is none: SELECT jobq_set_handler(...) lets a function run jobs.' })}
${found.length > pageSize ? view.more('/handlers', { after: rows.at(-1).queue, kind: rows.at(-1).kind }, 'More handlers') : ''}`, { live: true });
}
