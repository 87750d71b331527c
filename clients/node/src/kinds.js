// Kinds of jobs whose payload and result have types, which the code that enqueues the jobs and the handler share. Schemas of any library
// that implements Standard Schema (https://standardschema.dev) check the values at run time, on both sides.
import { Fail, OptionError, checkNames } from './errors.js';
import { OPTION_NAMES, OPTION_NAMES_OF_MANY, enqueue, enqueueMany, mustBeArray, textOf } from './producers.js';
import { shown, toJson } from './values.js';

const ofJobs = (names) => ['queue', ...names.filter((name) => name !== 'kind')];
const ATTRIBUTES = ofJobs(OPTION_NAMES);
const ATTRIBUTES_OF_MANY = ofJobs(OPTION_NAMES_OF_MANY);

/**
 * Returns a kind. schema, result: the schemas of the payload and of the result. retryInvalid: whether jobs whose payload is invalid are
 * retried, because a later version of the worker may accept it. Other options: those of enqueue(), for all jobs of the kind.
 */
export function defineKind(name, options = {}) {
    textOf('name', name);
    checkNames(options, ['schema', 'result', 'retryInvalid', ...ATTRIBUTES], 'a kind');
    const { schema, result, retryInvalid = true, queue = 'default', ...defaults } = options;
    checkSchema('schema', schema);
    checkSchema('result', result);
    if (typeof retryInvalid !== 'boolean') throw new OptionError(`option retryInvalid must be true or false, but is ${shown(retryInvalid)}`);

    // Checks what the other side will read from JSON, so that a payload that enqueue() accepts is also valid in the worker. Returns the
    // value that the schema made of it.
    const checked = async (what, schema, value) => {
        if (!schema) return value;
        const { issues, value: made } = await schema['~standard'].validate(JSON.parse(toJson(value, `the ${what}`)));
        if (issues) throw new OptionError(`the ${what} of kind ${JSON.stringify(name)} is invalid: ${issues.map(textOfIssue).join('; ')}`);
        return made;
    };

    const spec = async (payload, attributes = {}) => {
        checkNames(attributes, ['ref', ...ATTRIBUTES], 'an enqueue');
        await checked('payload', schema, payload);
        return { ...defaults, queue, ...attributes, kind: name, payload };
    };

    const receive = async (job) => {
        try {
            job.payload = await checked('payload', schema, job.payload);
        } catch (error) {
            throw error instanceof OptionError ? new Fail(error.message, { retry: retryInvalid }) : error;
        }
    };

    // Calls the handler, and checks its result, which it returns from its transaction or at its end.
    const withResult = async (job, work) => {
        let completed = false;
        const { completing } = job;
        job.completing = async (body) => {
            const value = await completing.call(job, async (client) => {
                const made = await body(client);
                await checked('result', result, made);
                return made;
            });
            completed = true;
            return value;
        };
        const value = await work(job);
        if (!completed) await checked('result', result, value);
        return value;
    };

    return Object.freeze({
        name,

        /** Returns a job for enqueueJobs(), job.spawn(), or the callbacks of a batch. */
        spec,

        async enqueue(connection, payload, attributes) {
            const { queue, payload: valid, ...others } = await spec(payload, attributes);
            return enqueue(connection, queue, valid, others);
        },

        async enqueueMany(connection, payloads, attributes = {}) {
            checkNames(attributes, ATTRIBUTES_OF_MANY, 'an enqueue');
            mustBeArray('payloads', payloads);
            for (const payload of payloads) await checked('payload', schema, payload);
            const { queue: own = queue, ...others } = attributes;
            return enqueueMany(connection, own, payloads, { ...defaults, ...others, kind: name });
        },

        /** Returns the function as the handler of this kind, for the option handlers of a worker and for the test kit. */
        handler(work) {
            if (typeof work !== 'function') throw new OptionError(`the handler of kind ${JSON.stringify(name)} must be a function, but is ${shown(work)}`);
            return { [name]: async (job) => {
                await receive(job);
                return result ? withResult(job, work) : work(job);
            } };
        },
    });
}

const textOfIssue = ({ message, path = [] }) => {
    const place = path.map((step) => (typeof step === 'object' ? step.key : step)).join('.');
    return place ? `"${place}": ${message}` : message;
};

function checkSchema(option, schema) {
    if (schema === undefined || typeof schema?.['~standard']?.validate === 'function') return;
    throw new OptionError(`option ${option} must be a schema of zod, valibot, arktype, or another library that implements Standard Schema, but is ${shown(schema)}`);
}
