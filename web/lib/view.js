// Elements that all pages share: the page frame, links, and forms that change something.
import { html, notice } from './html.js';

export const PAGES = [['/', 'Overview'], ['/queues', 'Queues'], ['/jobs', 'Jobs'], ['/failures', 'Failures'],
  ['/schedules', 'Schedules'], ['/batches', 'Batches'], ['/groups', 'Halted groups'], ['/workers', 'Workers'], ['/handlers', 'Handlers'], ['/changes', 'Changes']];

const THEMES = new Set(['light', 'dark']);   // without one of them, the system of the reader decides

// The view of a single request: knows the address of the dashboard, the session, and whether changes are allowed.
export class View {
  constructor({ options, rights, token, told, path, address, user, theme }) {
    Object.assign(this, { options, rights, token, told, path, address, user, theme });
  }

  href(path, parameters = {}) {
    const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== '');
    const query = new URLSearchParams(given).toString();
    return `${this.options.basePath}${path}${query ? `?${query}` : ''}`;
  }

  link(text, path, parameters) {
    return html`<a href="${this.href(path, parameters)}">${text}</a>`;
  }

  queue(name) {
    return name === null ? '' : this.link(name, '/queue', { name });
  }

  job(id) {
    return id === null ? '' : this.link(id, `/job/${id}`);
  }

  // Returns whether the buttons that call these functions are shown. If not, the footer tells the reader why, once per page.
  mayCall(...functions) {
    return this.options.allowChanges && !this.rights.standby && this.rights.calls(...functions);
  }

  // Makes a form that posts. `fields` are filled in by the reader, and `hidden` by the page. With
  // `columns`, the fields are arranged in columns.
  form(action, { label, hidden = {}, fields = '', danger = false, columns = false, back = this.address }) {
    return html`<form method="post" action="${this.href(action)}"${columns ? html` class="columns"` : ''}><input type="hidden" name="token" value="${this.token}">
<input type="hidden" name="back" value="${back}">${Object.entries(hidden).map(([name, value]) =>
      html`<input type="hidden" name="${name}" value="${value}">`)}${fields}<button${danger ? html` class="danger"` : ''}>${label}</button></form>`;
  }

  // Makes a form for a change that cannot be undone. The reader must open it first.
  confirmed(action, { ask, ...form }) {
    return html`<details class="confirm"><summary>${form.label} ...</summary>${this.form(action, { ...form, danger: true, fields: html`<p>${ask}</p>${form.fields}` })}</details>`;
  }

  more(path, parameters, text) {
    return html`<p class="more">${this.link(text, path, parameters)}</p>`;
  }

  // `signedOut`: the page belongs to no user, so it has no links to other pages.
  page(title, content, { live = false, signedOut = false } = {}) {
    const { rights, options } = this;
    const state = signedOut ? 'Not signed in' : !rights ? 'no connection' : html`${rights.database} as ${rights.role}${rights.standby ? ', a standby' : ''}`;
    const mode = signedOut ? '' : !options.allowChanges ? 'Read-only: the dashboard was started without --allow-changes.'
      : rights?.standby ? 'Read-only: the server is a standby.'
        : rights && !rights.calls('jobq_cancel') ? 'Read-only: the role is not an operator.' : '';
    return html`<!DOCTYPE html>
<html lang="en"${THEMES.has(this.theme) ? html` data-theme="${this.theme}"` : ''}><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>${title} - jobq</title>
<link rel="icon" href="${this.href('/icon.svg')}"><link rel="stylesheet" href="${this.href('/app.css')}">
<script src="${this.href('/app.js')}" defer></script></head>
<body><a class="skip" href="#content">Skip to the content</a>
<header><span class="brand">jobq</span>${signedOut ? '' : html`<nav aria-label="Pages"><ul>${PAGES.map(([path, name]) =>
      html`<li><a href="${this.href(path)}"${path === this.path ? html` aria-current="page"` : ''}>${name}</a></li>`)}</ul></nav>`}${
      this.user && options.users && !options.userHeader && this.token ? this.form('/logout', { label: 'Sign out', back: this.href('/') }) : ''}</header>
<main id="content" tabindex="-1"${live ? html` data-live` : ''}><h1>${title}</h1>
${this.told ? html`<div role="status">${notice(this.told.kind, this.told.text)}</div>` : ''}
${content}</main>
<footer><p>${state}${rights ? html`, PostgreSQL ${rights.server}, jobq ${rights.version}` : ''}. Times are UTC. ${this.user ? html`You are ${this.user}. ` : ''}${mode}</p></footer>
</body></html>`;
  }
}
