// Tests what each role sees and may change, and what the pages say about the rest.
import { dashboard, is, like, ok, post, request, session, textOf } from './harness.mjs';

export async function rights({ db, ids, ofRole }) {
  const { value } = db;
  const page = async (board, path) => {
    const answer = await request(board.address, { path });
    return { status: answer.status, text: textOf(answer.text), html: answer.text };
  };

  const monitor = await dashboard({ args: ['--allow-changes'], env: ofRole('dash_monitor') });
  for (const path of ['/', '/queues', '/queue?name=emails', '/schedules', '/batches', '/groups', '/workers', '/failures', '/handlers']) {
    const { status, html } = await page(monitor, path);
    is([status, /method="post"/.test(html)], [200, false], `a monitor sees ${path} without buttons`);
  }
  is((await page(monitor, '/changes')).status, 403, 'a monitor does not see the changes');
  const list = await page(monitor, '/jobs');
  is(list.status, 403, 'a monitor sees no list of jobs');
  like(list.text, /role "dash_monitor" may not read jobq\.jobs.*SELECT jobq_grant\('dash_monitor', 'operator'\)/, 'a monitor is told which privilege is missing and how to grant it');
  const job = await page(monitor, `/job/${ids.failed}`);
  ok(job.status === 200 && /attempt failed/.test(job.text) && /mailbox 4711/.test(job.text) && !/bob@example/.test(job.text), 'a monitor sees the history of a job, but not its payload', job.text);
  like(job.text, /MailboxFull.*at send \(mail\.js:7\).*"host": "mail-1"/s, 'a monitor sees the details of an error');
  like(job.text, /earlier events are not shown.*log debug.*part 210.*log error.*no more room.*attempt failed/s, 'a monitor sees the latest log lines of a job before its failure');
  ok(!/part 1\b/.test(job.text), 'the oldest log lines are omitted', job.text);
  is((await page(monitor, '/job/999999999')).status, 404, 'a monitor gets 404 for a job that does not exist');
  like((await page(monitor, '/workers')).text, /may not read jobq\.jobs/, 'a monitor is told that workers are not shown');
  like((await page(monitor, '/workers')).text, /cashier-1.*idle.*payments.*mailer-2.*busy.*1 of 2.*emails.*welcome.*news.*jobq-test 1\.0\.0|mailer-2.*busy.*1 of 2.*emails.*welcome.*news.*jobq-test 1\.0\.0.*cashier-1.*idle/s, 'a monitor sees the connected workers');
  const enqueue = await page(monitor, '/enqueue');
  is(enqueue.status, 403, 'a monitor cannot enqueue a job');
  like(enqueue.text, /may not call jobq_enqueue.*SELECT jobq_grant\('dash_monitor', 'producer'\)/, 'a monitor is told which profile enqueues jobs');
  // The role's pages have no form from which to take a token, so the test sends an invalid token.
  is((await post(monitor.address, '/do/pause_queue', { queue: 'emails' }, { ...await session(monitor.address), token: 'x' })).status, 403, 'a monitor cannot change anything');
  await monitor.stop();

  const some = await dashboard({ args: ['--allow-changes'], env: ofRole('dash_some') });
  const queues = await page(some, '/queues');
  ok(queues.status === 200 && /emails/.test(queues.text) && !/payments/.test(queues.text), 'an operator of some queues sees only these', queues.text);
  ok((await page(some, '/')).status === 200, 'the first page of an operator of some queues shows its queues');
  const crew = await page(some, '/workers');
  ok(/mailer-2/.test(crew.text) && !/cashier-1/.test(crew.text), 'an operator of some queues sees only the workers of these', crew.text);
  is([(await page(some, '/jobs.csv')).status, (await page(some, '/jobs.json?queue=emails')).status], [403, 403], 'an operator of some queues cannot export jobs');
  is((await page(some, '/jobs')).status, 403, 'an operator of some queues has no list of all jobs');
  const own = await page(some, `/job/${ids.failed}`);
  ok(own.status === 200 && /bob@example/.test(own.text), 'an operator of some queues sees jobs of its queues', own.text);
  is((await page(some, `/job/${ids.dead}`)).status, 404, 'an operator of some queues gets 404 for other jobs');
  is((await page(some, '/queue?name=payments')).status, 404, 'an operator of some queues gets 404 for other queues');
  const who = await session(some.address, '/queue?name=emails');
  is((await post(some.address, '/do/pause_queue', { queue: 'emails' }, who)).status, 303, 'an operator of some queues can pause its queue');
  is(await value("SELECT paused FROM jobq.queues WHERE queue = 'emails'"), true, 'its queue is paused');
  is((await post(some.address, '/do/resume_queue', { queue: 'emails' }, who)).status, 303, 'an operator of some queues can resume its queue');
  const foreign = await post(some.address, '/do/pause_queue', { queue: 'payments' }, who);
  is([foreign.status, await value("SELECT paused FROM jobq.queues WHERE queue = 'payments'")], [403, false], 'an operator of some queues cannot pause another queue');
  like(textOf(foreign.text), /permission denied for queue "payments"/, 'the page says why the queue cannot be paused');
  await some.stop();

  const nobody = await dashboard({ env: ofRole('dash_nobody') });
  for (const path of ['/', '/queues', '/jobs', `/job/${ids.failed}`, '/failures', '/schedules', '/batches', '/groups', '/handlers']) {
    const { status, text } = await page(nobody, path);
    is(status, 403, `a role without privileges does not see ${path}`);
    ok(/A privilege is missing/.test(text) && !/bob@example|mailbox/.test(text), `a role without privileges is told so on ${path}`, text);
  }
  await nobody.stop();
}
