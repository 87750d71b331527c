// The form with which a user signs in.
import { html, notice } from '../html.js';

export function loginPage(view, to, wrong) {
  return view.page('Sign in', html`${wrong ? html`<div role="alert">${notice('bad', wrong)}</div>` : ''}
${view.form('/login', { label: 'Sign in', columns: true, back: to ?? view.href('/'), fields: html`
<label>Name <input name="name" required maxlength="200" autocomplete="username"></label>
<label>Password <input name="password" type="password" required maxlength="1000" autocomplete="current-password"></label>` })}`, { signedOut: true });
}
