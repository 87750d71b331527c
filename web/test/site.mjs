// Tests the site that `make site` has built: each page and link, the navigation, the search, the tabs, light and dark, in Chromium
// at two widths. The argument is the directory of the site. SITE_PICTURES is an optional directory for screenshots.
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { Hono } from 'hono';
import { launch, open } from './browser.mjs';
import { count, is, like, ok, part } from './harness.mjs';

const TABBED = ['/index.html', '/docs/guides/jobs.html', '/docs/guides/retries.html', '/docs/guides/dependencies.html', '/docs/guides/steps.html'];
const WIDTHS = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };

// Visits the start page and all pages that links lead to, and checks these links.
async function pages({ page, complaints }, address) {
  const anchors = new Map([['/index.html', []]]);   // the anchors of each page
  const status = new Map();
  const links = [];
  const wide = [];
  for (const path of anchors.keys()) {
    await page.goto(address + path);
    for (const viewport of Object.values(WIDTHS)) {
      await page.setViewportSize(viewport);
      // The theme moves parts of the page for a moment after the width has changed.
      await page.waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth, null, { timeout: 10000 })
        .catch(() => wide.push(`${path}: ${viewport.width}`));
    }
    const { ids, targets } = await page.evaluate(() => ({
      ids: [...document.querySelectorAll('[id]')].map((one) => one.id), targets: [...document.querySelectorAll('a[href]')].map((one) => one.href) }));
    anchors.set(path, ids);
    for (const target of targets.map((href) => new URL(href)).filter((url) => url.origin === address)) {
      links.push({ path, target });
      if (!status.has(target.pathname)) status.set(target.pathname, (await fetch(address + target.pathname)).status);
      if (target.pathname.endsWith('.html') && !anchors.has(target.pathname)) anchors.set(target.pathname, []);
    }
  }
  ok(anchors.size > 100, `links lead to ${anchors.size} pages`);
  is(wide, [], 'no page is wider than the screen');
  is(complaints, [], 'the browser logs no errors');
  const broken = (test) => [...new Set(links.filter(test).map(({ path, target }) => `${path}: ${target.pathname}${target.hash}`))];
  is(broken(({ target }) => status.get(target.pathname) !== 200), [], `each of ${links.length} links leads to a file`);
  is(broken(({ target }) => target.hash && !(anchors.get(target.pathname) ?? []).includes(decodeURIComponent(target.hash.slice(1)))), [], 'each link to a section leads to a section');
}

async function navigation({ page }, address, what) {
  await page.goto(`${address}/index.html`);
  const menu = page.locator('.md-sidebar--primary');
  if (what.startsWith('narrow')) {
    is(await menu.evaluate((one) => one.getBoundingClientRect().right <= 0), true, `${what}: the menu is outside the screen`);
    await page.locator('.md-header__button[for=__drawer]').click();
    await menu.getByText('Guides', { exact: true }).first().click();
  }
  await menu.getByText('Applications', { exact: true }).first().click();
  await menu.getByRole('link', { name: 'Durable steps' }).click();
  await page.waitForURL('**/docs/guides/steps.html');
  is(await page.locator('h1').textContent(), 'Durable steps', `${what}: the menu leads to a page`);
}

async function search({ page }, address, what) {
  await page.goto(`${address}/index.html`);
  if (what.startsWith('narrow')) await page.locator('.md-header__button[for=__search]').click();
  await page.locator('.md-search__input').fill('heartbeat');
  await page.locator('.md-search-result__link').first().click();
  await page.waitForURL((url) => url.pathname !== '/index.html');
  like(await page.locator('article').textContent(), /heartbeat/i, `${what}: the search leads to a page with the word`);
}

async function tabs({ page }, address, what) {
  for (const path of TABBED) {
    await page.goto(address + path);
    const set = page.locator('.tabbed-set').first();
    is(await set.locator('.tabbed-labels label').allTextContents(), ['Python', 'Node'], `${what}: ${path}: a tab for each language`);
    const shown = () => set.locator('pre').evaluateAll((all) => all.filter((one) => one.checkVisibility()).map((one) => one.textContent.match(/^(import jobq|import \{)/)?.[0]));
    is(await shown(), ['import jobq'], `${what}: ${path}: the first tab shows Python`);
    await set.getByText('Node', { exact: true }).click();
    is(await shown(), ['import {'], `${what}: ${path}: a click shows Node`);
  }
}

async function colors({ page }, address, what) {
  await page.goto(`${address}/index.html`);
  const brightness = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).map(Number));
  is(brightness.every((one) => one > 128), what.endsWith('light'), `${what}: the background is ${what.split(' ')[1]}`);
}

async function pictures({ page }, address, what) {
  for (const path of [...TABBED, '/docs/reference/settings.html', '/docs/guides/comparison.html']) {
    await page.goto(address + path);
    await page.screenshot({ fullPage: true, path: `${process.env.SITE_PICTURES}/${path.replaceAll('/', '_')}-${what}.png` });
  }
}

const app = new Hono();
app.use('*', serveStatic({ root: process.argv[2] }));
const server = await new Promise((resolve) => { const one = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(one)); });
const address = `http://127.0.0.1:${server.address().port}`;
const browser = await launch();
await part('pages', async () => pages(await open(browser), address));
for (const [name, viewport] of Object.entries(WIDTHS)) {
  for (const colorScheme of ['light', 'dark']) {
    const what = `${name}, ${colorScheme}`;
    const opened = await open(browser, { viewport, colorScheme });
    if (process.env.SITE_PICTURES) await pictures(opened, address, what);
    await part(what, async () => {
      await colors(opened, address, what);
      await navigation(opened, address, what);
      await search(opened, address, what);
      await tabs(opened, address, what);
      is(opened.complaints, [], `${what}: the browser logs no errors`);
    });
    await opened.context.close();
  }
}
await browser.close();
server.close();
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed === 0 && count.passed > 0 ? 0 : 1);
