// Percentiles of how long jobs wait and run, for each queue and kind, from the histograms of jobq_metrics. Because the histograms
// begin at the start of the server, the dashboard keeps their values of the last hour and subtracts the oldest ones.
const KEPT = 60;
export const PERCENTS = [50, 95, 99];

const GET_HISTOGRAMS = (call) => `
SELECT m.labels ->> 'queue' AS queue, coalesce(m.labels ->> 'kind', '') AS kind, m.name = 'jobq_job_run_seconds_bucket' AS runs,
       array_agg((m.labels ->> 'le')::float8 ORDER BY (m.labels ->> 'le')::float8) AS bounds, array_agg(m.value ORDER BY (m.labels ->> 'le')::float8) AS counts
FROM ${call}() m WHERE m.name IN ('jobq_job_wait_seconds_bucket', 'jobq_job_run_seconds_bucket') AND m.labels ? 'queue'
GROUP BY 1, 2, 3`;

// Returns the upper bounds, in seconds, of the buckets that contain the percentiles. Counts: how many values are below each bound.
export function percentilesOf(bounds, counts) {
  const all = counts.at(-1);
  if (!(all > 0)) return undefined;
  return { count: all, values: PERCENTS.map((percent) => bounds[counts.findIndex((count) => count >= (all * percent) / 100)]) };
}

export class Percentiles {
  constructor() {
    this.kept = [];   // { at, queues }, oldest first
  }

  async read(query, call) {
    const queues = new Map();
    for (const { queue, kind, runs, bounds, counts } of await query(GET_HISTOGRAMS(call))) {
      if (!queues.has(queue)) queues.set(queue, new Map());
      const kinds = queues.get(queue);
      kinds.set(kind, { ...kinds.get(kind), [runs ? 'runs' : 'waits']: Float64Array.from(counts) });
      this.bounds = bounds;   // the same for all histograms
    }
    this.kept.push({ at: new Date(), queues });
    if (this.kept.length > KEPT) this.kept.shift();
  }

  // Returns { since, rows } for a queue: one row per kind, busiest first. Without older values, the rows describe all jobs since the
  // histograms were reset, and `since` is undefined.
  of(queue) {
    const [oldest, latest] = [this.kept.length > 1 ? this.kept[0] : undefined, this.kept.at(-1)];
    const difference = (kind, span) => {
      const now = latest.queues.get(queue).get(kind)[span];
      if (now === undefined) return undefined;
      const before = oldest?.queues.get(queue)?.get(kind)?.[span];
      // After a reset, the counts are lower than before.
      const valid = before !== undefined && before.at(-1) <= now.at(-1);
      return percentilesOf(this.bounds, [...now].map((count, i) => count - (valid ? before[i] : 0)));
    };
    const rows = [...(latest?.queues.get(queue)?.keys() ?? [])].map((kind) => ({ kind, waits: difference(kind, 'waits'), runs: difference(kind, 'runs') }));
    return { since: oldest?.at, rows: rows.filter((row) => row.waits || row.runs).sort((a, b) => (b.waits?.count ?? 0) - (a.waits?.count ?? 0)) };
  }
}
