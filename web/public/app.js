// The only script: a button makes the page refresh itself. The refresh pauses while the page is hidden, and while the reader has
// the focus in a form, has entered or opened something, or has selected text.
'use strict';
(() => {
  const PAUSE = 5000;
  const main = document.querySelector('main[data-live]');
  if (!main) return;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'live';
  document.querySelector('header').append(button);
  const state = document.createElement('span');
  state.className = 'hidden';
  state.setAttribute('role', 'status');
  button.after(state);

  let on = sessionStorage.getItem('live') === 'on';
  let timer;
  const label = () => {
    button.textContent = on ? 'Live: on' : 'Live: off';
    button.setAttribute('aria-pressed', String(on));
  };
  const changed = (field) => (field.type === 'checkbox' ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);
  const busy = () => document.hidden || main.querySelector('details[open] form, details[open] pre') !== null || String(getSelection()) !== '' ||
    (main.contains(document.activeElement) && document.activeElement.closest('form') !== null) ||
    [...main.querySelectorAll('input:not([type="hidden"])')].some(changed);

  async function refresh() {
    try {
      const response = await fetch(location.href, { headers: { Accept: 'text/html' }, cache: 'no-store' });
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('main');
      if (!response.ok || !fresh) throw new Error(response.statusText);
      if (busy()) return;
      const focused = main.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
      const scrolled = [...main.querySelectorAll('[tabindex="0"]')].map((one) => [one.scrollLeft, one.scrollTop]);
      main.replaceChildren(...fresh.childNodes);
      [...main.querySelectorAll('[tabindex="0"]')].forEach((one, i) => { if (scrolled[i]) [one.scrollLeft, one.scrollTop] = scrolled[i]; });
      if (focused) [...main.querySelectorAll('a')].find((one) => one.getAttribute('href') === focused)?.focus({ preventScroll: true });
      main.classList.remove('stale');
      main.dataset.refreshed = String(Number(main.dataset.refreshed ?? 0) + 1);
      state.textContent = '';
    } catch {
      // Keeps the page, and marks it as stale.
      main.classList.add('stale');
      state.textContent = 'The dashboard does not answer, so this page is out of date.';
    }
  }

  async function round() {
    clearTimeout(timer);
    if (!on) return;
    if (!busy()) await refresh();
    timer = setTimeout(round, PAUSE);
  }

  button.addEventListener('click', () => {
    on = !on;
    sessionStorage.setItem('live', on ? 'on' : 'off');
    label();
    round();
  });
  label();
  if (on) timer = setTimeout(round, PAUSE);
})();
