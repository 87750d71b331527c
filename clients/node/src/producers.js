// Enqueues jobs on the caller's connection. The jobs are part of the caller's transaction; the functions neither begin nor end
// one. With a Cluster, each call is a transaction of its own.
import { OptionError, checkNames } from './errors.js';
import { enqueuing } from './middleware.js';
import { run } from './querying.js';
import { shown, toJson, toOwnInterval, toTime } from './values.js';

// The options of enqueue(): the parameter of jobq_enqueue, its type, and a function (value, option name) that converts the value.
// Entries without a type are keys of the parameter "options" of jobq_enqueue.
const same = (value) => value;
const json = (value) => toJson(value, 'the metadata');
const list = (make) => (values, option) => {
    if (!Array.isArray(values)) throw new OptionError(`option ${option} must be an array, but is ${shown(values)}`);
    return values.map((value) => make(value, option));
};
const text = (value, option) => {
    if (value === null || value === undefined) return null;
    if (['string', 'number', 'bigint', 'boolean'].includes(typeof value)) return String(value);
    throw new OptionError(`option ${option} must be an array of texts or numbers, but has ${shown(value)}`);
};
const texts = list(text);
const isId = (value) => (['string', 'bigint'].includes(typeof value) || Number.isSafeInteger(value)) && /^\d{1,19}$/.test(value) &&
    BigInt(value) < 2n ** 63n;
/** Converts an ID, which can be a text, a number, or a bigint, to a text. */
export const id = (value, option) => {
    if (isId(value)) return String(value);
    throw new OptionError(`option ${option} must be an ID, but is ${shown(value)}`);
};
const listedId = (value, option) => {
    if (isId(value)) return String(value);
    throw new OptionError(`option ${option} must be an array of IDs, but has ${shown(value)}`);
};
export const ids = list(listedId);
// "@ref" names another object of the same call.
const dependencies = list((value, option) => (typeof value === 'string' && value.startsWith('@') ? value : listedId(value, option)));
// The message does not show the values, because they may be payloads.
export function mustBeArray(option, values) {
    if (!Array.isArray(values)) throw new OptionError(`option ${option} must be an array, but is of type ${typeof values}`);
}
/** Returns the text. The message does not show other values, because they may be misplaced payloads. */
export function textOf(option, value) {
    if (typeof value !== 'string') throw new OptionError(`option ${option} must be a text, but is of type ${typeof value}`);
    return value;
}
const OPTIONS = {
    kind: ['kind', 'text', same],
    priority: ['priority', 'int', same],
    runAt: ['run_at', 'timestamptz', toTime],
    maxAttempts: ['max_attempts', 'int', same],
    uniqueKey: ['unique_key', 'text', same],
    onConflict: ['on_conflict', 'text', same],
    uniqueFor: ['unique_for', 'interval', toOwnInterval],
    groupKey: ['group_key', 'text', same],
    concurrencyKey: ['concurrency_key', 'text', same],
    dependsOn: ['depends_on', 'bigint[]', dependencies],
    onDependencyFailure: ['on_dependency_failure', 'text', same],
    version: ['version', undefined, same],
    requires: ['requires', undefined, texts],
    heartbeatTimeout: ['heartbeat_timeout', undefined, toOwnInterval],
    maxRuntime: ['max_runtime', undefined, toOwnInterval],
    expiresAt: ['expires_at', undefined, toTime],
    expiresIn: ['expires_in', undefined, toOwnInterval],
    batchId: ['batch_id', undefined, id],
    limits: ['limits', undefined, texts],
    metadata: ['metadata', 'jsonb', json],
};

export const OPTION_NAMES = Object.keys(OPTIONS);

const pick = (...names) => Object.fromEntries(names.map((name) => [name, OPTIONS[name]]));
const OPTIONS_OF_MANY = {
    ...pick('kind', 'priority', 'runAt', 'maxAttempts', 'version', 'requires', 'heartbeatTimeout', 'maxRuntime', 'expiresAt', 'expiresIn',
        'batchId', 'limits'),
    // Parameters of jobq_enqueue that are keys of the parameter "options" of jobq_enqueue_many.
    onConflict: ['on_conflict', undefined, same],
    uniqueFor: ['unique_for', undefined, toOwnInterval],
    metadata: ['metadata', undefined, same],
    uniqueKeys: ['unique_keys', 'text[]', texts],
    groupKeys: ['group_keys', 'text[]', texts],
    concurrencyKeys: ['concurrency_keys', 'text[]', texts],
    runAts: ['run_ats', 'timestamptz[]', list(toTime)],
    priorities: ['priorities', 'int[]', list(same)],
};
export const OPTION_NAMES_OF_MANY = Object.keys(OPTIONS_OF_MANY);

/**
 * Enqueues one job and returns its ID. connection: see querying.js. Omitted options get
 * the defaults of jobq_enqueue.
 */
export async function enqueue(connection, queue = 'default', payload = {}, options = {}) {
    checkNames(options, OPTION_NAMES, 'an enqueue');
    const [{ id }] = await enqueuing([{ ...options, queue, payload }], async ([spec]) => {
        const { queue, payload, ...others } = spec;
        const { names, values } = argumentsOf(others, OPTIONS, 3);
        const [{ id }] = await run(connection, `SELECT jobq_enqueue($1::text, $2::jsonb${names}) AS id`,
            [textOf('queue', queue), toJson(payload, 'the payload'), ...values], () => specsOf([{ ...others, queue }]));
        return [{ id: String(id) }];
    });
    return id;
}

/** Enqueues one job per payload, in one statement: [{id, isNew}]. */
export async function enqueueMany(connection, queue, payloads, options = {}) {
    mustBeArray('payloads', payloads);
    checkNames(options, OPTION_NAMES_OF_MANY, 'an enqueue');
    return enqueuing([{ ...options, queue, payloads }], async ([spec]) => {
        const { queue, payloads, ...others } = spec;
        const { names, values } = argumentsOf(others, OPTIONS_OF_MANY, 3);
        const rows = await run(connection, `SELECT job_id AS id, is_new AS fresh FROM jobq_enqueue_many($1::text, $2::jsonb[]${names})`,
            [textOf('queue', queue), payloads.map((payload) => toJson(payload, 'a payload')), ...values],
            () => payloads.map((_, number) => jobOfMany(queue, others, number)));
        return rows.map(enqueued);
    });
}

/**
 * Enqueues one job per object. Keys: the options of enqueue(), queue, payload, and ref, a name for the dependsOn of other
 * objects.
 */
export async function enqueueJobs(connection, specs) {
    return enqueuing(copiesOf(specs), async (specs) => {
        const made = specsOf(specs);
        const rows = await run(connection, 'SELECT job_id AS id, is_new AS fresh FROM jobq_enqueue_jobs($1::jsonb)', [toJson(made)], () => made);
        return rows.map(enqueued);
    });
}

// Returns what decides the shard of a job of enqueueMany().
const jobOfMany = (queue, { uniqueKeys, groupKeys, concurrencyKeys, batchId, limits }, number) => ({
    queue, unique_key: uniqueKeys?.[number], group_key: groupKeys?.[number], concurrency_key: concurrencyKeys?.[number], batch_id: batchId, limits,
});

const AS_THEY_ARE = ['queue', 'payload', 'ref', 'metadata'];
const KEYS_OF_SPECS = [...new Set([...AS_THEY_ARE, ...OPTION_NAMES])];

/** Returns the spec of a callback as JSON, or null if there is no callback. */
export function callbackOf(option, spec) {
    if (spec === undefined || spec === null) return null;
    if (isObject(spec)) return toJson(specsOf([spec])[0]);
    throw new OptionError(`option ${option} must be an object, but is of type ${Array.isArray(spec) ? 'array' : typeof spec}`);
}

/** Returns specs in the format of jobq_enqueue_jobs and jobq_spawn. */
export function specsOf(specs) {
    mustBeSpecs(specs);
    return specs.map((spec) => {
        checkNames(spec, KEYS_OF_SPECS, 'an enqueue');
        const made = {};
        for (const [option, value] of Object.entries(spec)) {
            if (value === undefined) continue;
            if (option === 'queue') textOf('queue', value);
            if (AS_THEY_ARE.includes(option)) {
                made[option] = value;
                continue;
            }
            const [name, , make] = OPTIONS[option];
            made[name] = value === null ? null : make(value, option);
        }
        return made;
    });
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

function mustBeSpecs(specs) {
    mustBeArray('specs', specs);
    for (const spec of specs) {
        if (isObject(spec)) continue;
        throw new OptionError(`option specs must be an array of objects, but has one of type ${Array.isArray(spec) ? 'array' : typeof spec}`);
    }
}

/** Returns copies of the specs, which middleware can change. */
export function copiesOf(specs) {
    mustBeSpecs(specs);
    return specs.map((spec) => ({ ...spec }));
}

function argumentsOf(options, known, first) {
    checkNames(options, Object.keys(known), 'an enqueue');
    let names = '';
    const values = [];
    const keys = {};
    const add = (name, type, value) => {
        names += `, ${name} => $${first + values.length}::${type}`;
        values.push(value);
    };
    for (const [option, value] of Object.entries(options)) {
        const [name, type, make] = known[option];
        if (value === undefined || value === null) continue;
        if (type === undefined) keys[name] = make(value, option);
        else add(name, type, make(value, option));
    }
    if (Object.keys(keys).length > 0) add('options', 'jsonb', toJson(keys, 'the options'));
    return { names, values };
}

const enqueued = ({ id, fresh }) => ({ id: String(id), isNew: fresh });
