// The command-line options. The database and the role are selected by PGHOST, PGUSER, and so on, or by --database.
import { isIP } from 'node:net';
import { parseArgs } from 'node:util';

export class OptionError extends Error {}

export const OPTIONS = {
  'database': { type: 'string', value: 'URL', text: 'connection, such as postgresql://user@host/database; the default is PGHOST, PGUSER, PGDATABASE, and so on' },
  'host': { type: 'string', default: '127.0.0.1', value: 'ADDRESS', text: 'address to listen on' },
  'port': { type: 'string', default: '8630', value: 'PORT', text: 'port to listen on; 0 means any free port' },
  'allow-changes': { type: 'boolean', default: false, text: 'allow changes such as pause, retry, and cancel' },
  'origin': { type: 'string', multiple: true, value: 'URL', text: 'address that browsers use behind a proxy, such as https://jobs.example.com; can be repeated' },
  'base-path': { type: 'string', default: '', value: 'PATH', text: 'path of the dashboard on the proxy, such as /jobq' },
  'user-header': { type: 'string', value: 'NAME', text: 'header in which the proxy passes the name of the user, for --users and the log of changes' },
  'trusted-proxy': { type: 'string', multiple: true, value: 'ADDRESS', text: 'address of the proxy whose --user-header is trusted; can be repeated; the default is localhost' },
  'users': { type: 'string', value: 'FILE', text: 'file with the users, their roles, and their passwords; without it, there is no login' },
  'statement-timeout': { type: 'string', default: '2s', value: 'TIME', text: 'timeout for each query of a page, in ms, s, or min' },
  'action-timeout': { type: 'string', default: '60s', value: 'TIME', text: 'timeout for each change' },
  'scan': { type: 'string', default: '20000', value: 'JOBS', text: 'maximum number of jobs that a page scans if no index supports the filter' },
  'page-size': { type: 'string', default: '50', value: 'ROWS', text: 'rows per page' },
  'bulk-size': { type: 'string', default: '1000', value: 'JOBS', text: 'maximum number of jobs per bulk change' },
  'sample-interval': { type: 'string', default: '5s', value: 'TIME', text: 'time between two samples' },
  'history': { type: 'string', value: 'TABLE', text: 'table that keeps the charts of 24 h and 7 d, such as dashboard.history; without it, they begin when the dashboard starts' },
  'hash-password': { type: 'boolean', default: false, text: 'read a password from the standard input, print its hash for --users, and exit' },
  'help': { type: 'boolean', default: false, text: 'show this help and exit' },
};
const LOCAL = new Set(['127.0.0.1', '::1', 'localhost']);
const UNITS = { ms: 1, s: 1000, min: 60000 };

export function parseTime(name, text, least) {
  const match = /^(\d{1,9})(ms|s|min)?$/.exec(text);
  const time = match ? Number(match[1]) * UNITS[match[2] ?? 'ms'] : NaN;
  if (!(time >= least && time <= 86400000)) {
    throw new OptionError(`--${name}: "${text}" is not a time from ${least} ms to a day, such as 500ms, 2s, or 1min`);
  }
  return time;
}

export function parseCount(name, text, least, most) {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
  if (!(count >= least && count <= most)) throw new OptionError(`--${name}: "${text}" is not a number from ${least} to ${most}`);
  return count;
}

function parseOrigin(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    url = undefined;
  }
  if (!url || !/^https?:$/.test(url.protocol) || url.pathname !== '/' || url.search || url.hash || url.username) {
    throw new OptionError(`--origin: "${text}" is not an address such as https://jobs.example.com; use --base-path for the path`);
  }
  return url.origin;
}

export function parseOptions(args) {
  let values;
  try {
    const known = Object.fromEntries(Object.entries(OPTIONS).map(([name, { type, multiple, default: value }]) => [
      name, { type, ...(multiple && { multiple }), ...(value !== undefined && { default: value }) }]));
    values = parseArgs({ args, options: known, allowPositionals: false }).values;
  } catch (error) {
    throw new OptionError(`${error.message.split('\n')[0]} (--help lists the options)`);
  }
  const host = values.host;
  const origins = (values.origin ?? []).map(parseOrigin);
  const local = LOCAL.has(host);
  if (!local && origins.length === 0) {
    throw new OptionError(`--host ${host} is reachable from other machines: set --origin to the address that browsers use`);
  }
  const table = /^([a-z_][a-z0-9_]{0,62})\.([a-z_][a-z0-9_]{0,62})$/.exec(values.history ?? '');
  if (values.history !== undefined && !table) throw new OptionError(`--history: "${values.history}" is not SCHEMA.TABLE in lower case`);
  const basePath = values['base-path'].replace(/\/+$/, '');
  if (!/^(\/[\w.~-]+)*$/.test(basePath)) throw new OptionError(`--base-path: "${values['base-path']}" is not a path such as /jobq`);
  if (values['user-header'] !== undefined && !/^[\w-]{1,100}$/.test(values['user-header'])) {
    throw new OptionError(`--user-header: "${values['user-header']}" is not the name of a header`);
  }
  const proxies = values['trusted-proxy'] ?? ['127.0.0.1', '::1'];
  for (const proxy of proxies) if (isIP(proxy) === 0) throw new OptionError(`--trusted-proxy: "${proxy}" is not an IP address`);
  if (values['trusted-proxy'] && values['user-header'] === undefined) throw new OptionError('--trusted-proxy requires --user-header');
  return {
    help: values.help,
    database: values.database,
    host,
    local,
    port: parseCount('port', values.port, 0, 65535),
    allowChanges: values['allow-changes'],
    origins,
    basePath,
    userHeader: values['user-header'],
    proxies: new Set(proxies),
    users: values.users,
    hashPassword: values['hash-password'],
    statementTimeout: parseTime('statement-timeout', values['statement-timeout'], 10),
    actionTimeout: parseTime('action-timeout', values['action-timeout'], 10),
    scan: parseCount('scan', values.scan, 100, 1000000),
    pageSize: parseCount('page-size', values['page-size'], 5, 500),
    bulkSize: parseCount('bulk-size', values['bulk-size'], 1, 5000),
    history: table ? `"${table[1]}"."${table[2]}"` : undefined,
    sampleInterval: parseTime('sample-interval', values['sample-interval'], 100),
  };
}

export function addressOf(options, port) {
  if (options.origins.length > 0) return options.origins[0] + options.basePath;
  return `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}${options.basePath}`;
}

export function usage() {
  const lines = Object.entries(OPTIONS).map(([name, option]) => {
    const left = `  --${name}${option.value ? ` ${option.value}` : ''}`;
    const standard = typeof option.default === 'string' && option.default !== '' ? ` (${option.default})` : '';
    return `${left.padEnd(28)}${option.text}${standard}`;
  });
  return ['usage: jobq-web [OPTION]...', 'Starts the web dashboard of jobq.', '', ...lines].join('\n');
}
