// The users of the dashboard: a file with a line for each user, passwords, and who is signed in. Needs no database.
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import { OptionError } from './options.js';

const derive = promisify(scrypt);
const COST = 32768;
const KEY = 32;   // bytes
const MEMORY = 256 * 1024 * 1024;
const HASH = /^scrypt\$(\d{4,6})\$([\w-]{16,100})\$([\w-]{43})$/;
const MOST_SIGNED_IN = 1000;
const SESSION_MS = 12 * 3600 * 1000;
const MOST_CHECKS = 8;   // passwords that are checked at the same time, including the delay after a wrong password
const DELAY_MS = 1000;

const keyOf = (password, salt, cost) => derive(password.normalize('NFC'), salt, KEY, { N: cost, r: 8, p: 1, maxmem: MEMORY });

export async function hashPassword(password) {
  const salt = randomBytes(16);
  return `scrypt$${COST}$${salt.toString('base64url')}$${(await keyOf(password, salt, COST)).toString('base64url')}`;
}

async function matches(password, hash) {
  const [, cost, salt, key] = HASH.exec(hash);
  return timingSafeEqual(await keyOf(password, Buffer.from(salt, 'base64url'), Number(cost)), Buffer.from(key, 'base64url'));
}

// Returns the users by name: { name, role, hash }. `role` is the role of the database with which the pages of the user are made. A
// user without a hash cannot sign in with a password. The name "*" stands for all other users that the proxy has authenticated.
export function parseUsers(text) {
  const users = new Map();
  text.split('\n').forEach((line, i) => {
    if (line.trim() === '' || line.startsWith('#')) return;
    const [name, role, hash, ...rest] = line.trim().split(':');
    const cost = Number(HASH.exec(hash ?? '')?.[1]);
    if (rest.length > 0 || !name || !role || Buffer.byteLength(role) > 63 || users.has(name) || (hash && !(cost >= 1024 && cost <= 131072 && Number.isInteger(Math.log2(cost))))) {
      throw new OptionError(`--users: line ${i + 1} is not NAME:ROLE or NAME:ROLE:HASH with a new name and a hash that --hash-password has printed`);
    }
    users.set(name, { name, role, hash: hash || undefined });
  });
  return users;
}

export class Users {
  constructor(file) {
    this.file = file;
    this.signedIn = new Map();   // session ID: { name, until }
    this.checks = 0;
    this.read();
  }

  // Reads the file. If it is invalid, the known users stay. A user that is no longer in the file is no longer signed in.
  read() {
    try {
      if ((statSync(this.file).mode & 0o007) !== 0) throw new OptionError(`--users: other users of the machine can access "${this.file}"; run chmod o= on it`);
      this.byName = parseUsers(readFileSync(this.file, 'utf8'));
    } catch (error) {
      throw error instanceof OptionError ? error : new OptionError(`--users: cannot read "${this.file}": ${error.message}`);
    }
  }

  // Returns the user that the proxy has authenticated, or undefined.
  named(name) {
    if (!name) return undefined;
    const user = this.byName.get(name) ?? this.byName.get('*');
    return user && { ...user, name };
  }

  of(session) {
    const found = this.signedIn.get(session);
    if (found === undefined || found.until < Date.now()) return undefined;
    const user = this.byName.get(found.name);
    // A new password ends the sessions that began with the old password.
    return user?.hash === found.hash ? user : undefined;
  }

  // Returns the user if the password is right, null if it is wrong, and undefined if too many passwords are being checked. A wrong
  // password takes a second longer, so that at most MOST_CHECKS passwords per second can be tried. An unknown name takes as long as
  // a known one.
  async check(name, password) {
    if (this.checks >= MOST_CHECKS) return undefined;
    this.checks += 1;
    try {
      const user = name === '*' ? undefined : this.byName.get(name);
      this.nothing ??= await hashPassword(randomBytes(16).toString('hex'));
      if (await matches(password, user?.hash ?? this.nothing) && user?.hash) return user;
      await new Promise((resolve) => { setTimeout(resolve, DELAY_MS); });
      return null;
    } finally {
      this.checks -= 1;
    }
  }

  signIn(session, { name, hash }) {
    for (const [id, { until }] of this.signedIn) if (until < Date.now() || this.signedIn.size >= MOST_SIGNED_IN) this.signedIn.delete(id);
    this.signedIn.set(session, { name, hash, until: Date.now() + SESSION_MS });
  }

  signOut(session) {
    this.signedIn.delete(session);
  }
}
