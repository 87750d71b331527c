// HTML templates that escape their values. Every value that `html` itself did not make is escaped as text.
class Safe {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }
}

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

export function escape(text) {
  return String(text).replace(/[&<>"']/g, (character) => ESCAPES[character]);
}

function written(value) {
  if (value === null || value === undefined || value === false || value === true) return '';
  if (value instanceof Safe) return value.text;
  if (Array.isArray(value)) return value.map(written).join('');
  return escape(value);
}

export function html(strings, ...values) {
  return new Safe(strings.raw.reduce((all, part, i) => all + written(values[i - 1]) + part));
}

// ---- elements that several pages use

export function number(value) {
  if (value === null || value === undefined) return '';
  return Number(value).toLocaleString('en-US', { maximumFractionDigits: 0 });
}

export function rate(value) {
  if (value === null || value === undefined) return '';
  if (value === 0) return '0/s';
  return `${value >= 10 ? number(value) : value.toLocaleString('en-US', { maximumSignificantDigits: 2 })}/s`;
}

const SPANS = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

// Formats seconds with their two largest units.
export function span(seconds) {
  if (seconds === null || seconds === undefined) return '';
  let left = Math.abs(Number(seconds));
  if (left < 1) return left === 0 ? '0 s' : `${Math.max(1, Math.round(left * 1000))} ms`;
  const parts = [];
  for (const [unit, size] of SPANS) {
    const count = Math.floor(left / size);
    if (count > 0 && parts.length < 2) parts.push(`${number(count)} ${unit}`);
    else if (parts.length > 0) break;
    left -= count * size;
  }
  return parts.join(' ');
}

export function time(date, now = new Date()) {
  if (date === null || date === undefined) return '';
  if (!(date instanceof Date) || Number.isNaN(date.getTime())) return String(date);
  const text = date.toISOString();
  const distance = (now - date) / 1000;
  const relative = Math.abs(distance) < 1 ? 'now' : distance > 0 ? `${span(distance)} ago` : `in ${span(distance)}`;
  return html`<time datetime="${text}" title="${text.slice(0, 10)} ${text.slice(11, 23)} UTC">${relative}</time>`;
}

export function timestamp(date) {
  if (!(date instanceof Date) || Number.isNaN(date.getTime())) return date === null || date === undefined ? '' : String(date);
  const text = date.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 10)} ${text.slice(11, 23)}</time>`;
}

export function badge(status, text = status) {
  return status ? html`<span class="badge ${status}">${text}</span>` : '';
}

// "1 job", "2 jobs"
export const plural = (count, noun) => `${number(count)} ${noun}${Number(count) === 1 ? '' : 's'}`;

// Returns whether a cell contains a long word that may be broken, because otherwise it would leave no room for other columns.
const LONG_WORD = /\S{25}/;
const MARKUP = /<span class="hidden">.*?<\/span>|<[^>]*>/gs;
function classOf(column, content) {
  if (column.number) return 'number';
  const long = LONG_WORD.test(typeof content === 'string' ? content : String(content ?? '').replace(MARKUP, ' '));
  return [column.wide && 'wide', long && 'long', column.name].filter(Boolean).join(' ');
}

function cell(column, row) {
  const content = column.cell(row);
  const name = classOf(column, content);
  return html`<td role="cell" data-label="${column.label}"${name ? html` class="${name}"` : ''}>${content}</td>`;
}

// Makes a table. Columns: { label, cell(row), number, wide, name }, where `name` is a class of the cells. On a narrow screen a row becomes a card with a label next to each
// cell, so ARIA roles keep it a table for screen readers. `name`: a class.
export function table(caption, columns, rows, { empty = 'None.', name } = {}) {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<table role="table"${name ? html` class="${name}"` : ''}><caption>${caption}</caption>
<thead role="rowgroup"><tr role="row">${columns.map((column) =>
    html`<th role="columnheader" scope="col"${column.number ? html` class="number"` : ''}>${column.label}</th>`)}</tr></thead>
<tbody role="rowgroup">${rows.map((row) => html`<tr role="row">${columns.map((column) => cell(column, row))}</tr>
`)}</tbody></table>`;
}

export function definitions(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return html`<dl>${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function notice(kind, ...content) {
  return html`<p class="notice ${kind}">${content}</p>`;
}

// Makes a block for long text that scrolls by itself, also with the keyboard.
export function block(label, text) {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${text}</pre>`;
}
