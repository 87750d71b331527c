// Converts JavaScript values to the parameters of jobq's functions, and back. Needs no server.
import { inspect } from 'node:util';
import { OptionError } from './errors.js';

/** Returns the value as JSON. Throws if it has no JSON form or JSON.stringify rejects it. */
export function toJson(value, what = 'the value') {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`${what} cannot be written as JSON: a ${typeof value}`);
    return text;
}

/** Returns the time for seconds since 1970 with six decimals, rounded down to milliseconds. */
export const timeOf = (seconds) => new Date(Math.floor(Math.round(seconds * 1e6) / 1000));

/** Returns interval text for seconds or interval text. */
export function toInterval(value) {
    return typeof value === 'number' ? `${value.toFixed(6)} s` : value;
}

/** Returns interval text for a caller's option, and throws if the option is invalid. */
export function toOwnInterval(value, option) {
    if (value === undefined || value === null || typeof value === 'string' || Number.isFinite(value)) return toInterval(value);
    throw new OptionError(`option ${option} must be a number of seconds or an interval's text, but is ${shown(value)}`);
}

/** Returns the text of a time: a Date, or timestamp text. */
export function toTime(value, option = 'time') {
    if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
    if (value === undefined || value === null || typeof value === 'string') return value;
    throw new OptionError(`option ${option} must be a valid Date or a timestamp's text, but is ${shown(value)}`);
}

/** Returns text that PostgreSQL accepts, without NUL. Lone surrogates become U+FFFD when they are encoded as UTF-8. */
export const toText = (value) => String(value).replaceAll('\0', '\uFFFD');

/** Returns a value's representation for a message. */
export function shown(value) {
    if (typeof value === 'string') return JSON.stringify(value);
    return typeof value === 'function' ? String(value) : inspect(value, { depth: 2, breakLength: Infinity });
}

/** Returns "TYPE: MESSAGE" for any thrown value. */
export function describe(error) {
    const type = typeOf(error);
    const message = error instanceof Error ? error.message : safely(() => String(error), 'something without a text');
    return toText(message ? `${type}: ${message}` : type);
}

/** Returns the message of an error for the log, including the server's hint. */
export function messageOf(error) {
    const text = error?.message || error?.code || describe(error);
    return error?.hint ? `${text} (HINT: ${error.hint})` : text;
}

/** Returns the name of the type of any thrown value. */
export function typeOf(error) {
    if (!(error instanceof Error)) return typeof error;
    return String((/^error$/i.test(error.name) && error.constructor?.name) || error.name || 'Error');
}

function safely(attempt, otherwise) {
    try {
        return attempt();
    } catch {
        return otherwise;
    }
}

/**
 * Parsers for answers, independent of the application's settings of pg. A bigint becomes a string because a number may be too
 * small.
 */
const parsers = new Map([
    [16, (text) => text === 't'],
    [20, String],
    [21, Number],
    [23, Number],
    [114, JSON.parse],
    [1016, (text) => text.slice(1, -1).split(',').filter((id) => id !== '')],
    [3802, JSON.parse],
]);

export const types = { getTypeParser: (oid) => parsers.get(oid) ?? String };
