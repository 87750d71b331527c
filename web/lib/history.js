// The data of the charts: means of the samples over an hour, a day, and a week, for each queue that the sampler keeps and for all
// queues together. The memory per queue is fixed. A table of the database can keep the day and the week over a restart.
export const RANGES = { '1h': { label: '1 h', step: 30, points: 120 }, '24h': { label: '24 h', step: 600, points: 144 }, '7d': { label: '7 d', step: 3600, points: 168 } };
const MOST_QUEUES = 1000;
const STORED = ['24h', '7d'];
const TOTAL = '';   // the key of all queues together, because no queue has an empty name

// The means of one queue in one range. A bucket is a span of `step` seconds; its number selects its place.
class Ring {
  constructor(points, series) {
    this.points = points;
    this.series = series;
    this.buckets = new Float64Array(points).fill(-1);
    this.counts = new Uint32Array(points);
    this.values = new Float32Array(points * series).fill(NaN);
  }

  add(bucket, values) {
    const place = bucket % this.points;
    if (this.buckets[place] !== bucket) {
      this.buckets[place] = bucket;
      this.counts[place] = 0;
      this.values.fill(NaN, place * this.series, (place + 1) * this.series);
    }
    const n = (this.counts[place] += 1);
    values.forEach((value, i) => {
      const at = place * this.series + i;
      if (value !== null && value !== undefined) this.values[at] = Number.isNaN(this.values[at]) ? value : this.values[at] + (value - this.values[at]) / n;
    });
  }

  // Returns the means of a bucket, or undefined if nothing was added to it.
  of(bucket) {
    const place = bucket % this.points;
    if (this.buckets[place] !== bucket) return undefined;
    return [...this.values.subarray(place * this.series, (place + 1) * this.series)].map((value) => (Number.isNaN(value) ? null : value));
  }
}

export class History {
  constructor(series, { database, table, report = console.error, now = Date.now } = {}) {
    Object.assign(this, { series, database, table, report, now, queues: new Map(), rounds: new Map() });
  }

  bucketOf(range, at = this.now()) {
    return Math.floor(at / 1000 / RANGES[range].step);
  }

  ringsOf(queue) {
    if (!this.queues.has(queue)) this.queues.set(queue, new Map(Object.entries(RANGES).map(([range, { points }]) => [range, new Ring(points, this.series.length)])));
    return this.queues.get(queue);
  }

  // Adds a sample: the values of each queue, and the totals. Forgets queues that are no longer sampled, if they have no points left or
  // there are too many queues.
  add(points, total) {
    for (const [queue, values] of [...points, [TOTAL, total]]) {
      for (const [range, ring] of this.ringsOf(queue)) ring.add(this.bucketOf(range), values);
    }
    for (const [queue, rings] of this.queues) {
      if (points.has(queue) || queue === TOTAL) continue;
      if (this.queues.size > MOST_QUEUES || this.bucketOf('7d') - Math.max(...rings.get('7d').buckets) >= RANGES['7d'].points) this.queues.delete(queue);
    }
  }

  // Returns the points of a chart, oldest first: { at, value }, with null for a missing value.
  points(range, name, queue = TOTAL) {
    const { step, points } = RANGES[range];
    const ring = this.queues.get(queue)?.get(range);
    const last = this.bucketOf(range);
    const i = this.series.indexOf(name);
    return Array.from({ length: points }, (_, n) => {
      const bucket = last - points + 1 + n;
      return { at: new Date(bucket * step * 1000), value: ring?.of(bucket)?.[i] ?? null };
    });
  }

  // Writes the buckets that have ended since the last call to the table.
  async save() {
    if (this.table === undefined) return;
    for (const range of STORED) {
      const bucket = this.bucketOf(range) - 1;
      if (this.rounds.get(range) === bucket) continue;
      this.rounds.set(range, bucket);
      const stats = Object.fromEntries([...this.queues].map(([queue, rings]) => [queue, rings.get(range).of(bucket)]).filter(([, values]) => values !== undefined));
      if (Object.keys(stats).length === 0) continue;
      await this.inTable(async (query) => {
        await query(`INSERT INTO ${this.table} (span, bucket, stats) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, [range, bucket, JSON.stringify(stats)]);
        await query(`DELETE FROM ${this.table} WHERE span = $1 AND bucket <= $2`, [range, bucket - RANGES[range].points]);
      });
    }
  }

  // Reads the table after a start.
  async load() {
    if (this.table === undefined) return;
    await this.inTable(async (query) => {
      for (const range of STORED) {
        this.rounds.set(range, this.bucketOf(range) - 1);
        for (const { bucket, stats } of await query(`SELECT h.bucket::float8, h.stats FROM ${this.table} h WHERE h.span = $1 AND h.bucket > $2 ORDER BY h.bucket LIMIT $3`,
          [range, this.bucketOf(range) - RANGES[range].points, RANGES[range].points])) {
          for (const [queue, values] of Object.entries(stats)) this.ringsOf(queue).get(range).add(bucket, values);
        }
      }
    });
  }

  // A problem with the table must not end the dashboard, which then only forgets the charts when it stops.
  async inTable(work) {
    try {
      await this.database.transaction('READ WRITE', this.database.options.actionTimeout, work);
    } catch (problem) {
      this.report(`jobq-web: --history: ${problem.message}`);
    }
  }
}
