// What the small graphs show: the numbers of jobq.queue_stats every few seconds, in the memory of this process. Bounded in
// queues and points. Where the numbers come from counting rows it rests a hundred times as long as that took, and may take longer
// than a query of a page.
export const POINTS = 180;
export const MAX_QUEUES = 500;
export const SERIES = ['pending', 'processing', 'failed', 'enqueued', 'claimed', 'completed', 'errors'];
export const STATUSES = ['scheduled', 'blocked', 'pending', 'processing', 'completed', 'failed', 'cancelled'];

export const GET_STATS = `
SELECT s.queue, s.paused, s.source, ${STATUSES.map((status) => `s.${status}::float8`).join(', ')},
       s.enqueued_per_second AS enqueued, s.claimed_per_second AS claimed, s.completed_per_second AS completions,
       s.failed_per_second AS failures, s.lost_per_second AS losses
FROM jobq.queue_stats s`;

function point(row) {
  return [row.pending, row.processing, row.failed, row.enqueued, row.claimed, row.completions,
    row.failures === null ? null : row.failures + row.losses];
}

export class Sampler {
  constructor(database, { sampleInterval, statementTimeout, actionTimeout }) {
    this.timeouts = { quick: statementTimeout, patient: Math.max(statementTimeout, actionTimeout) };
    this.database = database;
    this.interval = sampleInterval;
    this.queues = new Map();
    this.total = [];
    this.counts = false;
    this.last = undefined;   // { rows, at, counts }
  }

  start() {
    this.stopped = false;
    const round = async () => {
      const began = Date.now();
      await this.sample();
      const took = Date.now() - began;
      if (this.stopped) return;
      this.timer = setTimeout(round, this.counts ? Math.max(this.interval, took * 100) : this.interval);
    };
    round();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  async sample() {
    try {
      const rights = await this.database.rights();
      if (!rights.reads('queue_stats')) {
        this.last = undefined;
        return;
      }
      const timeout = this.counts ? this.timeouts.patient : this.timeouts.quick;
      const rows = await this.database.transaction('READ ONLY', timeout, (query) => query(`${GET_STATS} ORDER BY s.queue`));
      this.counts = rows.some((row) => row.source === 'rows');
      this.last = { rows, at: new Date(), counts: this.counts };
      this.keep(rows);
    } catch (problem) {
      // The pages tell of it by themselves; what is left is a gap in the graphs. What takes so long counts rows, or waits for a lock:
      // pages leave it to the sampler.
      if (problem.kind === 'timeout') this.counts = true;
    }
  }

  keep(rows) {
    const seen = new Set();
    const total = SERIES.map(() => null);
    for (const row of rows) {
      const values = point(row);
      values.forEach((value, i) => { if (value !== null) total[i] = (total[i] ?? 0) + value; });
      seen.add(row.queue);
      let points = this.queues.get(row.queue);
      if (!points) {
        if (this.queues.size >= MAX_QUEUES) continue;
        points = [];
        this.queues.set(row.queue, points);
      }
      points.push(values);
      if (points.length > POINTS) points.shift();
    }
    for (const queue of this.queues.keys()) if (!seen.has(queue)) this.queues.delete(queue);
    this.total.push(total);
    if (this.total.length > POINTS) this.total.shift();
  }

  // The points of a series, oldest first; of all queues together without a queue.
  series(name, queue) {
    const points = queue === undefined ? this.total : this.queues.get(queue) ?? [];
    const i = SERIES.indexOf(name);
    return points.map((values) => values[i]);
  }

  // The numbers of all queues: fresh ones, unless they come from counting rows.
  async stats(query) {
    if (this.last?.counts) return this.last;
    if (!this.last && this.counts) return { rows: [], at: undefined, counts: true };
    const rows = await query(`${GET_STATS} ORDER BY s.queue`);
    return { rows, at: new Date(), counts: rows.some((row) => row.source === 'rows') };
  }

  seconds() {
    return (this.interval * POINTS) / 1000;
  }
}
