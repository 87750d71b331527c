// Combines concurrent enqueues into one statement, as the server combines concurrent commits.
import { isBroken } from './connection.js';
import { OptionError, checkNames } from './errors.js';
import { OPTION_NAMES, run, specsOf } from './producers.js';
import { sending } from './tracing.js';
import { toJson } from './values.js';

const MOST = 1000;      // jobs in one statement

/**
 * Returns a function enqueue(queue, payload, options), which enqueues a job like enqueue(), but not in a transaction of the caller.
 * While a statement is under way, the calls of the application wait, and the next statement enqueues all of their jobs. So many
 * concurrent enqueues need few commits, and a single enqueue does not wait. most: the maximum number of jobs in a statement.
 */
export function combinedEnqueue(pool, options = {}) {
    checkNames(options, ['most'], 'combinedEnqueue()');
    const { most = MOST } = options;
    if (!Number.isSafeInteger(most) || most < 1) throw new OptionError(`option most must be an integer from 1, but is ${most}`);
    let waiting = [];
    let started = false;

    const insert = async (jobs) => {
        const rows = await run(pool, 'SELECT job_id FROM jobq_enqueue_jobs($1::jsonb)', [`[${jobs.map(({ json }) => json)}]`]);
        jobs.forEach(({ resolve }, place) => resolve(String(rows[place].job_id)));
    };

    // If the server rejects a job, the other jobs must not fail. If the connection breaks, it is unknown whether the jobs have been
    // enqueued, so they are not enqueued again.
    const insertOrReject = async (jobs) => {
        try {
            await insert(jobs);
        } catch (error) {
            if (jobs.length > 1 && !isBroken(error)) await Promise.all(jobs.map((job) => insertOrReject([job])));
            else for (const { reject } of jobs) reject(error);
        }
    };

    const insertAll = async () => {
        while (waiting.length) {
            const jobs = waiting.slice(0, most);
            waiting = waiting.slice(most);
            await insertOrReject(jobs);
        }
        started = false;
    };

    const add = (json) => new Promise((resolve, reject) => {
        waiting.push({ json, resolve, reject });
        if (started) return;
        started = true;
        setImmediate(insertAll);    // after the other calls that are ready now
    });

    return (queue = 'default', payload = {}, jobOptions = {}) => sending({ queue }, async (send) => {
        checkNames(jobOptions, OPTION_NAMES, 'an enqueue');
        const [spec] = specsOf([{ ...jobOptions, queue, metadata: send.into(jobOptions.metadata) }]);
        const id = await add(`{"payload":${toJson(payload, 'the payload')},${toJson(spec).slice(1)}`);
        send.enqueued(id);
        return id;
    });
}
