// Sends outcomes of jobs over the heartbeat connection. Outcomes that arrive together are sent together; they are sent again
// after the connection breaks, and one by one after the server has rejected a batch.
import { isAgain, isBroken, sqlstate } from './connection.js';
import { nameOf } from './logger.js';
import { afterRefusal, isFinished } from './outcome.js';
import { COMPLETE_MANY, FAIL, FAIL_WITHOUT_DETAILS, HEARTBEAT, HEARTBEAT_BRIEFLY, RELEASE_MANY, SNOOZE, leasesOf, resultsOf } from './statements.js';
import { pauseAfter, sleep } from './timing.js';
import { messageOf, toInterval } from './values.js';

const LONGEST_PAUSE = 1;   // seconds; short, because the last reports have only four seconds

// Reports that can be sent in batches: the statement and its values, and the result column.
const TOGETHER = {
    complete: { column: 'completed', ask: (many) => [COMPLETE_MANY, [...leasesOf(many), resultsOf(many)]] },
    release: { column: 'released', ask: (many) => [RELEASE_MANY, leasesOf(many)] },
};

export class Reports {
    #waiting = [];
    #busy = false;
    #serverTakesDetails = true;
    #ended = new AbortController();

    /**
     * query: sends over the heartbeat connection. reported(attempts): called after the answer. lost(attempt): called if the lease
     * is lost.
     */
    constructor({ query, writeLog, log, reported, lost }) {
        Object.assign(this, { query, writeLog, log, reported, lost });
    }

    add(attempts) {
        if (!attempts.length) return;
        this.#waiting.push(...attempts);
        this.#deliver();
    }

    end() {
        this.#ended.abort();
    }

    /**
     * Returns the state that a heartbeat finds. Repeats until there is an answer; each try waits only briefly for locks, to delay
     * no others.
     */
    async verify(attempt) {
        const [{ state }] = await this.#patiently(() => this.query(HEARTBEAT_BRIEFLY, [attempt.row.id, attempt.row.lease]));
        return state;
    }

    /** Sends progress that no heartbeat has reported. */
    async flush(attempt) {
        if (attempt.progress !== undefined) await this.#patiently(() => this.#progress(attempt));
    }

    /** Sends the log lines of an attempt that ends without a report. Never rejects. */
    async writeLines(attempt) {
        try {
            await this.#patiently(() => this.writeLog([attempt]));
        } catch (error) {
            this.log.error(`${nameOf(attempt.row)}: its log lines were not sent: ${messageOf(error)}`);
        }
    }

    async #patiently(work) {
        for (let failures = 1; ; failures += 1) {
            try {
                return await work();
            } catch (error) {
                if (!isAgain(error) || this.#ended.signal.aborted) throw error;
                await this.#pause(failures);
            }
        }
    }

    #pause(failures) {
        return sleep(Math.min(pauseAfter(failures), LONGEST_PAUSE), this.#ended.signal);
    }

    async #deliver() {
        if (this.#busy) return;
        this.#busy = true;
        let failures = 0;
        while (this.#waiting.length && !this.#ended.signal.aborted) {
            // Jobs that end at the same moment are reported together.
            await new Promise(setImmediate);
            const taken = this.#waiting.splice(0);
            const left = new Set(taken);
            try {
                await this.#round(taken, left);
                failures = 0;
            } catch (error) {
                failures += 1;
                if (!isBroken(error)) this.log.warn(`reports are sent again: ${messageOf(error)}`);
                for (const attempt of left) attempt.outcome.sent ||= isBroken(error);
                this.#waiting.unshift(...left);
                await this.#pause(failures);
            }
        }
        this.#busy = false;
    }

    // Removes answered reports from left. Throws at once if the connection breaks. A collision delays no other report, and is
    // thrown last.
    async #round(taken, left) {
        let collision = null;
        const collided = (error) => {
            if (isBroken(error)) throw error;
            collision = error;
        };
        const answered = (attempts) => {
            for (const attempt of attempts) left.delete(attempt);
            this.reported(attempts);
        };
        const ready = new Set(taken);
        const logged = taken.filter((attempt) => attempt.logged);
        // If this breaks the connection, the reports are sent nevertheless, because perhaps only the shard of one job is down.
        if (logged.length) await this.writeLog(logged).catch(() => {});
        for (const attempt of taken) {
            if (attempt.progress !== undefined) await this.#progress(attempt).catch((error) => { collided(error); ready.delete(attempt); });
        }
        for (const [what, how] of Object.entries(TOGETHER)) {
            const many = [...ready].filter(({ outcome }) => outcome.what === what && !outcome.alone);
            if (!many.length) continue;
            if (await this.#together(many, how).catch(collided)) answered(many);
            else for (const attempt of many) attempt.outcome.alone = true;
        }
        for (const attempt of ready) {
            if (left.has(attempt)) await this.#alone(attempt).then(() => answered([attempt]), collided);
        }
        if (collision) throw collision;
    }

    async #progress(attempt) {
        const { row, progress, progressNumber } = attempt;
        try {
            await this.query(HEARTBEAT, [row.id, row.lease, progress]);
        } catch (error) {
            if (isAgain(error)) throw error;
            this.log.error(`${nameOf(row)}: its progress was refused: ${messageOf(error)}`);
        }
        attempt.progressReported(progressNumber);
    }

    // Returns false if the server rejected the batch, of which only some reports may be at fault.
    async #together(many, { column, ask }) {
        let rows;
        try {
            rows = await this.query(...ask(many));
        } catch (error) {
            if (isAgain(error)) throw error;
            return false;
        }
        for (const [place, attempt] of many.entries()) await this.#taken(attempt, rows[place]?.[column] === true);
        return true;
    }

    async #alone(attempt) {
        try {
            await this.#taken(attempt, await this.#send(attempt));
        } catch (error) {
            if (isAgain(error)) throw error;
            this.log.error(`${nameOf(attempt.row)}: the report was refused: ${messageOf(error)}`);
            const next = afterRefusal(attempt.outcome, error);
            if (!next) return;
            attempt.outcome = next;
            await this.#alone(attempt);
        }
    }

    async #send({ row: { id, lease }, outcome }) {
        if (outcome.what === 'complete') return (await this.query(COMPLETE_MANY, [[id], [lease], [outcome.result]]))[0]?.completed === true;
        if (outcome.what === 'release') return (await this.query(RELEASE_MANY, [[id], [lease]]))[0]?.released === true;
        if (outcome.what === 'snooze') return (await this.query(SNOOZE, [id, lease, toInterval(outcome.delay)]))[0].snoozed;
        const values = [id, lease, outcome.text, toInterval(outcome.retryIn) ?? null, outcome.retry ?? true];
        return (await this.#fail(values, outcome.details ?? null))[0].status !== null;
    }

    // An older server has no jobq_fail() with details, so the failure is then reported without them.
    async #fail(values, details) {
        let undefinedFunction = null;
        if (this.#serverTakesDetails) {
            try {
                return await this.query(FAIL, [...values, details]);
            } catch (error) {
                if (sqlstate(error) !== '42883') throw error;
                undefinedFunction = error;
            }
        }
        const rows = await this.query(FAIL_WITHOUT_DETAILS, values);
        if (undefinedFunction) {
            this.log.warn(`failures are reported without details, because jobq is older on the server than here: ${messageOf(undefinedFunction)}`);
            this.#serverTakesDetails = false;
        }
        return rows;
    }

    // Determines whether the lease is lost, or an earlier report ended the job and only its answer was lost.
    async #taken(attempt, taken) {
        if (taken || (attempt.outcome.sent && isFinished(await this.verify(attempt)))) {
            if (attempt.outcome.what === 'release') this.log.info(`${nameOf(attempt.row)}: released`);
            return;
        }
        this.lost(attempt);
    }
}
