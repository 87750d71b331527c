// A small graph without axes that shows the last minutes, with its numbers as text for screen readers.
import { html, number, rate, span } from './html.js';
import { POINTS } from './sampler.js';

const WIDTH = 120;
const HEIGHT = 28;

// Returns lines through the points, oldest at the left and newest at the right edge. Missing points leave a gap.
export function polylines(points, most) {
  const lines = [];
  let line = [];
  const first = POINTS - points.length;
  points.forEach((value, i) => {
    if (value === null || value === undefined) {
      if (line.length > 0) lines.push(line);
      line = [];
      return;
    }
    const x = ((first + i) / (POINTS - 1)) * WIDTH;
    const y = HEIGHT - 2 - (most > 0 ? value / most : 0) * (HEIGHT - 4);
    line.push(`${x.toFixed(1)},${y.toFixed(1)}`);
  });
  if (line.length > 0) lines.push(line);
  return lines.map((one) => (one.length === 1 ? [one[0], one[0]] : one).join(' '));
}

export function sparkline(name, points, { rates = false, seconds }) {
  const known = points.filter((value) => value !== null && value !== undefined);
  if (known.length === 0) return html`<span class="spark empty">no samples</span>`;
  const shown = rates ? rate : number;
  const most = Math.max(...known);
  const label = `${name} in the last ${span(seconds)}: from ${shown(Math.min(...known))} to ${shown(most)}, now ${shown(known.at(-1))}`;
  return html`<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}" preserveAspectRatio="none"><title>${label}</title>${
    polylines(points, most).map((line) => html`<polyline points="${line}"/>`)}</svg>`;
}
