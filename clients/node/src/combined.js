// Combines concurrent enqueues into one statement, similar to the server's group commit.
import { isBroken } from './connection.js';
import { OptionError, checkNames } from './errors.js';
import { enqueuing } from './middleware.js';
import { OPTION_NAMES, specsOf } from './producers.js';
import { run } from './querying.js';
import { toJson } from './values.js';

const MOST = 1000;                  // jobs in one statement
const MOST_LENGTH = 16_000_000;     // characters of JSON in one statement, unless it has only one job

/**
 * Returns a function enqueue(queue, payload, options), which enqueues a job like enqueue(), but not in a transaction of the caller.
 * While a statement is under way, the calls of the application wait, and the next statement enqueues all of their jobs. Therefore,
 * concurrent calls share a few commits, and a single call does not wait. most: the maximum number of jobs in a statement.
 */
export function combinedEnqueue(pool, options = {}) {
    checkNames(options, ['most'], 'combinedEnqueue()');
    const { most = MOST } = options;
    if (!Number.isSafeInteger(most) || most < 1) throw new OptionError(`option most must be an integer from 1, but is ${most}`);
    let waiting = [];
    let started = false;

    const insert = async (jobs) => {
        const rows = await run(pool, 'SELECT job_id AS id FROM jobq_enqueue_jobs($1::jsonb)', [`[${jobs.map(({ json }) => json)}]`],
            () => jobs.map(({ spec }) => spec));
        jobs.forEach(({ resolve }, place) => resolve(String(rows[place].id)));
    };

    // If the server rejects one job, it enqueues none of the statement. The jobs are then enqueued again in two halves, so that only
    // the call for the rejected job fails. If the connection breaks, it is unknown whether the jobs have been enqueued, so they are
    // not enqueued again.
    const insertOrReject = async (jobs) => {
        try {
            await insert(jobs);
        } catch (error) {
            if (jobs.length === 1 || isBroken(error)) {
                for (const { reject } of jobs) reject(error);
                return;
            }
            const middle = Math.ceil(jobs.length / 2);
            await insertOrReject(jobs.slice(0, middle));
            await insertOrReject(jobs.slice(middle));
        }
    };

    const insertAll = async () => {
        while (waiting.length) {
            let count = 0;
            for (let length = 0; count < Math.min(most, waiting.length); count += 1) {
                length += waiting[count].json.length;
                if (count > 0 && length > MOST_LENGTH) break;
            }
            const jobs = waiting.slice(0, count);
            waiting = waiting.slice(count);
            await insertOrReject(jobs);
        }
        started = false;
    };

    const add = (spec, json) => new Promise((resolve, reject) => {
        waiting.push({ spec, json, resolve, reject });
        if (started) return;
        started = true;
        setImmediate(insertAll);    // after the other calls that are ready now
    });

    return async (queue = 'default', payload = {}, jobOptions = {}) => {
        checkNames(jobOptions, OPTION_NAMES, 'an enqueue');
        const [{ id }] = await enqueuing([{ ...jobOptions, queue, payload }], async ([{ payload, ...others }]) => {
            const [spec] = specsOf([others]);
            return [{ id: await add(spec, `{"payload":${toJson(payload, 'the payload')},${toJson(spec).slice(1)}`) }];
        });
        return id;
    };
}
