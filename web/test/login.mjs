// Tests users: sign in with a password, users whom a proxy names, and the privileges of their roles.
import { execFile, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { becomesTrue, dashboard, is, like, ok, post, request, session, textOf } from './harness.mjs';

const program = fileURLToPath(new URL('../bin/jobq-web.js', import.meta.url));
const directory = mkdtempSync(`${tmpdir()}/users-`);

function hashOf(password) {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [program, '--hash-password'], (error, output) => resolve(error ? `status ${error.code}` : output.trim()));
    child.stdin.end(`${password}\n`);
  });
}

function usersFile(name, lines, mode = 0o600) {
  const path = `${directory}/${name}`;
  writeFileSync(path, `# users of the dashboard\n\n${lines.join('\n')}\n`);
  chmodSync(path, mode);
  return path;
}

async function signIn(board, name, password, more = {}) {
  const before = await session(board.address, '/login');
  const answer = await post(board.address, '/login', { name, password, back: '/queues' }, { ...before, ...more });
  return { before, answer, cookie: (answer.headers['set-cookie'] ?? [])[0]?.split(';')[0] };
}

async function passwords({ db, hash }) {
  const file = usersFile('passwords', [`ada:dash_operator:${hash}`, `mo:dash_monitor:${hash}`, 'gone:dash_operator']);
  const board = await dashboard({ args: ['--users', file, '--allow-changes'], env: { PGUSER: 'dash_board' } });
  const get = (path, cookie) => request(board.address, { path, headers: { ...(cookie && { cookie }) } });
  const first = await get('/jobs?status=failed');
  is([first.status, first.headers.location], [303, '/login?to=%2Fjobs%3Fstatus%3Dfailed'], 'users: a page leads to the form for signing in');
  for (const path of ['/jobs.csv', '/job/1', '/changes', '/nonsense']) is((await get(path)).status, 303, `users: ${path} requires a user`);
  is([(await get('/app.css')).status, (await get('/health')).status], [200, 200], 'users: the style and the health check require no user');
  is((await post(board.address, '/do/pause_queue', { queue: 'emails' }, await session(board.address, '/login'))).status, 401, 'users: a change requires a user');

  for (const [name, password] of [['ada', 'wrong password'], ['nobody', 'correct horse'], ['gone', 'correct horse'], ['*', 'correct horse'], ['ada', '']]) {
    const { answer, before } = await signIn(board, name, password);
    is([answer.status, (await get('/queues', before.cookie)).status], [401, 303], `users: ${name} with "${password}" is rejected`);
    like(textOf(answer.text), /The name or the password is wrong/, 'users: the page says so');
  }
  for (const [name, given] of [['another origin', { origin: 'http://evil.example' }], ['no token', { token: undefined }]]) {
    is((await signIn(board, 'ada', 'correct horse', given)).answer.status, 403, `users: with ${name}, nobody can sign in`);
  }
  const crowd = await Promise.all(Array.from({ length: 20 }, () => signIn(board, 'ada', 'guess')));
  const statuses = new Set(crowd.map(({ answer }) => answer.status));
  is([...statuses].sort(), [401, 429], 'users: only a few passwords are checked at the same time');

  const ada = await signIn(board, 'ada', 'correct horse');
  is([ada.answer.status, ada.answer.headers.location], [303, '/queues'], 'users: the right password leads to the page');
  ok(ada.cookie && ada.cookie !== ada.before.cookie, 'users: the session gets a new ID');
  is((await get('/queues', ada.before.cookie)).status, 303, 'users: the ID from before is not signed in');
  const page = await get('/queues', ada.cookie);
  like(textOf(page.text), /as dash_operator.*You are ada/, 'users: the page has the role of the user, and says who it is');
  const who = { cookie: ada.cookie, token: /name="token" value="([^"]+)"/.exec(page.text)[1] };
  is((await post(board.address, '/do/pause_queue', { queue: 'emails' }, who)).status, 303, 'users: an operator can pause a queue');
  is((await post(board.address, '/do/resume_queue', { queue: 'emails' }, who)).status, 303, 'users: an operator can resume a queue');
  await becomesTrue('the log contains the user', () => /"change":"do\/pause_queue","user":"ada","role":"dash_operator"/.test(board.output.text));
  ok(/"login":"nobody","address":"[^"]+","status":401/.test(board.output.text) && /"login":"ada".*"done":"signed in"/.test(board.output.text) && !board.output.text.includes('correct horse'), 'users: the log contains each attempt to sign in, and no password', board.output.text);
  like(textOf((await get('/changes', ada.cookie)).text), /ada dash_operator do\/pause_queue .*"queue":"emails".* Queue emails is paused.*nobody login 401 wrong name or password/, 'users: the page of changes shows changes and rejected requests');
  const away = await signIn(board, 'ada', 'correct horse', {});
  is(away.answer.headers.location, '/queues', 'users: a user can sign in twice');
  const outside = await post(board.address, '/login', { name: 'ada', password: 'correct horse', back: '//evil.example' }, await session(board.address, '/login'));
  is(outside.headers.location, '/', 'users: signing in never leads to another site');

  const mo = await signIn(board, 'mo', 'correct horse');
  is([(await get('/schedules', mo.cookie)).status, (await get('/jobs', mo.cookie)).status, (await get('/jobs.json', mo.cookie)).status, (await get('/changes', mo.cookie)).status], [200, 403, 403, 403], 'users: a monitor sees no jobs, exports, or changes');
  const token = /name="token" value="([^"]+)"/.exec((await get('/schedules', mo.cookie)).text)[1];
  is((await post(board.address, '/do/pause_queue', { queue: 'emails' }, { cookie: mo.cookie, token })).status, 403, 'users: a monitor cannot pause a queue');
  is((await post(board.address, '/logout', {}, { cookie: mo.cookie, token })).status, 303, 'users: a user can sign out');
  is((await get('/schedules', mo.cookie)).status, 303, 'users: then the session is no longer signed in');

  usersFile('passwords', ['ada:dash_operator:nonsense']);
  board.child.kill('SIGHUP');
  await becomesTrue('the mistake is reported', () => /line 3 is not NAME:ROLE/.test(board.output.errors));
  is((await get('/queues', ada.cookie)).status, 200, 'users: an invalid file changes nothing');
  usersFile('passwords', [`mo:dash_monitor:${hash}`]);
  board.child.kill('SIGHUP');
  await becomesTrue('the user is gone', async () => (await get('/queues', ada.cookie)).status === 303);
  ok(true, 'users: a user who was removed is no longer signed in');
  is(await db.value("SELECT paused FROM jobq.queues WHERE queue = 'emails'"), false, 'users: the queue is as before');
  await board.stop();
}

async function proxied({ hash }) {
  const file = usersFile('proxied', [`ada:dash_operator:${hash}`, '*:dash_monitor', 'lost:no_such_role']);
  const status = async (board, path, name) => (await request(board.address, { path, headers: { ...(name && { 'x-user': name }) } })).status;
  const board = await dashboard({ args: ['--users', file, '--user-header', 'X-User', '--allow-changes'], env: { PGUSER: 'dash_board' } });
  is([await status(board, '/jobs', 'ada'), await status(board, '/jobs', 'guest'), await status(board, '/schedules', 'guest')], [200, 403, 200], 'users of a proxy: each has the privileges of the role');
  is([await status(board, '/schedules'), await status(board, '/login'), await status(board, '/health')], [403, 404, 200], 'users of a proxy: there are no pages without a user, and there is no form');
  ok([400, 403, 500].includes(await status(board, '/', 'lost')), 'users of a proxy: a role that does not exist shows nothing');
  await becomesTrue('the refusal is logged', () => /"change":"schedules".*"status":403,"error":"user \\"\\" is not in the list of users"/.test(board.output.text));
  await board.stop();
  for (const args of [['--users', file], []]) {
    const far = await dashboard({ args: [...args, '--user-header', 'X-User', '--trusted-proxy', '192.0.2.7', '--allow-changes'], env: { PGUSER: 'dash_operator' } });
    is(await status(far, '/queues', 'ada'), args.length > 0 ? 403 : 200, 'users of a proxy: only the proxy may name a user');
    if (args.length === 0) {
      const who = await session(far.address);
      await post(far.address, '/do/resume_queue', { queue: 'emails' }, { ...who, headers: { 'x-user': 'ada' } });
      await becomesTrue('the change is logged', () => /"change":"do\/resume_queue","user":null/.test(far.output.text));
    }
    await far.stop();
  }
}

export async function login({ db }) {
  await db.sql('CREATE ROLE dash_board LOGIN');
  await db.sql('GRANT dash_operator, dash_monitor TO dash_board');
  const hash = await hashOf('correct horse');
  like(hash, /^scrypt\$32768\$[\w-]{22}\$[\w-]{43}$/, 'users: --hash-password prints a hash');
  ok(await hashOf('correct horse') !== hash, 'users: each hash has a salt of its own');
  is(await hashOf('short'), 'status 2', 'users: a short password is rejected');
  for (const [name, file] of [['others can read', usersFile('open', [`ada:dash_operator:${hash}`], 0o644)], ['does not exist', `${directory}/nothing`], ['has a name twice', usersFile('twice', ['a:b', 'a:c'])]]) {
    const code = await new Promise((resolve) => { spawn(process.execPath, [program, '--users', file, '--port', '0'], { stdio: 'ignore' }).on('exit', resolve); });
    is(code, 2, `users: a file that ${name} is rejected`);
  }
  try {
    await passwords({ db, hash });
    await proxied({ hash });
  } finally {
    await db.sql('DROP ROLE dash_board');
  }
}
