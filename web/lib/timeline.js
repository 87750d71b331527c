// The timeline of a job: a bar for each wait, attempt, step, and child, and a mark for each log line. Needs no database.
import { badge, html, plural, span, table, time, timestamp } from './html.js';

const WIDE = 1000;
const HIGH = 16;
const MOST = 50;   // bars of each sort
const WAITS = new Set(['sleep', 'event', 'all', 'any']);

const latest = (rows) => rows.slice(-MOST);

function attemptBars(job, attempts, now) {
  const ended = attempts.filter((row) => row.started_at !== null).sort((a, b) => a.started_at - b.started_at)
    .map((row) => ({ what: `Attempt ${row.attempt}`, state: row.outcome, from: row.started_at, to: row.finished_at }));
  // The attempt that runs or has completed has no row in jobq.attempts.
  if (job.started_at !== null && (job.status === 'processing' || job.status === 'completed')) {
    ended.push({ what: `Attempt ${job.attempts}`, state: job.status, from: job.started_at, to: job.finished_at ?? now });
  }
  return latest(ended);
}

// A step starts when the step before it was saved, or with its attempt. A wait starts when it is saved, and ends
// with the next attempt.
function stepBars(steps, attempts, now) {
  let before;
  return latest(steps.map((step) => {
    const { name: what, kind, state, saved_at: saved } = step;
    const began = attempts.filter(({ from }) => from <= saved).at(-1)?.from ?? saved;
    const bar = WAITS.has(kind) ? { what, state, from: saved, to: state === 'waiting' ? now : attempts.find(({ from }) => from > saved)?.from ?? saved } : { what, state, from: before > began ? before : began, to: saved };
    before = saved;
    return { ...bar, kind: 'step' };
  }));
}

// Returns the bars in the order in which they are shown. Children: rows of jobs, at most MOST of them.
export function barsOf({ job, attempts, steps, children, lines }, now = new Date()) {
  const tries = attemptBars(job, attempts, now);
  const waited = { what: 'Wait for the first claim', kind: 'wait', from: job.created_at, to: tries[0]?.from ?? job.finished_at ?? now };
  return [waited, ...tries, ...stepBars(steps, tries, now),
    ...latest(children).map((row) => ({ what: `Child ${row.id}`, id: row.id, name: row.kind, state: row.status, kind: 'child', from: row.started_at ?? row.created_at, to: row.finished_at ?? now })),
    ...(lines.length === 0 ? [] : [{ what: plural(lines.length, 'log line'), kind: 'log', from: lines[0], to: lines.at(-1), marks: lines }])];
}

// Returns the start and the end of the axis in milliseconds. If the job waited for much longer than it ran, the axis starts shortly
// before the first claim, so that the other bars can be told apart.
export function axisOf([waited, ...others]) {
  const first = Math.min(...others.map((bar) => Number(bar.from)), Number(waited.to));
  const end = Math.max(...others.map((bar) => Number(bar.to)), Number(waited.to), Number(waited.from) + 1);
  const ran = Math.max(end - first, 1);
  return { start: others.length > 0 && first - waited.from > ran ? first - ran / 10 : Number(waited.from), end };
}

function drawing({ from, to, kind, state, marks }, { start, end }) {
  const x = (at) => Math.min(WIDE, Math.max(0, ((at - start) / (end - start)) * WIDE));
  const [left, right] = [Math.min(x(from), WIDE - 4), x(to)];
  return html`<svg class="bar ${kind} ${state}" viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="${WIDE}" height="${HIGH}"/>${marks
    ? marks.map((at) => html`<rect x="${x(at).toFixed(1)}" width="3" height="${HIGH}"/>`)
    : html`<rect x="${left.toFixed(1)}" width="${Math.max(right - left, 4).toFixed(1)}" height="${HIGH}"/>`}</svg>`;
}

export function timeline(view, given, now = new Date()) {
  const bars = barsOf(given, now);
  const axis = axisOf(bars);
  return html`<h2>Timeline</h2>${table(html`From ${timestamp(new Date(axis.start))} to ${timestamp(new Date(axis.end))} (${span((axis.end - axis.start) / 1000)})`, [
    { label: 'What', cell: (bar) => (bar.id === undefined ? bar.what : html`${view.link(bar.what, `/job/${bar.id}`)} ${bar.name}`) },
    { label: 'State', cell: (bar) => badge(bar.state) },
    { label: 'When', wide: true, cell: (bar) => drawing(bar, axis) },
    { label: 'Began', cell: (bar) => time(bar.from, now) },
    { label: 'Took', number: true, cell: (bar) => span((bar.to - bar.from) / 1000) },
  ], bars, { name: 'timeline' })}`;
}
