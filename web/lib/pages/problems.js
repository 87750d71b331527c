// Explains why a page cannot be shown, and what to do about it.
import { html, notice } from '../html.js';

const ABOUT = {
  lost: ['The database does not answer', 'The server may be starting, or the network may be down. Reload this page to try again.'],
  timeout: ['The database took too long', 'A query was canceled by its statement timeout, and nothing was changed. The server may be busy, or another session may hold a lock. Choose a narrower filter, or start the dashboard with a longer --statement-timeout (pages) or --action-timeout (changes).'],
  right: ['A privilege is missing', 'The role that the dashboard connects as may not do this. The owner of the extension can grant it: a monitor sees queues, schedules, workers, and attempts; an operator also sees jobs, and can change them if the dashboard was started with --allow-changes.'],
  login: ['The database rejects the connection', 'Check the connection settings of the dashboard: PGHOST, PGUSER, PGDATABASE, PGPASSFILE, or --database.'],
  extension: ['jobq is not installed', 'Run CREATE EXTENSION jobq as a superuser, or connect the dashboard to another database.'],
  forged: ['This change was rejected', 'Nothing was changed. Go back, reload the page, and try again. Behind a proxy, --origin must be the address that the browser shows.'],
  host: ['Wrong address', 'The dashboard only answers to its own address. Set --origin to the address that browsers use.'],
  'read-only': ['Nothing can be changed here', 'The dashboard is read-only unless it is started with --allow-changes.'],
  user: ['You have no access', 'The proxy has authenticated you, but the dashboard does not know you. Ask the administrator to add your name to the file of --users.'],
  'signed-out': ['You are not signed in', 'Nothing was changed. Sign in, and try again.'],
  missing: ['This page does not exist', 'It may have been pruned, deleted, or renamed.'],
  argument: ['This cannot be done', 'Nothing was changed. Go back and correct it.'],
  error: ['Something went wrong', 'Nothing was changed.'],
};

export function problemPage(view, problem, { signedOut = false } = {}) {
  const [title, help] = ABOUT[problem.kind] ?? ABOUT.error;
  const grant = problem.kind === 'right' && view.rights
    ? html`<pre tabindex="0" role="region" aria-label="Statement">SELECT jobq_grant('${view.rights.role.replaceAll("'", "''")}', '${problem.profile}');</pre>` : '';
  return view.page(title, html`${notice('bad', problem.message)}${problem.hint ? html`<p>${problem.hint}</p>` : ''}<p>${help}</p>${grant}`, { signedOut });
}
