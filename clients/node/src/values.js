// JavaScript values as the parameters of jobq's functions, and back. No server.
import { inspect } from 'node:util';
import { OptionError } from './errors.js';

/** The value as JSON. What has none is an error, as is what JSON.stringify refuses. */
export function toJson(value, what = 'the value') {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`${what} cannot be written as JSON: a ${typeof value}`);
    return text;
}

/** Seconds or an interval's text, as an interval's text. */
export function toInterval(value) {
    return typeof value === 'number' ? `${value.toFixed(6)} s` : value;
}

/** The same of a caller's option, which may be wrong. */
export function toOwnInterval(value, option) {
    if (value === undefined || value === null || typeof value === 'string' || Number.isFinite(value)) return toInterval(value);
    throw new OptionError(`option ${option} must be a number of seconds or an interval's text, but is ${shown(value)}`);
}

/** A time: a Date, or a timestamp's text. */
export function toTime(value, option = 'time') {
    if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
    if (value === undefined || value === null || typeof value === 'string') return value;
    throw new OptionError(`option ${option} must be a valid Date or a timestamp's text, but is ${shown(value)}`);
}

/** A text that PostgreSQL takes: no NUL. Lone surrogates become U+FFFD on their way to UTF-8. */
export const toText = (value) => String(value).replaceAll('\0', '\uFFFD');

/** A value in a message. */
export function shown(value) {
    if (typeof value === 'string') return JSON.stringify(value);
    return typeof value === 'function' ? String(value) : inspect(value, { depth: 2, breakLength: Infinity });
}

/** TYPE: MESSAGE of whatever was thrown. */
export function describe(error) {
    const type = typeOf(error);
    const message = error instanceof Error ? error.message : safely(() => String(error), 'something without a text');
    return toText(message ? `${type}: ${message}` : type);
}

/** The message of an error, for a line in the log, with the server's hint. */
export function messageOf(error) {
    const text = error?.message || error?.code || describe(error);
    return error?.hint ? `${text} (HINT: ${error.hint})` : text;
}

/** The name of the type of whatever was thrown. */
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

/** How answers are read, whatever the application has told pg. Bigints are strings, since a number may not hold them. */
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
