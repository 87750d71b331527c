#!/usr/bin/env node
// Posts jobs to HTTP endpoints: reads the command line and the configuration, and works until SIGTERM or SIGINT.
import process from 'node:process';
import { parseArgs } from 'node:util';
import { readConfiguration } from '../src/configuration.js';
import { ConfigError } from '../src/errors.js';
import { Push } from '../src/push.js';

const USAGE = `usage: jobq-push [--check] CONFIGURATION
Claims jobs of jobq and posts them to HTTP endpoints, until SIGTERM or SIGINT.

  CONFIGURATION  a JSON file with the database, the allowed hosts, and the endpoints
  --check        only check the configuration, without connecting to the database
  --help         show this help and exit

The guide docs/guides/push.md of jobq describes the configuration and the requests.`;

function refuse(message) {
    console.error(`jobq-push: ${message}`);
    process.exit(2);
}

let given;
try {
    given = parseArgs({ allowPositionals: true, options: { check: { type: 'boolean' }, help: { type: 'boolean' } } });
} catch (error) {
    refuse(`${error.message.split('\n')[0]} (--help shows the options)`);
}
if (given.values.help) {
    console.log(USAGE);
    process.exit(0);
}
if (given.positionals.length !== 1) refuse('the name of one configuration file is required (--help shows the options)');
const [file] = given.positionals;
let push;
try {
    push = new Push(readConfiguration(file));
} catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    refuse(`${file}: ${error.message}`);
}
if (given.values.check) {
    console.log(`jobq-push: ${file} is valid`);
    process.exit(0);
}
process.exit(await push.run());
