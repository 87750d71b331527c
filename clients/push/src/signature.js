// Signatures of requests: version v1 (HMAC-SHA256) of the specification Standard Webhooks. Needs no network and no clock.
import { createHmac, timingSafeEqual } from 'node:crypto';

const PREFIX = 'whsec_';
const TOLERANCE = 300;      // seconds by which the time of a request may differ, so that an old request cannot be replayed

/** Returns the key of a secret: base64, with or without the prefix whsec_. Returns undefined if it is not 24 to 64 bytes. */
export function keyOf(secret) {
    const text = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
    if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
    const key = Buffer.from(text, 'base64');
    return key.length >= 24 && key.length <= 64 ? key : undefined;
}

const mac = (key, id, timestamp, body) => createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');

/** Returns the headers that sign the body: one signature for each key. now: seconds since 1970. */
export function signed(keys, id, body, now) {
    const timestamp = Math.floor(now);
    return {
        'webhook-id': id,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': keys.map((key) => `v1,${mac(key, id, timestamp, body)}`).join(' '),
    };
}

/** Returns why the headers do not sign the body, or undefined if at least one signature was made with one of the keys. */
export function forgery(keys, headers, body, now) {
    const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
    if (!id || !timestamp || !signatures) return 'the headers webhook-id, webhook-timestamp, and webhook-signature are required';
    if (!/^\d{1,12}$/.test(timestamp)) return 'the header webhook-timestamp is not a number of seconds';
    if (Math.abs(now - Number(timestamp)) > TOLERANCE) return `the header webhook-timestamp differs from the time here by more than ${TOLERANCE} s`;
    const given = signatures.split(' ').filter((one) => one.startsWith('v1,')).map((one) => Buffer.from(one.slice(3)));
    const wanted = keys.map((key) => Buffer.from(mac(key, id, timestamp, body)));
    const matches = given.some((one) => wanted.some((other) => one.length === other.length && timingSafeEqual(one, other)));
    return matches ? undefined : 'no signature in the header webhook-signature matches';
}
