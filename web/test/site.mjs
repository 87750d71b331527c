// Tests the site that `make site` has built: each page and link, the navigation, the search, the tabs, light and dark, in Chromium
// at two widths. The argument is the directory of the site. SITE_PICTURES is an optional directory for screenshots.
import { statSync } from 'node:fs';
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { Hono } from 'hono';
import { launch, open } from './browser.mjs';
import { becomesTrue, count, is, like, ok, part } from './harness.mjs';

const TABBED = ['/index.html', '/docs/guides/jobs.html', '/docs/guides/retries.html', '/docs/guides/dependencies.html', '/docs/guides/steps.html'];
const TABLES = ['/docs/reference/settings.html', '/docs/guides/comparison.html'];
const WIDTHS = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };
const root = process.argv[2];
const PARSED = { waitUntil: 'domcontentloaded' };   // The event "load" also waits for pictures.

// Runs in the browser. Shows the start page and all pages that links lead to, and returns their anchors and links. Only the bodies of
// the pages are replaced, because it takes much longer to load each page with its scripts and the index of the search.
async function crawl() {
  const anchors = new Map([['/index.html', []]]);   // the anchors of each page
  const [links, wide] = [[], []];
  const icon = document.querySelector('link[rel=icon]');
  icon.href = icon.href;   // an absolute address, because the base changes
  const base = document.head.appendChild(document.createElement('base'));
  for (const path of anchors.keys()) {
    const { body } = new DOMParser().parseFromString(await (await fetch(path)).text(), 'text/html');
    base.href = path;
    document.body.replaceWith(body);
    if (document.documentElement.scrollWidth > document.documentElement.clientWidth) wide.push(path);
    anchors.set(path, [...document.querySelectorAll('[id]')].map((one) => one.id));
    for (const one of document.body.querySelectorAll('a[href], img[src]')) {
      const { origin, pathname, hash } = new URL(one.href ?? one.src);
      if (origin === location.origin) links.push({ path, pathname, hash: decodeURIComponent(hash.slice(1)) });
      if (origin === location.origin && pathname.endsWith('.html') && !anchors.has(pathname)) anchors.set(pathname, []);
    }
  }
  return { anchors: Object.fromEntries(anchors), links, wide };
}

async function pages(page, what) {
  await page.goto('/index.html', PARSED);
  const { anchors, links, wide } = await page.evaluate(crawl);
  ok(Object.keys(anchors).length > 100, `${what}: links lead to ${Object.keys(anchors).length} pages`);
  is(wide, [], `${what}: no page is wider than the screen`);
  const broken = (test) => [...new Set(links.filter(test).map(({ path, pathname, hash }) => `${path}: ${pathname}#${hash}`))];
  is(broken(({ pathname }) => !statSync(root + decodeURIComponent(pathname), { throwIfNoEntry: false })?.isFile()), [], `${what}: each of ${links.length} links leads to a file`);
  is(broken(({ pathname, hash }) => hash && !anchors[pathname]?.includes(hash)), [], `${what}: each link to a section leads to a section`);
}

async function navigation(page, what) {
  await page.goto('/index.html', PARSED);
  const menu = page.locator('.md-sidebar--primary');
  if (what === 'narrow') {
    is(await menu.evaluate((one) => one.getBoundingClientRect().right <= 0), true, `${what}: the menu is outside the screen`);
    await page.locator('.md-header__button[for=__drawer]').click();
    await menu.getByText('Guides', { exact: true }).first().click();
  }
  await menu.getByText('Applications', { exact: true }).first().click();
  await menu.getByRole('link', { name: 'Durable steps' }).click();
  await page.waitForURL('**/docs/guides/steps.html', PARSED);
  is(await page.locator('h1').textContent(), 'Durable steps', `${what}: the menu leads to a page`);
}

async function search(page, what) {
  await page.goto('/index.html', PARSED);
  if (what === 'narrow') await page.locator('.md-header__button[for=__search]').click();
  await page.locator('.md-search__input').fill('heartbea');
  await page.keyboard.press('t');   // because the theme searches when a key is released
  if (!like(await page.locator('.md-search-result__meta').getByText('matching document').textContent(), /\d+ matching/, `${what}: the search finds pages`)) return;
  await page.locator('.md-search-result__link').first().click();
  await page.waitForURL((url) => url.pathname !== '/index.html', PARSED);
  like(await page.locator('article').textContent(), /heartbeat/i, `${what}: the search leads to a page with the word`);
}

// Tests pages with the scripts of the theme, which put wide tables into boxes that scroll.
async function tabs(page, what) {
  for (const path of [...TABBED, ...TABLES]) {
    await page.goto(path, PARSED);
    await becomesTrue(`${path} fits`, () => page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
    if (TABLES.includes(path)) continue;
    const set = page.locator('.tabbed-set').first();
    if (!is(await set.locator('.tabbed-labels label').allTextContents(), ['Python', 'Node'], `${what}: ${path}: a tab for each language`)) continue;
    const shown = () => set.locator('pre').evaluateAll((all) => all.filter((one) => one.checkVisibility()).map((one) => one.textContent.match(/^(import jobq|import \{)/)?.[0]));
    is(await shown(), ['import jobq'], `${what}: ${path}: the first tab shows Python`);
    await set.getByText('Node', { exact: true }).click();
    is(await shown(), ['import {'], `${what}: ${path}: a click shows Node`);
  }
}

async function colors(page, what) {
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(() => localStorage.clear());   // because the theme keeps the color scheme of the first visit
    await page.goto('/index.html', PARSED);
    const light = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every((one) => one > 128));
    ok(await becomesTrue(`a ${colorScheme} background`, async () => await light() === (colorScheme === 'light')), `${what}: the background is ${colorScheme}`);
    for (const path of process.env.SITE_PICTURES ? [...TABBED, ...TABLES] : []) {
      await page.goto(path);
      await page.screenshot({ fullPage: true, path: `${process.env.SITE_PICTURES}/${path.replaceAll('/', '_')}-${what}, ${colorScheme}.png` });
    }
  }
}

const app = new Hono();
app.use('*', serveStatic({ root }));
const server = await new Promise((resolve) => { const one = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(one)); });
const browser = await launch();
const { page, complaints } = await open(browser, { baseURL: `http://127.0.0.1:${server.address().port}` });
for (const [what, viewport] of Object.entries(WIDTHS)) {
  await page.setViewportSize(viewport);
  for (const test of [pages, colors, navigation, search, tabs]) await part(`${what}: ${test.name}`, () => test(page, what));
  is(complaints.splice(0), [], `${what}: the browser logs no errors`);
}
await browser.close();
server.close();
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed === 0 && count.passed > 0 ? 0 : 1);
