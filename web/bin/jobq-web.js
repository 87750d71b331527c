#!/usr/bin/env node
// Starts the dashboard: reads the options, and serves until SIGTERM or SIGINT.
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import { createApp } from '../lib/app.js';
import { Database } from '../lib/database.js';
import { OptionError, addressOf, parseOptions, usage } from '../lib/options.js';
import { Sampler } from '../lib/sampler.js';
import { Users, hashPassword } from '../lib/users.js';

let options;
let users;
try {
  options = parseOptions(process.argv.slice(2));
  if (options.users !== undefined) users = new Users(options.users);
} catch (error) {
  if (!(error instanceof OptionError)) throw error;
  console.error(`jobq-web: ${error.message}`);
  process.exit(2);
}
if (options.help) {
  console.log(usage());
  process.exit(0);
}

if (options.hashPassword) {
  const password = (await text(process.stdin)).replace(/\r?\n$/, '');
  if (password.length < 8) {
    console.error('jobq-web: the password must have at least 8 characters');
    process.exit(2);
  }
  console.log(await hashPassword(password));
  process.exit(0);
}

const database = new Database(options);
const sampler = new Sampler(database, options);
// Wait for the first sample, so that the first page has numbers, but not longer than a page's query may take.
await Promise.race([sampler.start(), sleep(options.statementTimeout)]);
const { fetch, listening } = createApp({ database, sampler, options, users });
const server = serve({ fetch, hostname: options.host, port: options.port }, (address) => {
  listening(address.port);
  console.log(`jobq-web: ${addressOf(options, address.port)}/ (${options.allowChanges ? 'changes allowed' : 'read-only'}), listening on ${address.address}:${address.port}`);
  if (users && !options.userHeader && options.origins.some((origin) => origin.startsWith('http:'))) console.error('jobq-web: passwords are sent without TLS; put a proxy with TLS in front of the dashboard (docs/guides/dashboard.md)');
  if (!options.local && !users) console.error('jobq-web: anyone who can reach the dashboard can use it; start it with --users, or put a proxy with authentication in front of it (docs/guides/dashboard.md)');
});
server.on('error', (error) => {
  console.error(`jobq-web: cannot listen on ${options.host}:${options.port}: ${error.message}`);
  process.exit(1);
});

let stopping = false;
function stop() {
  if (stopping) return;
  stopping = true;
  sampler.stop();
  server.close(() => database.end().finally(() => process.exit(0)));
  server.closeIdleConnections?.();
  setTimeout(() => process.exit(0), 5000).unref();
}
process.on('SIGHUP', () => {
  try {
    users?.read();
  } catch (error) {
    console.error(`jobq-web: ${error.message}`);
  }
});
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
