// The only script. A button switches between the light, the dark, and the system's theme; the server reads the choice from a cookie.
// Another button makes the page refresh itself. The refresh pauses while the page is hidden, and while the reader has the focus in a
// form, has entered or opened something, or has selected text.
'use strict';
function headerButton() {
  const button = document.createElement('button');
  button.type = 'button';
  document.querySelector('header').append(button);
  return button;
}

(() => {
  const THEMES = ['system', 'light', 'dark'];
  const root = document.documentElement;
  const button = headerButton();
  const path = document.querySelector('link[rel="icon"]').getAttribute('href').replace(/icon\.svg$/, '');
  const label = () => { button.textContent = `Theme: ${root.dataset.theme ?? THEMES[0]}`; };
  button.addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? THEMES[0]) + 1) % THEMES.length];
    if (next === THEMES[0]) delete root.dataset.theme;
    else root.dataset.theme = next;
    document.cookie = `jobq_theme=${next}; Path=${path}; Max-Age=31536000; SameSite=Lax`;
    label();
  });
  label();
})();

(() => {
  const PAUSE = 5000;
  const main = document.querySelector('main[data-live]');
  if (!main) return;
  const button = headerButton();
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
