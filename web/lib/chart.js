// A chart with axes. The value of each point is shown when the pointer is above it, without a script.
import { html, number, rate } from './html.js';
import { RANGES } from './history.js';

const WIDTH = 600;
const HIGH = 100;

// Returns the lowest of 1, 2, 5, 10, 20, ... that is not below the value.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((bound) => bound >= value * 0.999999);
}

export const rangeOf = (given) => (Object.hasOwn(RANGES, given.range ?? '') ? given.range : '1h');

export function rangeLinks(view, path, parameters, chosen) {
  return html`<ul class="ranges">${Object.entries(RANGES).map(([range, { label }]) =>
    html`<li><a href="${view.href(path, { ...parameters, range })}"${range === chosen ? html` aria-current="true"` : ''}>${label}</a></li>`)}</ul>`;
}

const clock = (at, range) => (range === '7d' ? at.toISOString().slice(5, 10) : at.toISOString().slice(11, 16));

function lines(points, top) {
  const found = [];
  let line = [];
  points.forEach(({ value }, i) => {
    if (value === null) {
      if (line.length > 0) found.push(line);
      line = [];
    } else line.push(`${(((i + 0.5) / points.length) * WIDTH).toFixed(1)},${(HIGH - (value / top) * HIGH).toFixed(1)}`);
  });
  if (line.length > 0) found.push(line);
  return found.map((one) => (one.length === 1 ? [one[0], one[0]] : one).join(' '));
}

// `now`: the current value, which is newer than the last point.
export function chart(name, points, { range, rates = false, now }) {
  const shown = rates ? rate : number;
  const tick = (value) => (rates ? rate(value) : value.toLocaleString('en-US', { maximumSignificantDigits: 3 }));
  const known = points.map(({ value }) => value).filter((value) => value !== null);
  const top = roundUp(Math.max(0, ...known));
  const wide = WIDTH / points.length;
  const label = known.length === 0 ? `${name}: no samples in the last ${RANGES[range].label}`
    : `${name} in the last ${RANGES[range].label}: from ${shown(Math.min(...known))} to ${shown(Math.max(...known))}, last ${shown(known.at(-1))}`;
  return html`<li class="chart"><span>${name} <b>${now}</b></span><div class="plot"><ul class="y" aria-hidden="true"><li>${tick(top)}</li><li>${tick(top / 2)}</li><li>0</li></ul>
<svg viewBox="0 0 ${WIDTH} ${HIGH}" preserveAspectRatio="none" role="img" aria-label="${label}"><path class="grid" d="M0,0H${WIDTH}M0,${HIGH / 2}H${WIDTH}M0,${HIGH}H${WIDTH}"/>${
    lines(points, top).map((line) => html`<polyline points="${line}"/>`)}${points.map(({ at, value }, i) => (value === null ? '' : html`<rect class="hit" x="${(i * wide).toFixed(1)}" width="${wide.toFixed(1)}" height="${HIGH}"><title>${
    at.toISOString().slice(0, 16).replace('T', ' ')}: ${shown(value)}</title></rect>`))}</svg>
<ul class="x" aria-hidden="true"><li>${clock(points[0].at, range)}</li><li>${clock(points[Math.floor(points.length / 2)].at, range)}</li><li>${clock(points.at(-1).at, range)}</li></ul></div></li>`;
}
