// The data of the charts and the small graphs: samples the numbers of jobq.queue_stats every few seconds, for the busiest queues and
// for all queues together, and keeps a limited number of queues and points in memory. If reading the numbers takes long, the sampler
// rests 100 times as long as the reading took. It has more time than the query of a page.
import { History } from './history.js';
import { Percentiles } from './percentiles.js';

export const POINTS = 180;
export const MAX_QUEUES = 500;
const EACH = 12;   // samples per reading of the percentiles, which takes longer
export const SERIES = ['pending', 'processing', 'failed', 'enqueued', 'claimed', 'completed', 'errors'];
export const STATUSES = ['scheduled', 'blocked', 'pending', 'processing', 'completed', 'failed', 'cancelled'];

const RATES = ['enqueued', 'claimed', 'completions', 'failures', 'losses'];

const STATS = `
SELECT s.queue, s.paused, s.source, ${STATUSES.map((status) => `s.${status}::float8`).join(', ')},
       s.enqueued_per_second AS enqueued, s.claimed_per_second AS claimed, s.completed_per_second AS completions,
       s.failed_per_second AS failures, s.lost_per_second AS losses
FROM jobq.queue_stats s`;

// Selects the busiest queues, and a row without a queue: the totals of all queues. The server calculates the totals, so that the
// size of the answer does not depend on the number of queues.
const GET_BUSIEST = `
WITH stats AS MATERIALIZED (${STATS}),
     busiest AS (SELECT NULL::float8 AS queues, s.* FROM stats s
                 ORDER BY s.pending + s.processing DESC, s.claimed DESC NULLS LAST, s.queue COLLATE "C" LIMIT ${MAX_QUEUES})
SELECT * FROM busiest
UNION ALL
SELECT count(*), NULL, NULL, max(s.source), ${STATUSES.map((status) => `coalesce(sum(s.${status}), 0)`).join(', ')},
       ${RATES.map((name) => `sum(s.${name})`).join(', ')}
FROM stats s`;

// The values for a page before the first sample.
const UNREAD = { rows: [], total: Object.fromEntries(['queues', ...STATUSES, ...RATES].map((name) => [name, null])), at: undefined, counts: true };

async function readBusiest(query) {
  const found = await query(GET_BUSIEST);
  const total = found.find((row) => row.queue === null);
  return { rows: found.filter((row) => row !== total), total, at: new Date(), counts: total.source === 'rows' };
}

function point(row) {
  return [row.pending, row.processing, row.failed, row.enqueued, row.claimed, row.completions,
    row.failures === null ? null : row.failures + row.losses];
}

export class Sampler {
  constructor(database, { sampleInterval, statementTimeout, actionTimeout, history }) {
    this.timeouts = { quick: statementTimeout, patient: Math.max(statementTimeout, actionTimeout) };
    this.database = database;
    this.interval = sampleInterval;
    this.queues = new Map();
    this.total = [];
    this.history = new History(SERIES, { database, table: history });
    this.percentiles = new Percentiles();
    this.count = 0;
    this.last = undefined;   // { rows, total, at, counts }: the busiest queues, and the totals of all queues
    // True if reading the numbers takes long or has not been tried. Then pages show the last sample instead of reading.
    this.slow = true;
    this.rest = sampleInterval;   // milliseconds until the next sample
  }

  // Starts sampling and returns after the first sample.
  async start() {
    this.stopped = false;
    await this.history.load();
    const round = async () => {
      await this.sample();
      await this.history.save();
      if (!this.stopped) this.timer = setTimeout(round, this.rest);
    };
    return round();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  async sample() {
    const began = Date.now();
    const wasSlow = this.slow;
    try {
      const rights = await this.database.rights();
      if (!rights.reads('queue_stats')) {
        this.last = undefined;
        return;
      }
      const reading = Date.now();
      this.last = await this.database.transaction('READ ONLY', wasSlow ? this.timeouts.patient : this.timeouts.quick, readBusiest);
      // With very many queues even reading the counters takes long, and a page has little time.
      this.slow = this.last.counts || (this.last.total.queues > MAX_QUEUES && Date.now() - reading > this.timeouts.quick / 4);
      this.rest = this.slow ? this.restAfter(began) : this.interval;
      this.keep(this.last);
      await this.measure(rights);
    } catch (problem) {
      // Pages report the problem themselves; the graphs only get a gap. A reading that times out counts rows, reads very many
      // queues, or waits for a lock. The next sample has a longer timeout, so it is taken soon.
      this.rest = problem.kind === 'timeout' && wasSlow ? this.restAfter(began) : this.interval;
      if (problem.kind === 'timeout') this.slow = true;
    }
  }

  async measure(rights) {
    if (this.last.counts || !rights.calls('jobq_metrics') || this.count++ % EACH !== 0) return;
    // If this fails, pages show the percentiles that are known.
    await this.database.transaction('READ ONLY', this.timeouts.patient, (query) => this.percentiles.read(query, rights.call('jobq_metrics'))).catch(() => {});
  }

  restAfter(began) {
    return Math.max(this.interval, (Date.now() - began) * 100);
  }

  keep({ rows, total }) {
    const shown = new Map(rows.map((row) => [row.queue, row]));
    for (const queue of this.queues.keys()) if (!shown.has(queue)) this.queues.delete(queue);
    for (const [queue, row] of shown) {
      const points = this.queues.get(queue) ?? [];
      this.queues.set(queue, points);
      points.push(point(row));
      if (points.length > POINTS) points.shift();
    }
    this.total.push(point(total));
    this.history.add(new Map([...shown].map(([queue, row]) => [queue, point(row)])), point(total));
    if (this.total.length > POINTS) this.total.shift();
  }

  // Returns the points of a series, oldest first, for a queue or, without a queue, for all queues together.
  series(name, queue) {
    const points = queue === undefined ? this.total : this.queues.get(queue) ?? [];
    const i = SERIES.indexOf(name);
    return points.map((values) => values[i]);
  }

  // Returns the numbers of the busiest queues and the totals of all queues: current numbers, or the last sample if reading takes
  // long.
  async stats(query) {
    return this.slow ? { ...(this.last ?? UNREAD), slow: true } : readBusiest(query);
  }

  // Returns the numbers of these queues. `some`: a queue without a row may have jobs, because the sampler keeps only the busiest
  // queues.
  async statsOf(query, queues) {
    if (this.slow) {
      const stats = await this.stats(query);
      return { ...stats, rows: stats.rows.filter((row) => queues.includes(row.queue)), some: stats.at === undefined || stats.rows.length < stats.total.queues };
    }
    const rows = await query(`${STATS} WHERE s.queue = ANY ($1)`, [queues]);
    return { rows, at: new Date(), counts: rows.some((row) => row.source === 'rows'), some: false };
  }

  seconds() {
    return (this.interval * POINTS) / 1000;
  }
}
