// Reads the configuration, a JSON file, and checks all of it. Each error names the option.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { isIP } from 'node:net';
import { Addresses, matches, rangeOf } from './addresses.js';
import { ConfigError } from './errors.js';
import { keyOf } from './signature.js';

const MOST = 100;           // elements of a list
const HOST = /^(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_])?$/;
// Options of the Node worker that apply to all endpoints. The worker checks their values.
const WORKER = ['grace', 'heartbeatInterval', 'heartbeatTimeout', 'livenessFile', 'livenessPort', 'pollInterval', 'prepare', 'waitTimeout'];

const shown = (value) => (value === undefined ? 'missing' : JSON.stringify(value));
const wrong = (option, says) => { throw new ConfigError(`option "${option}" ${says}`); };
const mustBe = (option, says, value) => wrong(option, `must be ${says}, but is ${shown(value)}`);
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const bytes = (value) => Buffer.byteLength(value);

// Throws unless the value is an object with no other keys. option: empty for the whole file.
function checkKeys(value, known, option) {
    if (!isObject(value) && !option) throw new ConfigError('the file must contain an object');
    if (!isObject(value)) mustBe(option, 'an object', value);
    const unknown = Object.keys(value).find((key) => !known.includes(key));
    if (unknown === undefined) return;
    wrong(option ? `${option}.${unknown}` : unknown, `is unknown; the options here are ${known.join(', ')}`);
}

function number(value, option, [least, most], otherwise, whole = false) {
    if (value === undefined && otherwise !== undefined) return otherwise;
    const fits = typeof value === 'number' && value >= least && value <= most && (!whole || Number.isInteger(value));
    if (!fits) mustBe(option, `a ${whole ? 'whole ' : ''}number from ${least} to ${most}`, value);
    return value;
}

const count = (value, option, range, otherwise) => number(value, option, range, otherwise, true);

/** Returns a list of different texts. least: the minimum number of elements. */
function list(value, option, says, allowed, least = 0) {
    if (value === undefined && least === 0) return [];
    const fits = Array.isArray(value) && value.length >= least && value.length <= MOST;
    if (!fits) mustBe(option, `an array of ${least} to ${MOST} elements`, value);
    for (const [place, element] of value.entries()) {
        if (typeof element !== 'string' || !allowed(element)) mustBe(`${option}[${place}]`, says, element);
        if (value.indexOf(element) !== place) wrong(option, `must not contain ${shown(element)} twice`);
    }
    return value;
}

// Returns the text of a value that is given as text, or that is in an environment variable or a file. Messages do not show it.
function text(value, option) {
    if (typeof value === 'string') return value;
    checkSource(value, option);
    if (value.env !== undefined) return process.env[value.env] || wrong(option, `needs the environment variable "${value.env}", which is not set`);
    try {
        return readFileSync(value.file, 'utf8').trim();
    } catch (error) {
        return wrong(option, `needs a file that can be read: ${error.message}`);
    }
}

function checkSource(value, option) {
    const says = 'a text, {"env": "VARIABLE"}, or {"file": "PATH"}';
    if (!isObject(value)) wrong(option, `must be ${says}, but is ${value === undefined ? 'missing' : `of type ${typeof value}`}`);
    checkKeys(value, ['env', 'file'], option);
    const given = Object.values(value);
    if (given.length !== 1 || typeof given[0] !== 'string' || !given[0]) wrong(option, `must be ${says}`);
}

function keysOf(value, option) {
    if (!Array.isArray(value) || value.length < 1 || value.length > 5) wrong(option, 'must be an array of 1 to 5 secrets');
    return value.map((one, place) => keyOf(text(one, `${option}[${place}]`)) ??
        wrong(`${option}[${place}]`, 'must be 24 to 64 bytes in base64, which may follow "whsec_"'));
}

// Messages do not show a URL, because its query may contain a key.
function urlOf(value, option) {
    let url;
    try {
        url = new URL(text(value, option));
    } catch (error) {
        if (error instanceof ConfigError) throw error;
        wrong(option, 'must be a URL such as https://functions.example.com/thumbnail');
    }
    if (!['http:', 'https:'].includes(url.protocol)) wrong(option, 'must begin with https:// or http://');
    if (url.username || url.password || url.hash) wrong(option, 'must not contain a user name, a password, or a fragment');
    return url;
}

function endpointUrl(value, option, { allowedHosts, allowedHttpHosts, addresses }) {
    const url = urlOf(value, option);
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (!allowedHosts.some((pattern) => matches(pattern, host))) wrong(option, `has the host "${host}", which is not in allowedHosts`);
    if (url.protocol === 'http:' && !allowedHttpHosts.some((pattern) => matches(pattern, host))) {
        wrong(option, `must begin with https://, because the host "${host}" is not in allowedHttpHosts`);
    }
    if (isIP(host) && !addresses.isAllowed(host)) wrong(option, `has the address ${host}, which is not public and not in allowedAddresses`);
    return url;
}

const CIRCUIT = ['failures', 'openFor'];
const ENDPOINT = ['name', 'queues', 'kinds', 'url', 'secrets', 'timeout', 'concurrency', 'maxResponseBytes', 'maxRetryAfter', 'reportTimeout', 'circuit'];

function endpointOf(given, option, allowed) {
    checkKeys(given, ENDPOINT, option);
    const at = (name) => `${option}.${name}`;
    if (typeof given.name !== 'string' || !/^[a-z0-9][a-z0-9_-]{0,62}$/.test(given.name)) {
        mustBe(at('name'), 'a name of up to 63 lower-case letters, digits, "-", and "_"', given.name);
    }
    checkKeys(given.circuit ?? {}, CIRCUIT, at('circuit'));
    return {
        name: given.name,
        queues: list(given.queues, at('queues'), 'the name of a queue, of 1 to 63 bytes', (name) => name !== '' && bytes(name) <= 63, 1),
        kinds: list(given.kinds, at('kinds'), 'a kind, of up to 63 bytes', (name) => bytes(name) <= 63, 1),
        url: endpointUrl(given.url, at('url'), allowed),
        keys: keysOf(given.secrets, at('secrets')),
        timeout: number(given.timeout, at('timeout'), [0.1, 86400], 30),
        concurrency: count(given.concurrency, at('concurrency'), [1, 1000], 10),
        maxResponseBytes: count(given.maxResponseBytes, at('maxResponseBytes'), [0, 10_000_000], 65536),
        maxRetryAfter: number(given.maxRetryAfter, at('maxRetryAfter'), [1, 604800], 3600),
        reportTimeout: number(given.reportTimeout, at('reportTimeout'), [1, 31_536_000], 86400),
        circuit: {
            failures: count(given.circuit?.failures, at('circuit.failures'), [1, 10000], 10),
            openFor: number(given.circuit?.openFor, at('circuit.openFor'), [0.1, 86400], 30),
        },
    };
}

function endpointsOf(given, allowed, hasReports) {
    if (!Array.isArray(given) || given.length < 1 || given.length > MOST) wrong('endpoints', `must be an array of 1 to ${MOST} endpoints`);
    const seen = new Map();
    return given.map((one, place) => {
        const option = `endpoints[${place}]`;
        const endpoint = endpointOf(one, option, allowed);
        if (!hasReports && one.reportTimeout !== undefined) wrong(`${option}.reportTimeout`, 'needs the option "reports"');
        const names = [`the name ${shown(endpoint.name)}`,
            ...endpoint.queues.flatMap((queue) => endpoint.kinds.map((kind) => `the kind ${shown(kind)} of the queue ${shown(queue)}`))];
        for (const name of names) {
            if (seen.has(name)) wrong(option, `must not have ${name}, which ${seen.get(name)} has`);
            seen.set(name, option);
        }
        return endpoint;
    });
}

function reportsOf(given) {
    if (given === undefined) return undefined;
    checkKeys(given, ['listen', 'url'], 'reports');
    const [, host, port] = /^(.+):(\d{1,5})$/.exec(typeof given.listen === 'string' ? given.listen : '') ?? [];
    if (!(Number(port) >= 1 && Number(port) <= 65535)) mustBe('reports.listen', 'an address and a port, such as 127.0.0.1:8640', given.listen);
    const url = urlOf(given.url, 'reports.url');
    if (url.search) wrong('reports.url', 'must not contain a query');
    return { host: host.replace(/^\[|\]$/g, ''), port: Number(port), url: url.href.replace(/\/+$/, ''), path: url.pathname.replace(/\/+$/, '') };
}

function connectionOf(given) {
    if (given === undefined) return {};
    const found = text(given, 'connection');
    return /^postgres(ql)?:\/\//.test(found) ? { connectionString: found } : wrong('connection', 'must be a URL such as postgresql://user@host/database');
}

/** Returns the checked configuration in the text of a file. */
export function parseConfiguration(file) {
    let given;
    try {
        given = JSON.parse(file);
    } catch {
        throw new ConfigError('the file is not valid JSON');       // the message of the parser would quote the file, which may contain secrets
    }
    checkKeys(given, ['connection', 'allowedHosts', 'allowedHttpHosts', 'allowedAddresses', 'endpoints', 'reports', 'worker'], '');
    checkKeys(given.worker ?? {}, WORKER, 'worker');
    const hosts = (option, least) => list(given[option], option, 'a host name in lower case, such as example.com or *.example.com, or an address',
        (host) => HOST.test(host) || isIP(host) > 0, least);
    const ranges = list(given.allowedAddresses, 'allowedAddresses', 'an address or a range, such as 10.1.0.0/16', rangeOf).map(rangeOf);
    const allowed = { allowedHosts: hosts('allowedHosts', 1), allowedHttpHosts: hosts('allowedHttpHosts'), addresses: new Addresses(ranges) };
    for (const [place, host] of allowed.allowedHttpHosts.entries()) {
        const inHosts = allowed.allowedHosts.some((pattern) => pattern === host || matches(pattern, host));
        if (!inHosts) wrong(`allowedHttpHosts[${place}]`, `is ${shown(host)}, which is not in allowedHosts`);
    }
    const reports = reportsOf(given.reports);
    return {
        connection: connectionOf(given.connection), addresses: allowed.addresses, reports, worker: given.worker ?? {},
        endpoints: endpointsOf(given.endpoints, allowed, reports !== undefined),
    };
}

/** Returns the checked configuration in a file. */
export function readConfiguration(path) {
    let file;
    try {
        file = readFileSync(path, 'utf8');
    } catch (error) {
        throw new ConfigError(`the file cannot be read: ${error.message}`);
    }
    return parseConfiguration(file);
}
