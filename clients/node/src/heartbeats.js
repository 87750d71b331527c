// Sends heartbeats of all jobs in hand over one connection, which reports share. Runs in a thread that no handler can block
// (heartbeat_thread.js), or in the worker's own thread if the option heartbeatThread is false.
import { Connection, isBroken, sqlstate } from './connection.js';
import { HEARTBEATS, newDue } from './due.js';
import { Lines, inAscii } from './lines.js';
import { HEARTBEAT, HEARTBEAT_MANY, WRITE_LOG, logValues } from './statements.js';
import { milliseconds, now, within } from './timing.js';
import { messageOf } from './values.js';

const LINES_AT_ONCE = 5000; // log lines in one statement
const PROGRESS_EVERY = 1;   // maximum number of seconds until new progress is reported
const ENDS = ['lost', 'gone', 'finished'];

/**
 * Returns when the next heartbeat of all jobs is due: the shortest interval after the oldest heartbeat. Skips jobs that are being
 * reported.
 */
export function dueAt(jobs, longest = Infinity) {
    let [oldest, every] = [Infinity, longest];
    for (const job of jobs) if (!job.told) [oldest, every] = [Math.min(oldest, job.at), Math.min(every, job.every)];
    return oldest + every;
}

export class Heartbeats {
    #jobs = new Map();      // keyed by lease, because a job may come again before its first handler has ended
    #lines = new Map();     // log lines that have not been sent, keyed by lease, because lines of a lost job are sent, too
    #writing = Promise.resolve();
    #timer = null;
    #beating = false;
    #sent = { leases: [], answered: null };   // the heartbeats that wait for an answer
    #closed = false;

    /**
     * heard(lease, state), progressed(lease, number): called with answers. answered(seconds): called with the duration of each
     * answer. due: the next signs of life (due.js). info: the argument worker_info (presence.js).
     */
    constructor({ configuration, interval, prepare, log, heard, progressed, answered, due = newDue(), info = null }) {
        Object.assign(this, { interval, log, heard, progressed, due, info });
        this.connection = new Connection({ name: 'heartbeats and reports', configuration, log, prepare, answered });
    }

    open() {
        return this.connection.open();
    }

    /** Removes leases that are no longer held, and adds jobs {id, lease, every}. */
    change(dropped, held) {
        for (const lease of dropped) this.#jobs.delete(lease);
        const fresh = () => ({ at: now(), progress: undefined, number: 0, progressAt: 0, told: false });
        for (const job of held) this.#jobs.set(job.lease, { ...job, ...fresh() });
        this.#schedule();
    }

    /**
     * Pauses heartbeats of jobs whose rows another statement may lock, because all heartbeats would wait for the lock. false:
     * resumes them.
     */
    told(leases, told) {
        for (const lease of leases) {
            const job = this.#jobs.get(lease);
            if (job) job.told = told;
        }
        if (!told) this.#schedule();
    }

    /**
     * Pauses the heartbeats of a job whose row a transaction is about to lock until its commit. Returns when a heartbeat of the
     * job that has already been sent is answered, or after one interval.
     */
    async settle(lease) {
        this.told([lease], true);
        const { leases, answered } = this.#sent;
        if (leases.includes(lease)) await within(this.#jobs.get(lease)?.every ?? 0, answered);
    }

    progress(lease, number, json) {
        const job = this.#jobs.get(lease);
        if (!job) return;
        [job.progress, job.number] = [json, number];
        this.#schedule();
    }

    /** Keeps a log line {level, text} until the next heartbeat or flush(). */
    line(id, lease, line) {
        if (!this.#lines.has(lease)) this.#lines.set(lease, { id, lease, lines: new Lines() });
        this.#lines.get(lease).lines.add({ ...line, at: now() });
    }

    /**
     * Sends the log lines of these leases, or of all. If the server rejects the lines, they are dropped. Rejects if they must be
     * sent again, for example because the connection is broken.
     */
    flush(leases) {
        this.#writing = this.#writing.catch(() => {}).then(() => this.#write(leases ?? [...this.#lines.keys()]));
        return this.#writing;
    }

    query(statement, values) {
        return this.connection.query(statement, values);
    }

    async close() {
        this.#closed = true;
        clearTimeout(this.#timer);
        await this.connection.close();
    }

    #due() {
        let due = dueAt(this.#jobs.values(), this.interval);
        for (const job of this.#jobs.values()) {
            if (job.progress !== undefined && !job.told) due = Math.min(due, job.progressAt + PROGRESS_EVERY);
        }
        return due;
    }

    #schedule() {
        clearTimeout(this.#timer);
        if (this.#beating) return;
        const left = this.#closed || this.#jobs.size === 0 ? Infinity : Math.max(0, this.#due() - now());
        this.due[HEARTBEATS] = now() + left;
        if (left < Infinity) this.#timer = setTimeout(() => this.#beat(), milliseconds(left));
    }

    async #beat() {
        this.#beating = true;
        try {
            await this.connection.reopen();
            const all = dueAt(this.#jobs.values(), this.interval) <= now();
            const held = [...this.#jobs.values()].filter((job) => !job.told);
            const progress = held.filter((job) => job.progress !== undefined && (all || job.progressAt + PROGRESS_EVERY <= now()));
            // Sends the heartbeats of all jobs before progress, because progress may fail if its shard is down, and must not
            // delay heartbeats.
            if (all && held.length) await this.#many(held);
            for (const job of progress) if (this.#jobs.get(job.lease) === job && !job.told) await this.#withProgress(job);
            if (all && this.#lines.size) await this.flush();
        } catch (error) {
            if (!isBroken(error)) this.log.error(`a heartbeat was refused: ${messageOf(error)}`);
        } finally {
            this.#beating = false;
            this.#schedule();
        }
    }

    async #many(jobs) {
        const at = now();
        let rows = [];
        try {
            rows = await this.#send(jobs, HEARTBEAT_MANY, [jobs.map(({ id }) => id), jobs.map(({ lease }) => lease), this.info]);
        } catch (error) {
            if (!isBroken(error)) for (const job of jobs) job.at = at;
            throw error;
        }
        rows.forEach(({ state }, place) => this.#answer(jobs[place], state, at));
    }

    async #withProgress(job) {
        const { progress, number } = job;
        [job.progress, job.progressAt] = [undefined, now()];
        try {
            const [{ state }] = await this.#send([job], HEARTBEAT, [job.id, job.lease, progress]);
            this.progressed(job.lease, number);
            this.#answer(job, state, job.progressAt);
        } catch (error) {
            if (isBroken(error)) job.progress ??= progress;
            else this.progressed(job.lease, number);
            throw error;
        }
    }

    async #write(leases) {
        const taken = leases.filter((lease) => this.#lines.has(lease)).map((lease) => {
            const { id, lines } = this.#lines.get(lease);
            return { lines, taken: lines.take(now()).map((line) => ({ id, lease, ...line })) };
        });
        const all = taken.flatMap((one) => one.taken);
        try {
            for (let first = 0; first < all.length; first += LINES_AT_ONCE) await this.#writeAll(all.slice(first, first + LINES_AT_ONCE));
        } catch (error) {
            if (isBroken(error)) {
                for (const one of taken) one.lines.giveBack(one.taken);
                throw error;
            }
            this.log.error(`log lines of jobs ${[...new Set(all.map(({ id }) => id))].join(', ')} were refused: ${messageOf(error)}`);
        } finally {
            for (const lease of leases) if (this.#lines.get(lease)?.lines.empty) this.#lines.delete(lease);
        }
    }

    async #writeAll(lines) {
        try {
            await this.query(WRITE_LOG, logValues(lines, now()));
        } catch (error) {
            if (sqlstate(error) !== '22P05') throw error;   // the encoding of the database lacks a character
            await this.query(WRITE_LOG, logValues(inAscii(lines), now()));
        }
    }

    async #send(jobs, statement, values) {
        const answered = this.query(statement, values);
        this.#sent = { leases: jobs.map(({ lease }) => lease), answered };
        try {
            return await answered;
        } finally {
            this.#sent = { leases: [], answered: null };
        }
    }

    #answer(job, state, at) {
        job.at = at;
        if (ENDS.includes(state) && this.#jobs.get(job.lease) === job) this.#jobs.delete(job.lease);
        if (state !== 'held') this.heard(job.lease, state);
    }
}
