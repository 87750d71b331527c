// Creates and seals batches on the caller's connection. A batch is a set of jobs; when it has been sealed and all of its jobs have
// ended, jobq enqueues its callbacks. Jobs join a batch with the option batchId of the functions in producers.js.
import { checkNames } from './errors.js';
import { callbackOf, id as idOf, textOf } from './producers.js';
import { run } from './querying.js';
import { toJson } from './values.js';

/**
 * Creates a batch and returns its ID. onComplete, onSuccess, and onFailure: objects whose keys are those of enqueueJobs().
 * connection: see querying.js.
 */
export async function createBatch(connection, name = '', options = {}) {
    checkNames(options, ['onComplete', 'onSuccess', 'onFailure', 'metadata'], 'createBatch()');
    const { onComplete, onSuccess, onFailure, metadata } = options;
    const callbacks = Object.entries({ onComplete, onSuccess, onFailure }).map(([option, spec]) => callbackOf(option, spec));
    const [{ id }] = await run(connection, 'SELECT jobq_create_batch($1::text, $2::jsonb, $3::jsonb, $4::jsonb, $5::jsonb) AS id',
        [textOf('name', name), ...callbacks, metadata === undefined ? null : toJson(metadata, 'the metadata')]);
    return String(id);
}

/** Seals a batch, so that no more jobs can join it: false if it was already sealed, and null if it does not exist. */
export async function sealBatch(connection, batchId) {
    const [{ sealed }] = await run(connection, 'SELECT jobq_seal_batch($1::bigint) AS sealed', [idOf(batchId, 'batchId')]);
    return sealed;
}

const NUMBERS = ['total', 'pending', 'running', 'completed', 'failed', 'cancelled', 'progress'];

/** Returns a batch with the numbers of its jobs, or undefined if it does not exist. */
export async function getBatch(connection, batchId) {
    const [row] = await run(connection, `SELECT id::text, name, ${NUMBERS.map((name) => `${name}::float8`).join(', ')}, sealed,
               extract(epoch FROM finished_at)::float8 * 1000 AS finished, to_jsonb(callbacks::text[]) AS callbacks, error, metadata
        FROM jobq_get_batch($1::bigint)`, [idOf(batchId, 'batchId')]);
    if (row === undefined) return undefined;
    const { finished, ...others } = row;
    // Drivers return floating point numbers as numbers or as texts.
    for (const name of NUMBERS) others[name] = others[name] === null ? null : Number(others[name]);
    return { ...others, finishedAt: finished === null ? null : new Date(Number(finished)) };
}
