#!/usr/bin/env node
// Starts the dashboard: reads the options, and serves until SIGTERM or SIGINT.
import { setTimeout as sleep } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import { createApp } from '../lib/app.js';
import { Database } from '../lib/database.js';
import { OptionError, addressOf, parseOptions, usage } from '../lib/options.js';
import { Sampler } from '../lib/sampler.js';

let options;
try {
  options = parseOptions(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof OptionError)) throw error;
  console.error(`jobq-web: ${error.message}`);
  process.exit(2);
}
if (options.help) {
  console.log(usage());
  process.exit(0);
}

const database = new Database(options);
const sampler = new Sampler(database, options);
// Wait for the first sample, so that the first page has numbers, but not longer than a page's query may take.
await Promise.race([sampler.start(), sleep(options.statementTimeout)]);
const { fetch, listening } = createApp({ database, sampler, options });
const server = serve({ fetch, hostname: options.host, port: options.port }, (address) => {
  listening(address.port);
  console.log(`jobq-web: ${addressOf(options, address.port)}/ (${options.allowChanges ? 'changes allowed' : 'read-only'}), listening on ${address.address}:${address.port}`);
  if (!options.local) console.error('jobq-web: the dashboard has no login of its own; put a proxy with authentication in front of it (docs/guides/dashboard.md)');
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
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
