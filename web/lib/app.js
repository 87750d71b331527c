// The routes. A page is a function of the request and of one read-only transaction. A change is a POST that ends with a redirect
// to the page from which it came.
import { readFile } from 'node:fs/promises';
import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { getCookie } from 'hono/cookie';
import { CHANGES, change } from './actions.js';
import { Problem, toProblem } from './database.js';
import { addressOf } from './options.js';
import { Journal } from './journal.js';
import { batchesPage } from './pages/batches.js';
import { bulkPage, changeMany } from './pages/bulk.js';
import { changesPage } from './pages/changes.js';
import { enqueuePage } from './pages/enqueue.js';
import { EXPORTS, exportJobs } from './pages/export.js';
import { failuresPage } from './pages/failures.js';
import { groupsPage } from './pages/groups.js';
import { handlersPage } from './pages/handlers.js';
import { jobPage } from './pages/job.js';
import { jobsPage } from './pages/jobs.js';
import { loginPage } from './pages/login.js';
import { overviewPage } from './pages/overview.js';
import { problemPage } from './pages/problems.js';
import { queuePage, queuesPage } from './pages/queues.js';
import { schedulePage } from './pages/schedule.js';
import { schedulesPage } from './pages/schedules.js';
import { workersPage } from './pages/workers.js';
import { Sessions, checkHost, setHeaders } from './security.js';
import { View } from './view.js';

// path, page, navigation entry
const ROUTES = [['/', overviewPage, '/'], ['/queues', queuesPage, '/queues'], ['/queue', queuePage, '/queues'], ['/jobs', jobsPage, '/jobs'],
  ['/job/:id', jobPage, '/jobs'], ['/bulk', bulkPage, '/jobs'], ['/enqueue', enqueuePage, '/jobs'], ['/failures', failuresPage, '/failures'], ['/schedules', schedulesPage, '/schedules'], ['/schedule', schedulePage, '/schedules'], ['/batches', batchesPage, '/batches'],
  ['/groups', groupsPage, '/groups'], ['/workers', workersPage, '/workers'], ['/handlers', handlersPage, '/handlers'], ['/changes', changesPage, '/changes']];
const OPEN = new Set(['/login', '/health']);   // paths for which no user needs to be known, in addition to the files
const FILES = { '/app.css': 'text/css; charset=utf-8', '/app.js': 'text/javascript; charset=utf-8', '/icon.svg': 'image/svg+xml' };
const MOST_POSTED = 256 * 1024;

// Returns the origins under which browsers may reach the dashboard: the configured origins, and the address on which it listens.
function ownOrigins(options, port) {
  const origins = new Set(options.origins);
  if (options.local) for (const name of ['127.0.0.1', 'localhost', '[::1]']) origins.add(`http://${name}:${port}`);
  return origins;
}

// Returns an address of the dashboard to go back to, never of another site.
function localAddress(options, back) {
  const fallback = `${options.basePath}/`;
  if (typeof back !== 'string' || !back.startsWith(fallback) || /^\/[/\\]/.test(back) || /[\0-\x1f\\]/.test(back)) return fallback;
  return back;
}

export function createApp({ database: own, sampler, options, users, log = console.log }) {
  const sessions = new Sessions(options);
  const journal = new Journal(log);
  let origins = ownOrigins(options, options.port);
  const root = new Hono();
  const app = options.basePath === '' ? root : root.basePath(options.basePath);

  const remote = (c) => (c.env?.incoming?.socket?.remoteAddress ?? '').replace(/^::ffff:/, '');
  // Returns the user whom the proxy has authenticated: null if there is none, and undefined if no proxy does so. Other clients could
  // send the header, too.
  const proxied = (c) => (options.userHeader ? (options.proxies.has(remote(c)) ? c.req.header(options.userHeader) ?? null : null) : undefined);
  // Returns the user, and the database with the privileges of the user, or undefined if the user is unknown.
  const identify = (c) => {
    if (!users) return { user: proxied(c), database: own };
    const found = options.userHeader ? users.named(proxied(c)) : users.of(sessions.known(c));
    return found && { user: found.name, database: own.as(found.role) };
  };
  const local = (c) => c.req.path.slice(options.basePath.length);

  const viewOf = (c, rights, path) => {
    const session = sessions.of(c);
    const address = new URL(c.req.url);
    return new View({ options, rights, user: c.get('who')?.user, theme: getCookie(c, 'jobq_theme'), token: sessions.token(session), told: sessions.hear(session), path, address: address.pathname + address.search });
  };
  const show = (c, page, status = 200) => {
    c.header('Cache-Control', 'no-store');
    return c.html(String(page), status);
  };

  root.use(async (c, next) => {
    setHeaders(c);
    checkHost(c, origins);
    c.set('who', identify(c));
    if (!c.get('who') && !OPEN.has(local(c)) && !Object.hasOwn(FILES, local(c))) {
      if (options.userHeader) throw new Problem('user', `user "${(proxied(c) ?? '').slice(0, 200)}" is not in the list of users`, { status: 403 });
      if (c.req.method !== 'GET') throw new Problem('signed-out', 'nobody is signed in', { status: 401 });
      const { pathname, search } = new URL(c.req.url);
      return c.redirect(`${options.basePath}/login?${new URLSearchParams({ to: pathname + search })}`, 303);
    }
    return next();
  });

  for (const [path, page, entry] of ROUTES) {
    app.get(path, async (c) => {
      const { database } = c.get('who');
      const view = viewOf(c, await database.rights(), entry);
      const given = { ...c.req.query(), ...c.req.param() };
      return show(c, await database.read((query) => page(view, query, given, { sampler, journal })));
    });
  }
  for (const [format, { type }] of Object.entries(EXPORTS)) {
    app.get(`/jobs.${format}`, async (c) => {
      const { database } = c.get('who');
      const view = new View({ options, rights: await database.rights() });
      const { text, name } = await database.read((query) => exportJobs(view, query, c.req.query(), format));
      c.header('Content-Type', type);
      c.header('Content-Disposition', `attachment; filename="${name}"`);
      c.header('Cache-Control', 'no-store');
      return c.body(text);
    });
  }
  app.get('/job', (c) => c.redirect(`${options.basePath}/job/${encodeURIComponent(c.req.query('id') ?? '')}`, 303));
  // For monitoring: tests whether the database can be reached.
  app.get('/health', async (c) => {
    await own.read((query) => query('SELECT 1'));
    return c.text('ok\n');
  });
  for (const [path, type] of Object.entries(FILES)) {
    const text = readFile(new URL(`../public${path}`, import.meta.url));
    app.get(path, async (c) => {
      c.header('Content-Type', type);
      c.header('Cache-Control', 'no-cache');
      return c.body(await text);
    });
  }

  // Logs a change. `said` is missing if the change was rejected before its form was trusted.
  const logChange = (c, outcome) => journal.add({ at: new Date().toISOString(), change: c.req.path.slice(options.basePath.length + 1, 200),
    user: c.get('who') ? c.get('who').user : proxied(c), role: c.get('who')?.database.known?.role, said: c.get('said'), ...outcome });
  const formOf = async (c) => {
    // Keep text fields only, because the dashboard accepts no files.
    const body = Object.fromEntries(Object.entries(await c.req.parseBody()).filter(([, value]) => typeof value === 'string'));
    sessions.checkPost(c, origins, body);
    return body;
  };
  const posted = async (c, work) => {
    const body = await formOf(c);
    const { database } = c.get('who');
    if (!options.allowChanges) throw new Problem('read-only', 'the dashboard was started without --allow-changes', { status: 403 });
    const rights = await database.rights();
    const session = sessions.of(c);
    c.set('said', Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'token' && name !== 'back')));
    const told = await work(body, rights, database);
    logChange(c, { done: told.text });
    sessions.tell(session, told.kind, told.text);
    return c.redirect(told.path === undefined ? localAddress(options, body.back) : options.basePath + told.path, 303);
  };
  app.use('*', bodyLimit({ maxSize: MOST_POSTED, onError: () => { throw new Problem('argument', 'the form is too large', { status: 413 }); } }));
  for (const what of Object.keys(CHANGES)) {
    app.post(`/do/${what}`, (c) => posted(c, (body, rights, database) => change(database, rights, what, body)));
  }
  app.post('/bulk', (c) => posted(c, (body, rights, database) => changeMany(new View({ options, rights }), database, body)));

  if (users && !options.userHeader) {
    app.get('/login', (c) => show(c, loginPage(viewOf(c), c.req.query('to'))));
    app.post('/login', async (c) => {
      const body = await formOf(c);
      const user = await users.check(body.name ?? '', (body.password ?? '').slice(0, 1000));
      journal.add({ at: new Date().toISOString(), login: (body.name ?? '').slice(0, 200), address: remote(c), ...(user ? { done: 'signed in' } : { status: user === null ? 401 : 429, error: user === null ? 'wrong name or password' : 'too many attempts' }) });
      if (!user) return show(c, loginPage(viewOf(c), body.back, user === null ? 'The name or the password is wrong.' : 'Too many passwords are being checked. Try again in a moment.'), user === null ? 401 : 429);
      users.signIn(sessions.renew(c), user);
      return c.redirect(localAddress(options, body.back), 303);
    });
    app.post('/logout', async (c) => {
      await formOf(c);
      users.signOut(sessions.known(c));
      sessions.renew(c);
      return c.redirect(`${options.basePath}/login`, 303);
    });
  }

  root.notFound((c) => fail(c, new Problem('missing', 'this page does not exist', { status: 404 })));
  root.onError((error, c) => fail(c, error));

  async function fail(c, error) {
    const problem = toProblem(error);
    if (c.req.method === 'POST' || problem.kind === 'user') logChange(c, { status: problem.status, error: error.message });
    if (problem.kind === 'error' && !problem.cause?.code) console.error(problem.cause ?? problem);
    if (c.req.path.endsWith('/health')) return c.text(`${problem.message}\n`, 503);
    setHeaders(c);
    if (problem.status === 503) c.header('Retry-After', '5');
    // Uses the cached rights instead of a query, because the database may be unreachable.
    const view = new View({ options, rights: c.get('who')?.database.known, user: c.get('who')?.user, theme: getCookie(c, 'jobq_theme'), path: '', address: `${options.basePath}/` });
    return show(c, problemPage(view, problem, { signedOut: !c.get('who') }), problem.status);
  }

  return {
    fetch: root.fetch,
    listening: (port) => { origins = ownOrigins(options, port); },
    address: (port) => addressOf(options, port),
  };
}
