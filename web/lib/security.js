// Protects the pages in a browser: which host names are answered, who may post, and what a page may load.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { getCookie, setCookie } from 'hono/cookie';
import { Problem } from './database.js';

const COOKIE = 'jobq_web';

// Allows nothing from other sites, nothing inline, no frames, and forms only to the dashboard itself.
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
  "base-uri 'none'; frame-ancestors 'none'";

export function setHeaders(c) {
  c.header('Content-Security-Policy', POLICY);
  c.header('X-Content-Type-Options', 'nosniff');
  c.header('X-Frame-Options', 'DENY');
  c.header('Referrer-Policy', 'same-origin');
  c.header('Cross-Origin-Opener-Policy', 'same-origin');
  c.header('Cross-Origin-Resource-Policy', 'same-origin');
}

// Accepts requests to the dashboard's own names only, because a foreign page may resolve its name to our address (DNS rebinding).
export function checkHost(c, origins) {
  const host = c.req.header('host') ?? '';
  if (![...origins].some((origin) => new URL(origin).host === host.toLowerCase())) {
    throw new Problem('host', `the dashboard does not answer for "${host.slice(0, 200)}"`, { status: 421 });
  }
}

export class Sessions {
  constructor({ origins, basePath }) {
    this.secret = randomBytes(32);
    this.path = `${basePath}/`;
    this.secure = origins.length > 0 && origins.every((origin) => origin.startsWith('https:'));
    this.told = new Map();
  }

  // Returns the ID of the browser's session, a random number in a cookie, or undefined if it is missing.
  known(c) {
    const id = getCookie(c, COOKIE);
    return id !== undefined && /^[\w-]{43}$/.test(id) ? id : undefined;
  }

  of(c) {
    return this.known(c) ?? this.renew(c);
  }

  // Begins a session. The ID changes when a user signs in, so that no ID from before is worth anything.
  renew(c) {
    const id = randomBytes(32).toString('base64url');
    setCookie(c, COOKIE, id, { path: this.path, httpOnly: true, sameSite: 'Lax', secure: this.secure });
    return id;
  }

  token(id) {
    return createHmac('sha256', this.secret).update(id).digest('base64url');
  }

  // Accepts a change only from the dashboard's own pages: Origin must match, and the form must contain the token of the session.
  checkPost(c, origins, body) {
    const origin = c.req.header('origin');
    if (origin === undefined || !origins.has(origin)) {
      throw new Problem('forged', `a change must come from a page of this dashboard, not from ${origin === undefined ? 'nowhere' : `"${origin.slice(0, 200)}"`}`,
        { status: 403 });
    }
    const id = getCookie(c, COOKIE);
    const given = Buffer.from(typeof body.token === 'string' ? body.token : '');
    const wanted = Buffer.from(id === undefined ? '' : this.token(id));
    if (wanted.length === 0 || given.length !== wanted.length || !timingSafeEqual(given, wanted)) {
      throw new Problem('forged', 'the form does not belong to this session, or is older than the last restart of the dashboard', { status: 403 });
    }
  }

  // Stores a message to show on the next page of this session.
  tell(id, kind, text) {
    this.told.delete(id);
    this.told.set(id, { kind, text });
    if (this.told.size > 1000) this.told.delete(this.told.keys().next().value);
  }

  hear(id) {
    const told = this.told.get(id);
    this.told.delete(id);
    return told;
  }
}
