// The dependency graph of a job: arranges the output of jobq_dot in layers, and draws it. Needs no database.
import { html } from './html.js';

const NODE = /^  (-?\d+) \[label="((?:[^"\\]|\\.)*)"\];$/;
const EDGE = /^  (-?\d+) -> (-?\d+);$/;
const CUT = /^  label="((?:[^"\\]|\\.)*)";$/;
const WIDE = 150;
const HIGH = 52;
const GAP_X = 50;
const GAP_Y = 16;

const unescape = (text) => text.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character));

export function parseDot(dot) {
  const nodes = new Map();
  const edges = [];
  let cut;
  for (const line of dot.split('\n')) {
    let match;
    if ((match = NODE.exec(line))) nodes.set(match[1], unescape(match[2]).split('\n'));
    else if ((match = EDGE.exec(line))) edges.push([match[1], match[2]]);
    else if ((match = CUT.exec(line))) cut = unescape(match[1]);
  }
  return { nodes, edges: edges.filter(([from, to]) => nodes.has(from) && nodes.has(to)), cut };
}

// Puts each job one column to the right of its rightmost dependency. An edge always leads from a lower to a higher ID, so the
// order of IDs is also an order of dependencies.
export function layout({ nodes, edges }) {
  const ids = [...nodes.keys()].sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1));
  const before = new Map(ids.map((id) => [id, []]));
  for (const [from, to] of edges) before.get(to).push(from);
  const column = new Map();
  for (const id of ids) column.set(id, Math.max(0, ...before.get(id).map((from) => (column.get(from) ?? 0) + 1)));
  const rows = [];
  const places = new Map();
  for (const id of ids) {
    const x = column.get(id);
    rows[x] = (rows[x] ?? 0) + 1;
    places.set(id, { x: x * (WIDE + GAP_X), y: (rows[x] - 1) * (HIGH + GAP_Y) });
  }
  const columns = Math.max(...column.values()) + 1;
  return { places, width: columns * (WIDE + GAP_X) - GAP_X, height: Math.max(...rows) * (HIGH + GAP_Y) - GAP_Y };
}

const cutText = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}\u2026` : text);

export function graph(view, dot, own) {
  const parsed = parseDot(dot);
  if (parsed.nodes.size < 2) return '';
  const { places, width, height } = layout(parsed);
  const describe = ([id, label]) => `job ${id}, ${label.slice(1).filter((line) => line !== '').join(', ')}`;
  return html`<figure class="graph"><div class="scroll" tabindex="0" role="region" aria-label="Dependency graph">
<svg width="${width + 8}" height="${height + 8}" viewBox="-4 -4 ${width + 8} ${height + 8}" aria-label="Dependencies" role="group">
${parsed.edges.map(([from, to]) => {
    const a = places.get(from);
    const b = places.get(to);
    const [x1, y1, x2, y2] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
    return html`<path class="edge" d="M${x1},${y1} C${x1 + GAP_X / 2},${y1} ${x2 - GAP_X / 2},${y2} ${x2},${y2}"/><path class="head" d="M${x2},${y2} l-7,-4 v8 z"/>`;
  })}
${[...parsed.nodes].map(([id, label]) => {
    const { x, y } = places.get(id);
    const status = label.at(-1);
    return html`<a href="${view.href(`/job/${id}`)}"${id === own ? html` aria-current="true"` : ''}><g transform="translate(${x},${y})" class="node ${status}${id === own ? ' own' : ''}"><title>${describe([id, label])}</title>
<rect width="${WIDE}" height="${HIGH}" rx="6"/><text x="10" y="18">${cutText(`${id} ${label.length > 2 ? label[1] : ''}`, 20)}</text><text x="10" y="38" class="status">${cutText(status, 20)}</text></g></a>`;
  })}
</svg></div><figcaption>${parsed.cut ?? 'An arrow leads from a job to the jobs that depend on it.'}</figcaption></figure>`;
}
