// The last changes, sign-ins, and rejected requests since the dashboard started. Forms may contain payloads, so the page is only for
// roles that may read the jobs.
import { mustRead } from '../database.js';
import { badge, html, table, time } from '../html.js';

export async function changesPage(view, query, given, { journal }) {
  mustRead(view.rights, 'jobs');
  const rows = journal.entries.slice(-view.options.pageSize).reverse();
  return view.page('Changes', html`<p>The last changes and rejected requests since the dashboard started. It also writes them to its standard output.</p>
${table('Changes and rejected requests, the latest first', [
    { label: 'At', cell: (row) => time(new Date(row.at)) },
    { label: 'User', cell: (row) => row.user ?? row.login ?? '' },
    { label: 'Role', cell: (row) => row.role ?? '' },
    { label: 'Change', cell: (row) => row.change ?? 'login' },
    { label: 'Fields', wide: true, cell: (row) => row.said },
    { label: 'Result', wide: true, cell: (row) => (row.done === undefined ? html`${badge('refused', String(row.status))} ${row.error}` : row.done) },
  ], rows, { empty: 'Nothing has been changed or rejected yet.' })}`, { live: true });
}
