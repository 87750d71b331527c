// What a worker does with the error of a failed attempt: it adds details to the report, such as the class and the stack trace, and
// calls the hook of the application. Needs no server.
import { nameOf } from './logger.js';
import { causes } from './outcome.js';
import { messageOf, toText, typeOf } from './values.js';

const MOST_BYTES = 16384;   // of the details as JSON
// Lengths to which the texts are shortened until the details fit. The last length fits even if each character of two texts takes
// six bytes.
const LENGTHS = [12288, 3072, 768];
const LONE_SURROGATES = /\p{Surrogate}/gu;

/**
 * Returns a function that returns the outcome with details if the outcome is a failure, and calls the hook. jobOf(): returns the
 * handler's view of the job, for the hook. An error in the filter or in the hook is logged and does not change the report.
 */
export function failuresOf({ errorDetails, onError, log }) {
    const unlessItFails = (name, row, work) => {
        const refuse = (error) => log.error(`${nameOf(row)}: ${name} has failed: ${safeMessageOf(error)}`);
        try {
            const value = work();
            if (typeof value?.then === 'function') value.then(undefined, refuse);
            return value;
        } catch (error) {
            refuse(error);
            return undefined;
        }
    };
    return (row, outcome, jobOf) => {
        if (outcome.what !== 'fail' || outcome.cancelled) return outcome;
        const { error } = outcome;
        const details = errorDetails ? unlessItFails('errorDetails', row, () => detailsOf(error, errorDetails)) : undefined;
        if (onError) unlessItFails('onError', row, () => onError(error, jobOf()));
        return details === undefined ? outcome : { ...outcome, details };
    };
}

function detailsOf(error, errorDetails) {
    const stacks = [...new Set(causes(error))].filter((cause) => typeof cause.stack === 'string').map(({ stack }) => stack);
    const all = { class: typeOf(error), ...(stacks.length ? { stack: stacks.join('\nCaused by: ') } : {}) };
    const details = errorDetails === true ? all : errorDetails(all, error);
    return details === undefined || details === null ? undefined : bounded(details);
}

/**
 * Returns the details as JSON of at most MOST_BYTES, with shorter texts if necessary. Throws if the details are no object, or if
 * they are too large without their texts.
 */
export function bounded(details) {
    if (typeof details?.then === 'function') details.then(undefined, () => {});   // otherwise, a rejection would end the process
    if (Object.prototype.toString.call(details) !== '[object Object]') {
        throw new TypeError(`the details must be an object, null, or undefined, but are ${Object.prototype.toString.call(details)}`);
    }
    for (const length of LENGTHS) {
        const text = JSON.stringify(Object.fromEntries(Object.entries(details).map(
            ([key, value]) => [key, typeof value === 'string' ? shortened(value, length) : value])));
        if (Buffer.byteLength(text) <= MOST_BYTES) return text;
    }
    throw new RangeError(`the details take more than ${MOST_BYTES} bytes as JSON`);
}

// Returns the text, or its beginning and its end, because a stack trace names the error at one of them.
function shortened(text, most) {
    const half = most / 2 - 20;   // leaves room for the mark
    const short = text.length <= most ? text
        : `${text.slice(0, half)}\n... ${text.length - 2 * half} characters left out ...\n${text.slice(-half)}`;
    return toText(short).replace(LONE_SURROGATES, '\uFFFD');
}

function safeMessageOf(error) {
    try {
        return messageOf(error);
    } catch {
        return 'an error that cannot be converted to text';
    }
}
