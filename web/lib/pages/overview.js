// The first page: how many jobs wait and run, at which rates, and what needs attention.
import { badge, definitions, html, notice, number, plural, rate, span, table, time } from '../html.js';
import { chart, rangeLinks, rangeOf } from '../chart.js';
import { sparkline } from '../sparkline.js';
import { STATUSES } from '../sampler.js';
import { groupsOf, groupTable } from './failures.js';
import { haltedGroups } from './groups.js';
import { agesOf, countsNotice, queuesPage, reasonsOf, searchForm } from './queues.js';

const LATE = 60;   // seconds after which a claimable job that has not started needs attention
const BUSIEST = 10;
const EXPLAINED = 10;   // maximum number of late queues whose reasons are looked up
const HALTED = 10;

export async function alarms(view, query, rows, ages) {
  const found = [];
  const { rights } = view;
  const late = rows.filter((row) => !row.paused && ages.get(row.queue) > LATE).sort((a, b) => ages.get(b.queue) - ages.get(a.queue));
  const reasons = await reasonsOf(view, query, late.slice(0, EXPLAINED).map((row) => row.queue));
  for (const row of rows) {
    if (row.paused && row.pending > 0) found.push(html`Queue ${view.queue(row.queue)} is paused with ${plural(row.pending, 'pending job')}.`);
  }
  if (rights.reads('jobs')) {
    const halted = await haltedGroups(view, query, { scan: 1000, limit: HALTED + 1 });
    if (halted.length > 0) found.push(html`${view.link(halted.length > HALTED ? `More than ${HALTED} groups are halted` : `${plural(halted.length, 'group')} ${halted.length === 1 ? 'is' : 'are'} halted`, '/groups')}.`);
  }
  for (const row of late) {
    const why = reasons.get(row.queue);
    found.push(html`Queue ${view.queue(row.queue)}: its oldest claimable job has been due for ${span(ages.get(row.queue))}${why ? html`: ${badge(why.reason)} ${why.detail}` : '.'}`);
  }
  if (rights.reads('schedules')) {
    for (const row of await query('SELECT name, error FROM jobq.schedules WHERE error IS NOT NULL ORDER BY name LIMIT 10')) {
      found.push(html`Schedule ${view.link(row.name, '/schedules')}: ${row.error}`);
    }
  }
  if (rights.reads('handlers')) {
    for (const row of await query("SELECT queue, kind, reason FROM jobq.handlers WHERE state = 'broken' ORDER BY queue, kind LIMIT 10")) {
      found.push(html`Handler of ${view.queue(row.queue)} ${row.kind}: ${view.link('broken', '/handlers')}, ${row.reason}`);
    }
  }
  return found;
}

async function worker(query) {
  const [row] = await query(`SELECT state, last_round, next_round, last_error, last_error_at, last_error_over_at, note
    FROM jobq.background_workers WHERE database = current_database()`);
  return row;
}

function workerPart(row) {
  if (!row) return notice('warn', 'No background worker serves this database: is jobq preloaded?');
  const failing = row.last_error !== null && row.last_error_over_at === null;
  return html`<p>Background worker: ${badge(failing ? 'failed' : 'idle', row.state)} last round ${time(row.last_round) || 'never'}. ${row.note ?? ''}</p>
${failing ? notice('bad', html`Its last error, ${time(row.last_error_at)}: ${row.last_error}`) : ''}`;
}

export async function overviewPage(view, query, given, { sampler }) {
  const { rights } = view;
  if (!rights.reads('queue_stats')) return queuesPage(view, query, given, { sampler });
  const stats = await sampler.stats(query);
  const { rows, total: sum } = stats;
  // Looking up an age reads an index, so this page looks up the ages of at most 50 queues.
  const ages = await agesOf(query, rows.filter((row) => row.pending > 0).sort((a, b) => b.pending - a.pending).slice(0, 50));
  const found = await alarms(view, query, rows, ages);
  const seconds = sampler.seconds();
  const range = rangeOf(given);
  const rates = [['Enqueued', sum.enqueued, 'enqueued'], ['Claimed', sum.claimed, 'claimed'], ['Completed', sum.completions, 'completed'],
    ['Failed or lost', sum.failures === null ? null : sum.failures + sum.losses, 'errors']];
  const busiest = [...rows].sort((a, b) => b.pending + b.processing - a.pending - a.processing || (b.claimed ?? 0) - (a.claimed ?? 0)).slice(0, BUSIEST);
  return view.page('Overview', html`
${countsNotice(stats)}
<ul class="tiles">${STATUSES.map((status) => html`<li><a href="${view.href('/jobs', { status })}"><b>${number(sum[status])}</b> ${badge(status)}</a></li>`)}</ul>
${rows.length < sum.queues ? html`<p>This page shows the ${number(rows.length)} busiest of ${number(sum.queues)} queues. The totals include all queues.</p>` : ''}
<h2>Needs attention</h2>
${found.length === 0 ? stats.at && html`<p class="empty">Nothing: no queue is late, or paused with pending jobs, and no schedule or handler is broken.</p>`
    : html`<ul class="alarms">${found.slice(0, 20).map((line) => html`<li>${line}</li>`)}</ul>`}
${rights.reads('background_workers') ? workerPart(await worker(query)) : ''}
<h2>All queues over time</h2>${rangeLinks(view, '/', {}, range)}
<ul class="graphs">${chart('Pending', sampler.history.points(range, 'pending'), { range, now: number(sum.pending) })}
${chart('Running', sampler.history.points(range, 'processing'), { range, now: number(sum.processing) })}
${rates.map(([label, value, name]) => chart(label, sampler.history.points(range, name), { range, rates: true, now: rate(value) }))}</ul>
<h2>Busiest queues</h2>
${sum.queues > BUSIEST ? searchForm(view) : ''}
${table('Queues with the most waiting or running jobs', [
    { label: 'Queue', cell: (row) => html`${view.queue(row.queue)} ${row.paused ? badge('paused') : ''}` },
    { label: 'Pending', number: true, cell: (row) => number(row.pending) },
    { label: 'Running', number: true, cell: (row) => number(row.processing) },
    { label: 'Oldest', number: true, cell: (row) => span(ages.get(row.queue)) },
    { label: 'Completed', number: true, cell: (row) => rate(row.completions) },
    { label: 'Pending before', cell: (row) => sparkline(`Pending in ${row.queue}`, sampler.series('pending', row.queue), { seconds }) },
  ], busiest, { empty: sum.queues === null ? '' : 'There is no queue yet: SELECT jobq_enqueue(...) makes one.' })}
${rights.reads('attempts') ? html`<h2>Latest failures</h2>${groupTable(view, (await groupsOf(view, query, { scan: 1000 })).groups.slice(0, 5))}
${view.more('/failures', {}, 'All failures')}` : ''}
${definitions([['Queues', number(sum.queues)]])}`, { live: true });
}
