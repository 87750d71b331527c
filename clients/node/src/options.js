// The options of a worker: names, defaults, allowed values, and environment variables. Needs no server.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import process from 'node:process';
import { OptionError, checkNames } from './errors.js';
import { isPattern } from './patterns.js';
import { shown } from './values.js';

const PORT = /^(?:([^:[\]]+):|\[([^\]]+)\]:)?(\d{1,5})$/;
const bytes = (value) => Buffer.byteLength(value);

const name = (most) => (value) => typeof value === 'string' && bytes(value) >= 1 && bytes(value) <= most;
const count = (value) => Number.isInteger(value) && value >= 1 && value <= 1000;
const YEAR = 365 * 86400;
const seconds = (least) => ({
    numeric: true, allowed: (value) => typeof value === 'number' && value >= least && value <= YEAR, says: `seconds, from ${least} to ${YEAR}`,
});
const port = (value) => {
    const found = ['string', 'number'].includes(typeof value) && addressOf(value);
    return found && found.port >= 1 && found.port <= 65535;
};
const list = (element) => (value) => Array.isArray(value) && value.length <= 1000 && value.every(element);
const queues = (option, nameAllowed) => (value) => {
    if (typeof value !== 'object' || value === null) return false;
    const names = Array.isArray(value) ? value : Object.keys(value);
    if (names.length < 1 || names.length > 1000 || !names.every(nameAllowed)) return false;
    const wrong = Array.isArray(value) ? undefined : Object.entries(value).find(([, slots]) => !count(slots));
    if (!wrong) return true;
    throw new OptionError(`option ${option} must have a whole number of slots from 1 to 1000 for ${shown(wrong[0])}, but has ${shown(wrong[1])}`);
};
const pattern = (value) => {
    if (!name(126)(value)) return false;
    if (isPattern(value)) return true;
    throw new OptionError(`option patterns must not have a pattern that ends with a single backslash, but has ${shown(value)}`);
};
const slotsOfObjects = (...given) => given.flatMap((one) => (one && !Array.isArray(one) ? Object.values(one) : []));
const sumOf = (slots) => Math.min(1000, slots.reduce((sum, one) => sum + one, 0));
// A Map, because an object would put names that are numbers first. The queues of an array have the slots of the worker.
const slotsByName = (given, slots) => new Map(Array.isArray(given) ? given.map((name) => [name, slots]) : Object.entries(given));
const flag = (value) => typeof value === 'boolean';
const int32 = (value) => Number.isInteger(value) && Math.abs(value) < 2 ** 31;
const logger = (value) => ['info', 'warn', 'error'].every((level) => typeof value?.[level] === 'function');
const connection = (value) => ['string', 'object', 'function'].includes(typeof value) && value !== null;

// environment: the variable that optionsOfEnvironment() reads. otherwise: the default; without it, the option is undefined.
const OPTIONS = {
    queue: { environment: 'JOBQ_QUEUE', allowed: name(63), says: 'a name of 1 to 63 bytes', otherwise: () => 'default' },
    queues: { allowed: queues('queues', name(63)), says: 'an array of queues, or an object with the slots of each queue' },
    patterns: { allowed: queues('patterns', pattern), says: 'an array of patterns, or an object with the slots of each queue that a pattern matches' },
    queueOrder: {
        environment: 'JOBQ_QUEUE_ORDER', allowed: (value) => ['listed', 'random', 'oldest'].includes(value),
        says: "'listed', 'random', or 'oldest'", otherwise: () => 'listed',
    },
    slots: {
        environment: 'JOBQ_SLOTS', numeric: true, allowed: count, says: 'a whole number from 1 to 1000',
        otherwise: ({ queues, patterns }) => sumOf(slotsOfObjects(queues, patterns)) || 1,
    },
    prefetch: {
        environment: 'JOBQ_PREFETCH', numeric: true, allowed: (value) => value === 0 || count(value), says: 'a whole number from 0 to 1000',
        otherwise: () => 0,
    },
    batch: {
        environment: 'JOBQ_BATCH', numeric: true, allowed: count, says: 'a whole number from 1 to 1000',
        otherwise: ({ slots, prefetch }) => Math.min(1000, slots + prefetch),
    },
    versions: { allowed: list(int32), says: 'an array of up to 1000 whole numbers' },
    capabilities: { allowed: list(name(63)), says: 'an array of up to 1000 names of 1 to 63 bytes' },
    workerId: {
        environment: 'JOBQ_WORKER_ID', says: 'a name of 1 to 255 bytes that does not begin with "backend:"',
        allowed: (value) => name(255)(value) && !value.startsWith('backend:'),
        otherwise: () => `${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`,
    },
    heartbeatTimeout: { environment: 'JOBQ_HEARTBEAT_TIMEOUT', ...seconds(0.01) },
    heartbeatInterval: { environment: 'JOBQ_HEARTBEAT_INTERVAL', ...seconds(0.01) },
    waitTimeout: { environment: 'JOBQ_WAIT_TIMEOUT', ...seconds(0), otherwise: () => 30 },
    pollInterval: { environment: 'JOBQ_POLL_INTERVAL', ...seconds(0.01) },
    grace: { environment: 'JOBQ_GRACE', ...seconds(0), otherwise: () => 25 },
    livenessFile: { environment: 'JOBQ_LIVENESS_FILE', allowed: name(4095), says: 'the name of a file' },
    livenessPort: { environment: 'JOBQ_LIVENESS_PORT', allowed: port, says: 'a port from 1 to 65535, or HOST:PORT' },
    connection: { allowed: connection, says: 'a URL, a configuration of pg, or a function that returns one', otherwise: () => ({}) },
    heartbeatThread: { allowed: flag, says: 'true or false', otherwise: () => true },
    prepare: { allowed: flag, says: 'true or false', otherwise: () => false },
    traceAsChild: { allowed: flag, says: 'true or false', otherwise: () => false },
    errorDetails: {
        allowed: (value) => flag(value) || typeof value === 'function', says: 'true, false, or a function', otherwise: () => true,
    },
    onError: { allowed: (value) => typeof value === 'function', says: 'a function' },
    logger: { allowed: logger, says: 'an object with the functions info, warn and error', otherwise: () => undefined },
    handlers: {
        says: 'an object with a function for each kind',
        allowed: (value) => typeof value === 'object' && value !== null && Object.keys(value).length > 0 &&
            Object.values(value).every((handler) => typeof handler === 'function'),
    },
};

/** Returns the host, which is undefined for all addresses, and the port of the option livenessPort. */
export function addressOf(value) {
    const [, host, address, found] = PORT.exec(value) ?? [];
    return found && { host: host ?? address, port: Number(found) };
}

// Returns the option's name here, in the contract of all languages, and in the environment.
function namesOf(option, variable) {
    if (!variable) return option;
    const common = variable.replace('JOBQ_', '').toLowerCase();
    return `${option} (${common === option ? '' : `${common}, `}${variable})`;
}

/** Returns the options in environment variables. Numbers are checked later, with the other options. */
export function optionsOfEnvironment(environment = process.env) {
    const found = {};
    for (const [option, { environment: variable, numeric }] of Object.entries(OPTIONS)) {
        const text = variable && environment[variable];
        if (!text) continue;
        found[option] = numeric && /^\d{1,12}(\.\d*)?$/.test(text) ? Number(text) : text;
    }
    return found;
}

/** Returns all options with their defaults, or throws for the first invalid option. */
export function checkedOptions(given) {
    checkNames(given, Object.keys(OPTIONS), 'a worker');
    const checked = {};
    for (const [option, { environment, allowed, says, otherwise }] of Object.entries(OPTIONS)) {
        const value = given[option] ?? otherwise?.(checked);
        if (value !== undefined || option === 'handlers') {
            // The message does not show a connection, because it may contain a password.
            const text = option === 'connection' ? typeof value : shown(value);
            if (value === undefined || !allowed(value)) {
                throw new OptionError(`option ${namesOf(option, environment)} must be ${says}, but is ${text}`);
            }
        }
        checked[option] = value;
    }
    if (checked.queues || checked.patterns) {
        if (given.queue !== undefined) throw new OptionError(`options queue and ${checked.queues ? 'queues' : 'patterns'} cannot be combined`);
        for (const option of ['queues', 'patterns']) checked[option] = slotsByName(checked[option] ?? [], checked.slots);
        checked.queue = [...checked.queues.keys(), ...checked.patterns.keys()].join(',');
    }
    checked.kinds = Object.keys(checked.handlers).sort();
    return checked;
}
