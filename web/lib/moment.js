// Fields for times. They are text in UTC, because the time fields of browsers use the reader's time zone.
import { html } from './html.js';

export const isMoment = (text) => /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?$/.test(text) && !Number.isNaN(Date.parse(text.slice(0, 10)));

export function momentField(label, name, value, note) {
  return html`<label>${label} <input name="${name}" value="${value ?? ''}" placeholder="2026-01-31 09:30" maxlength="19" pattern="[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?">${note ? html`<small>${note}</small>` : ''}</label>`;
}
