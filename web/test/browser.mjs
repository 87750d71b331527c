// Tests the pages in a real browser: two widths, light and dark, axe, keyboard, no JavaScript, live refresh, hostile names.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { becomesTrue, dashboard, is, like, ok } from './harness.mjs';
import { EVIL } from './seed.mjs';

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const WIDTHS = { narrow: { width: 360, height: 740 }, wide: { width: 1280, height: 800 } };
const PATIENCE = 120000;

export function launch() {
  // No sandbox, because a container offers no namespaces for it. The browser loads only our own pages.
  return chromium.launch({ executablePath: process.env.WEB_CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });
}

export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: WIDTHS.wide, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('dialog', (dialog) => { complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return { context, page, complaints };
}

export function pagesOf(ids) {
  return { overview: '/', 'overview of a week': '/?range=7d', queues: '/queues', queue: '/queue?name=emails', 'queue with dead letters': '/queue?name=payments', jobs: '/jobs', 'failed jobs': '/jobs?status=failed&error=timeout',
    job: `/job/${ids.ship}`, 'failed job': `/job/${ids.failed}`, 'dead letter': `/job/${ids.dead}`, 'job with steps': `/job/${ids.flow}`, bulk: '/bulk?action=retry&status=failed&queue=imports',
    enqueue: '/enqueue?queue=emails', schedules: '/schedules', schedule: '/schedule?name=nightly+report', 'new schedule': '/schedule', batches: '/batches', groups: '/groups', workers: '/workers', changes: '/changes', failures: '/failures', handlers: '/handlers', 'hostile queue': `/queue?name=${encodeURIComponent(EVIL)}`,
    'hostile job': `/job/${ids.evil}`, 'missing job': '/job/999999999', 'empty list': '/jobs?queue=nothing' };
}

async function looks(browser, address, ids) {
  for (const [width, viewport] of Object.entries(WIDTHS)) {
    for (const colorScheme of ['light', 'dark']) {
      const { context, page, complaints } = await open(browser, { viewport, colorScheme });
      for (const [name, path] of Object.entries(pagesOf(ids))) {
        const what = `${name}, ${width}, ${colorScheme}`;
        complaints.length = 0;
        const response = await page.goto(address + path);
        const expected = name === 'missing job' ? 404 : 200;
        is(response.status(), expected, `${what}: the status is ${expected}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        is(wide, 0, `${what}: nothing is wider than the screen`);
        if (width === 'wide') is(await page.evaluate(brokenWords), [], `${what}: no word is broken`);
        // Evaluated over the protocol, because the page's policy would block the script.
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
        is(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary?.split('\n')[1] ?? ''}`), [], `${what}: axe finds no problems`);
        is(complaints.filter((text) => !(expected === 404 && /404/.test(text))), [], `${what}: the browser logs no errors`);
        ok(await page.evaluate(() => window.xss === undefined && document.querySelector('main img, main script, [onerror]') === null), `${what}: no name has become markup`);
      }
      await context.close();
    }
  }
}

// A list of jobs has one line per job on a wide screen, and short cards on a narrow one.
async function lists(browser, address) {
  for (const [width, most] of [['wide', 40], ['narrow', 160]]) {
    const { context, page } = await open(browser, { viewport: WIDTHS[width] });
    for (const path of ['/jobs', '/jobs?status=failed', `/jobs?queue=${encodeURIComponent(EVIL)}`]) {
      await page.goto(address + path);
      const high = await page.evaluate(() => Math.max(...[...document.querySelectorAll('.lines tbody tr')].map((row) => row.getBoundingClientRect().height)));
      ok(high <= most, `${path}, ${width}: each job is at most ${most} px high`, high);
    }
    console.log(`# a page of 50 failed jobs, ${width}: ${await page.goto(`${address}/jobs?status=failed`).then(() => page.evaluate(() => document.documentElement.scrollHeight))} px high`);
    await context.close();
  }
}

async function themes(browser, address) {
  const { context, page } = await open(browser, { colorScheme: 'light' });
  await page.goto(`${address}/queues`);
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  for (const [name, dark] of [['light', false], ['dark', true]]) {
    await page.getByRole('button', { name: 'Theme' }).click();
    is([await back() !== light, await page.getByRole('button', { name: `Theme: ${name}` }).count()], [dark, 1], `theme: the button switches to ${name}`);
  }
  await page.goto(`${address}/jobs`);
  is([await back() !== light, await page.evaluate(() => document.documentElement.dataset.theme)], [true, 'dark'], 'theme: the next page has the theme');
  await page.getByRole('button', { name: 'Theme' }).click();
  is(await back(), light, 'theme: the button switches to the theme of the system');
  await context.close();
}

// Returns words of tables and buttons that are broken over two lines although they are not long.
function brokenWords() {
  const broken = [];
  for (const one of document.querySelectorAll('th, td, button, .badge')) {
    const walker = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const word of node.data.matchAll(/\S+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map((rect) => Math.round(rect.top)));
        if (word[0].length < 25 && !/[-/?]/.test(word[0]) && tops.size > 1 && !one.matches('.long')) broken.push(word[0]);
      }
    }
  }
  return broken;
}

async function hostile(browser, address, ids) {
  const { context, page } = await open(browser);
  for (const path of ['/queues', `/queue?name=${encodeURIComponent(EVIL)}`, `/job/${ids.evil}`, '/failures', '/schedules', '/batches', '/groups', '/workers', '/handlers', `/jobs?queue=${encodeURIComponent(EVIL)}`,
    `/jobs?error=${encodeURIComponent(EVIL)}&status=failed`]) {
    await page.goto(address + path);
    const [text, values] = await page.evaluate(() => [document.querySelector('main').textContent, [...document.querySelectorAll('input')].map((input) => input.value)]);
    ok(text.includes(EVIL) || values.includes(EVIL), `${path.slice(0, 40)}: the hostile name is shown unchanged`);
  }
  await page.goto(`${address}/job/${ids.evil}`);
  const shown = await page.evaluate(() => document.querySelector('[aria-label="Payload"]').textContent);
  like(shown, /<script>window\.xss=2<\/script>/, 'a hostile payload is shown as text');
  like(await page.evaluate(() => document.querySelector('.graph')?.textContent ?? ''), /<script>/, 'a hostile kind in the graph is shown as text');
  await page.goto(`${address}/job/${ids.evilFailed}`);
  ok((await page.evaluate(() => document.querySelector('[aria-label="Error"]').textContent)).includes(EVIL), 'a hostile error is shown as text');
  const details = page.locator('details', { has: page.locator('[aria-label="Stack trace"]') });
  is(await details.locator('pre').first().isVisible(), false, 'the stack trace of an attempt is collapsed');
  await details.locator('summary').click();
  is(await details.locator('pre').first().isVisible(), true, 'a click shows the stack trace');
  const texts = await details.evaluate((one) => one.textContent);
  ok(texts.startsWith('<script>window.xss=2</script>') && texts.split(EVIL).length === 2, 'hostile details are shown as text', texts);
  is(await page.evaluate(() => window.xss), undefined, 'no hostile script has run');
  await context.close();
}

async function focusOf(page) {
  return page.evaluate(() => {
    const one = document.activeElement;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    const rect = one.querySelector('rect');
    return { tag: one.tagName, text: (one.textContent || one.getAttribute('aria-label') || one.name || '').trim().slice(0, 60), body: one === document.body,
      visible: (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2) || (rect !== null && parseFloat(getComputedStyle(rect).strokeWidth) >= 4),
      inside: box.right > 0 && box.bottom > 0 && box.left < innerWidth };
  });
}

async function keyboard(browser, address, ids) {
  const { context, page } = await open(browser);
  await page.goto(address);
  await page.keyboard.press('Tab');
  const first = await focusOf(page);
  is([first.text, first.inside, first.visible], ['Skip to the content', true, true], 'keyboard: the first stop is the skip link, which becomes visible');
  await page.keyboard.press('Enter');
  is(await page.evaluate(() => document.activeElement.id), 'content', 'keyboard: the skip link leads to the content');
  for (const path of ['/', '/queues', '/queue?name=emails', '/jobs?status=failed', `/job/${ids.ship}`, `/job/${ids.failed}`, '/bulk?action=retry&status=failed&queue=imports', '/enqueue', '/schedules', '/schedule?name=nightly+report']) {
    await page.goto(address + path);
    const wanted = await page.evaluate(() => [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
      .filter((one) => one.checkVisibility()).length);
    const stops = [];
    for (let i = 0; i < wanted + 5; i += 1) {
      await page.keyboard.press('Tab');
      const stop = await focusOf(page);
      // After the last element, the focus moves to the browser itself, or back to the first element.
      if (stop.body || (i > 0 && stop.text === stops[0].text)) break;
      stops.push(stop);
    }
    ok(stops.length === wanted, `keyboard: ${path}: each of ${wanted} stops is reached`, stops.map((stop) => `${stop.tag} ${stop.text}`));
    is(stops.filter((stop) => !stop.visible || !stop.inside).map((stop) => `${stop.tag} ${stop.text}`), [], `keyboard: ${path}: the focus is visible`);
    const unlabelled = await page.evaluate(() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea')].filter((one) => one.labels.length === 0 || one.labels[0].textContent.trim() === '').length);
    is(unlabelled, 0, `keyboard: ${path}: each field has a label`);
  }
  await context.close();
}

// Sets a limit with the keyboard alone and checks the message.
async function changeByKeyboard(browser, address, { value, sql }) {
  const { context, page } = await open(browser);
  await page.goto(`${address}/queue?name=idle`);
  const press = async (text) => {
    for (let i = 0; i < 200; i += 1) {
      await page.keyboard.press('Tab');
      if ((await focusOf(page)).text.startsWith(text)) return;
    }
    throw new Error(`${text} is not reached`);
  };
  await press('Set a limit');
  await page.keyboard.press('Enter');
  for (let i = 0; i < 3; i++) await page.keyboard.press('Tab');
  await page.keyboard.type('7');
  await press('Set the limit');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[role=status] .notice.good');
  is(await value("SELECT max_running FROM jobq.limit_settings WHERE queue = 'idle'"), 7, 'keyboard: a limit can be set');
  await sql("SELECT jobq_set_limit('idle')");
  await context.close();
}

async function withoutScript(browser, address, ids, { value, sql }) {
  const { context, page, complaints } = await open(browser, { javaScriptEnabled: false });
  for (const [name, path] of Object.entries(pagesOf(ids))) {
    await page.goto(address + path);
    ok((await page.locator('h1').textContent()).length > 0 && await page.locator('nav a').count() === 10, `without JavaScript: ${name}`);
  }
  await page.goto(`${address}/jobs`);
  await page.getByLabel('Status').selectOption('failed');
  await page.getByLabel('Error contains').fill('no such product');
  await page.getByRole('button', { name: 'Search' }).click();
  is(await page.locator('tbody tr').count(), 50, 'without JavaScript: a search fills a page');
  is(await page.getByRole('link', { name: 'Next page' }).count(), 0, 'without JavaScript: fifty matches have no next page');
  await page.goto(`${address}/queue?name=backlog`);
  await page.getByRole('button', { name: 'Resume' }).click();
  like(await page.locator('[role=status]').textContent(), /is resumed/, 'without JavaScript: a queue can be resumed, and the page says so');
  is(await value("SELECT paused FROM jobq.queues WHERE queue = 'backlog'"), false, 'without JavaScript: the queue is resumed');
  await page.getByRole('button', { name: 'Pause' }).click();
  await becomesTrue('the queue is paused', () => value("SELECT paused FROM jobq.queues WHERE queue = 'backlog'"));
  const job = await value("SELECT jobq_enqueue('emails', run_at => now() + interval '1 day')");
  await page.goto(`${address}/job/${job}`);
  await page.locator('summary', { hasText: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Cancel' }).click();
  is(await value('SELECT status::text FROM jobq.jobs WHERE id = $1', [job]), 'cancelled', 'without JavaScript: a job is canceled after a confirmation');
  await sql('SELECT jobq_delete($1)', [job]);
  is(complaints.filter((text) => !/404/.test(text)), [], 'without JavaScript: the browser logs no errors');
  await context.close();
}

async function live(browser, address, { value, sql }) {
  const { context, page } = await open(browser);
  await page.goto(`${address}/queue?name=idle`);
  await page.getByRole('button', { name: 'Live: off' }).click();
  is(await page.getByRole('button', { name: 'Live: on' }).getAttribute('aria-pressed'), 'true', 'live: it is turned on');
  const job = await value("SELECT jobq_enqueue('idle')");
  await becomesTrue('the page shows the new job', async () => /1\s*pending/.test(await page.locator('.tiles').textContent()));
  ok(true, 'live: the page is updated');
  await page.locator('summary', { hasText: 'Depth' }).click();
  const rounds = await page.evaluate(() => document.querySelector('main').dataset.refreshed);
  await page.getByLabel('Maximum number of waiting jobs').fill('77');
  await sql('SELECT jobq_cancel($1)', [job]);
  await page.waitForTimeout(11000);   // two refresh intervals, because the absence of a refresh can only be observed by waiting
  is([await page.evaluate(() => document.querySelector('main').dataset.refreshed), await page.getByLabel('Maximum number of waiting jobs').inputValue()], [rounds, '77'], 'live: it pauses while the user types');
  await page.getByLabel('Maximum number of waiting jobs').fill('1000');
  await page.locator('summary', { hasText: 'Depth' }).click();
  await page.locator('h1').click();
  await becomesTrue('live: it resumes', async () => /0\s*pending/.test(await page.locator('.tiles').textContent()));
  ok(true, 'live: it has resumed');
  await context.close();
}

// A page of another site posts a form to the dashboard, in a browser that has a session.
async function elsewhere(browser, address, { value }, server) {
  const { context, page } = await open(browser);
  await page.goto(`${address}/queues`);
  const attack = await server(`<form method="post" action="${address}/do/pause_queue"><input name="queue" value="emails"><input name="token" value="guess"></form><script>document.forms[0].submit()</script>`);
  const answer = page.waitForResponse((response) => response.request().method() === 'POST');
  await page.goto(attack);
  is((await answer).status(), 403, 'a form of another site is rejected');
  is(await value("SELECT paused FROM jobq.queues WHERE queue = 'emails'"), false, 'the form of the other site changes nothing');
  const framed = await server(`<iframe src="${address}/"></iframe>`);
  await page.goto(framed);
  const inside = await page.frames()[1]?.content().catch(() => '') ?? '';
  ok(!inside.includes('<main'), 'another site cannot frame the page');
  await context.close();
}

// Lets a worker run jobs of all queues for a minute, so that the picture of the overview shows queues at work.
async function work({ sql }) {
  await sql("SELECT jobq_resume_queue('backlog')");
  await sql("DELETE FROM jobq.jobs WHERE status = 'failed' AND queue = 'imports'");
  for (let i = 0; i < 120; i += 1) {
    const count = Math.round(12 + 6 * Math.sin(i / 9));
    await sql("SELECT count(*) FROM jobq_enqueue_many($1, (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, $2::int) n), kind => 'welcome')",
      [['emails', 'orders', 'parts'][i % 3], count]);
    for (const { queue } of await sql("SELECT queue FROM jobq.queue_stats WHERE pending > 0")) {
      const jobs = await sql("SELECT id, lease FROM jobq_claim($1, 'mailer 1', batch => 100)", [queue]);
      await new Promise((resolve) => { setTimeout(resolve, 100); });
      await sql('SELECT count(*) FROM jobq_complete_many($1, $2)', [jobs.map(({ id }) => id), jobs.map(({ lease }) => lease)]);
    }
    await new Promise((resolve) => { setTimeout(resolve, 400); });
  }
}

// Starts a dashboard with the charts of a day at work.
async function dayAtWork({ sql }, env) {
  await sql('CREATE SCHEMA pictures AUTHORIZATION dash_operator');
  await sql(`CREATE TABLE pictures.history AS SELECT '24h' AS span, floor(extract(epoch FROM now()) / 600)::bigint - n AS bucket,
    jsonb_build_object('', jsonb_build_array(300 + 200 * sin(n / 15.0), 40 + 9 * sin(n / 5.0), 40, 52 + 25 * sin(n / 15.0), 52, 51 + 24 * sin((n + 2) / 15.0), 0.4 + 0.3 * sin(n / 3.0))) AS stats FROM generate_series(1, 143) n`);
  await sql('ALTER TABLE pictures.history OWNER TO dash_operator');
  return dashboard({ args: ['--history', 'pictures.history'], env });
}

async function screenshots(browser, address, ids, directory, db, env) {
  const board = await dayAtWork(db, env);
  const shots = [['job-dark', `/job/${ids.ship}`, { colorScheme: 'dark', height: 620, at: '.graph' }],
    ['failures', '/failures', { height: 420 }], ['jobs-narrow', '/jobs?status=failed&queue=emails', { viewport: WIDTHS.narrow }],
    ['timeline', `/job/${ids.flow}`, { height: 420, at: '.timeline' }], ['overview', '/?range=24h', { height: 900 }]];
  for (const [name, path, { height, at, ...options }] of shots) {
    if (name === 'overview') await work(db);
    const { context, page } = await open(browser, { viewport: { width: 1000, height: height ?? 700 }, ...options });
    await page.goto((name === 'overview' ? board.address : address) + path);
    if (at) await page.locator(at).scrollIntoViewIfNeeded();
    await page.screenshot({ path: `${directory}/${name}.png` });
    await context.close();
  }
  await board.stop();
}

export async function inBrowser({ readOnly, writable, ids, db, env, server, directory }) {
  const browser = await launch();
  try {
    console.log(`# Chromium ${browser.version()}`);
    await looks(browser, writable, ids);
    await lists(browser, writable);
    await themes(browser, writable);
    await hostile(browser, writable, ids);
    await keyboard(browser, writable, ids);
    await changeByKeyboard(browser, writable, db);
    await withoutScript(browser, writable, ids, db);
    await live(browser, writable, db);
    await elsewhere(browser, writable, db, server);
    const { context, page } = await open(browser);
    for (const [name, path] of Object.entries(pagesOf(ids))) {
      await page.goto(readOnly + path);
      is(await page.locator('form[method=post]').count(), 0, `read-only: ${name} has no button that changes anything`);
    }
    await context.close();
    if (directory) await screenshots(browser, readOnly, ids, directory, db, env);
  } finally {
    await browser.close();
  }
}
