// Why a page cannot be shown, in words, and what to do about it.
import { html, notice } from '../html.js';

const ABOUT = {
  lost: ['The database does not answer', 'The server may be starting, or the network be down. The dashboard tries again with each page: reload this one.'],
  timeout: ['The database took too long', 'A query came to its statement timeout and was ended; nothing was changed. The server may be busy, or somebody holds a lock. Choose a narrower filter, or start the dashboard with a longer --statement-timeout (pages) or --action-timeout (changes).'],
  right: ['A right is missing', 'The role that the dashboard connects as may not do this. Somebody who owns the extension can grant it: monitor sees queues, schedules, workers and attempts; operator also sees jobs, and may change them where the dashboard was started with --allow-changes.'],
  login: ['The database lets nobody in', 'Look at how the dashboard connects: PGHOST, PGUSER, PGDATABASE, PGPASSFILE, or --database.'],
  extension: ['There is no jobq here', 'A superuser installs it: CREATE EXTENSION jobq. Or the dashboard connects to the wrong database.'],
  forged: ['This change was refused', 'Nothing was changed. Go back, reload the page and try again; behind a proxy, --origin must be the address that the browser shows.'],
  host: ['Wrong address', 'The dashboard answers to the names it was told only: --origin is the address under which browsers reach it.'],
  'read-only': ['Nothing can be changed here', 'The dashboard is read-only unless it is started with --allow-changes.'],
  missing: ['There is no such page', 'It may have been pruned, deleted or renamed.'],
  argument: ['This cannot be done', 'Nothing was changed. Go back and correct it.'],
  error: ['Something went wrong', 'Nothing was changed.'],
};

export function problemPage(view, problem) {
  const [title, help] = ABOUT[problem.kind] ?? ABOUT.error;
  const grant = problem.kind === 'right' && view.rights
    ? html`<pre tabindex="0" role="region" aria-label="Statement">SELECT jobq_grant('${view.rights.role.replaceAll("'", "''")}', 'operator');</pre>` : '';
  return view.page(title, html`${notice('bad', problem.message)}${problem.hint ? html`<p>${problem.hint}</p>` : ''}<p>${help}</p>${grant}`);
}
