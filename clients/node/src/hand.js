// The jobs that a worker has in hand: claimed, but not yet reported. Connects claims, handlers, heartbeats, and reports. Needs no
// server.
import { Attempt } from './attempt.js';
import { Collisions } from './collisions.js';
import { Cancelled } from './errors.js';
import { Load } from './load.js';
import { nameOf } from './logger.js';
import { nothing, ofError, ofReturn, release } from './outcome.js';
import { slotsOfPatterns } from './patterns.js';

export class Hand {
    #attempts = new Map();  // keyed by lease, because a job may come again before its first handler has ended
    #done = [];             // completions to send with the next claim
    #prefetched = [];       // attempts whose handlers wait for a slot
    #leftOut = new Set();   // queues for which the worker does not wait, because their slots are in use
    #waiters = [];
    #collisions = new Collisions();

    /**
     * prefetch: the number of jobs that may wait for a slot. load: the Load that the hand shares with others. heartbeats, reports: the
     * worker's objects. away(): whether no claim will send completions. run(attempt): starts the handler. queues, patterns: Maps with the
     * slots of each queue of a worker that serves several queues. hasRoom(): ends a wait, because a slot of a queue that is not part of
     * the wait is free. failed(attempt, outcome): returns the outcome to report for an attempt that may have failed.
     */
    constructor({
        slots, prefetch = 0, queues, patterns, load = new Load(), log, heartbeats, reports, away, run, every, hasRoom = () => {},
        failed = (attempt, outcome) => outcome,
    }) {
        Object.assign(this, { slots, prefetch, queues, load, log, heartbeats, reports, away, run, every, hasRoom, failed });
        this.slotsOfPatterns = patterns?.size ? slotsOfPatterns(patterns) : undefined;
        load.hands.add(this);
    }

    get size() {
        return this.#attempts.size;
    }

    get done() {
        return this.#done.length;
    }

    get attempts() {
        return [...this.#attempts.values()];
    }

    get running() {
        return this.attempts.filter((attempt) => attempt.running);
    }

    /** Returns how many jobs a claim may take, if it sends the completions that are to be sent with the next claim. */
    room() {
        this.#leftOut.clear();
        if (this.slots === 0) return 0;
        const room = this.slots + this.prefetch - this.load.held.all + this.load.done.all;
        return this.queues && !this.slotsOfPatterns ? Math.min(room, [...this.rooms().values()].reduce((sum, one) => sum + one, 0)) : room;
    }

    /**
     * Returns how many jobs of each queue a claim may take, in the order of the queues; undefined if the worker serves one queue. If
     * the worker has patterns, includes queues without free slots and queues of patterns that have running jobs, because the
     * patterns would select all of these queues. waits: the worker is about to wait for jobs of these queues.
     */
    rooms(waits = false) {
        if (!this.queues) return undefined;
        const rooms = new Map();
        const add = (queue, slots) => {
            const room = slots + this.prefetch - this.load.held.of(queue) + this.load.done.of(queue);
            if (room > 0 || this.slotsOfPatterns) rooms.set(queue, Math.max(room, 0));
            if (room <= 0 && waits) this.#leftOut.add(queue);
        };
        for (const [queue, slots] of this.queues) add(queue, slots);
        for (const queue of this.slotsOfPatterns ? this.load.held.queues() : []) {
            const slots = this.slotsOfPatterns(queue);
            if (slots !== undefined && !this.queues.has(queue)) add(queue, slots);
        }
        return rooms;
    }

    /** Resolves when a job has ended or wake() is called. */
    changed() {
        return new Promise((resolve) => this.#waiters.push(resolve));
    }

    wake() {
        for (const resolve of this.#waiters.splice(0)) resolve();
    }

    // ---- claims

    takeDone() {
        const done = this.#spliceDone();
        this.#told(done, true);
        return done;
    }

    #spliceDone() {
        const done = this.#done.splice(0);
        for (const { row } of done) this.load.done.add(row.queue, -1);
        return done;
    }

    /**
     * Adds claimed jobs. done: completions sent with the claim. stopping: whether the worker is stopping, so that the jobs are
     * given back.
     */
    claimed(rows, done, stopping) {
        const attempts = rows.map((row) => new Attempt(row, this.host));
        this.#heartbeat(done, rows);
        this.#answered(done);
        for (const attempt of attempts) {
            this.#attempts.set(attempt.row.lease, attempt);
            this.load.held.add(attempt.row.queue, 1);
        }
        this.#prefetched.push(...attempts);
        if (stopping || this.slots === 0) this.releasePrefetched();
        else this.#startPrefetched();
    }

    /** Gives back the jobs whose handlers have not started. */
    releasePrefetched() {
        const attempts = this.#prefetched.splice(0);
        for (const attempt of attempts) attempt.outcome = release();
        this.reports.add(attempts);
    }

    /** Changes the number of handlers that may run. With 0, gives back the jobs whose handlers have not started. */
    setSlots(slots) {
        this.slots = slots;
        if (slots === 0) this.releasePrefetched();
        this.loadChanged();
    }

    /** Called when no claim can send completions. They are then sent over the heartbeat connection. */
    goAway() {
        this.reports.add(this.#spliceDone());
    }

    /** Reports completions that a claim should have sent. */
    report(attempts) {
        this.#told(attempts, false);
        this.reports.add(attempts);
    }

    // ---- handlers

    /** Called when handlers may start or jobs may be claimed. freed: the queue in which a slot is free again, if any. */
    loadChanged(freed) {
        this.#startPrefetched();
        this.wake();
        if (!this.#leftOut.has(freed)) return;
        this.#leftOut.clear();
        this.hasRoom();
    }

    /** Called when the worker has ended. */
    leave() {
        this.load.hands.delete(this);
        for (const attempt of this.attempts) if (!attempt.running) this.#free(attempt);
    }

    #startPrefetched() {
        while (this.load.running.all < this.slots) {
            const place = this.#prefetched.findIndex(({ row: { queue } }) => this.load.running.of(queue) < this.#slotsOf(queue));
            if (place < 0) return;
            const [attempt] = this.#prefetched.splice(place, 1);
            attempt.running = true;
            this.load.running.add(attempt.row.queue, 1);
            this.load.giveWay(this);
            this.run(attempt);
        }
    }

    #slotsOf(queue) {
        return this.queues?.get(queue) ?? this.slotsOfPatterns?.(queue) ?? this.slots;
    }

    returned(attempt, value) {
        this.#decide(attempt, ofReturn(value, attempt.state));
    }

    threw(attempt, error) {
        this.#decide(attempt, ofError(error, attempt.cancelled, attempt.state));
    }

    #decide(attempt, outcome) {
        this.#end(attempt, this.failed(attempt, this.#collisions.decide(attempt.row.id, outcome)));
    }

    /** Pauses the heartbeats of a job before the handler's transaction locks the job's row. */
    settle({ row }) {
        return this.heartbeats.settle(row.lease);
    }

    /** Resumes the heartbeats after that transaction has ended. */
    resume(attempt) {
        this.#told([attempt], false);
    }

    /** Ends heartbeats of a job that the handler's transaction has completed, or that waits. The handler may still run. */
    ended(attempt) {
        this.#heartbeat([attempt], []);
    }

    /** Gives the job back although its handler still runs. */
    abandon(attempt) {
        attempt.abandoned = true;
        if (attempt.over) {
            attempt.outcome = nothing(attempt.state);
            this.#answered([attempt]);
            return;
        }
        attempt.outcome = release();
        this.reports.add([attempt]);
    }

    // ---- answers of the server

    /** Called when the attempts have been reported: their slots are free. */
    reported(attempts) {
        this.#heartbeat(attempts, []);
        this.#answered(attempts);
    }

    /** Called when a report finds the lease lost, so the handler's outcome is discarded. */
    lost(attempt) {
        this.log.warn(`${nameOf(attempt.row)}: the lease is lost, and so is its report`);
        attempt.lost = true;
    }

    /** Called with the answer to a heartbeat. If the attempt's report has been sent, the answer to the report decides instead. */
    heard(lease, state) {
        const attempt = this.#attempts.get(lease);
        if (!attempt || attempt.outcome || attempt.completing || attempt.over) return;
        if (state === 'finished') return;
        if (state !== 'cancel') this.log.warn(`${nameOf(attempt.row)}: the lease is lost`);
        attempt.stop(state === 'cancel' ? 'cancel' : 'lost');
        const place = this.#prefetched.indexOf(attempt);
        if (place < 0) return;
        this.#prefetched.splice(place, 1);
        this.threw(attempt, new Cancelled(attempt.cancelled));
    }

    progressed(lease, number) {
        this.#attempts.get(lease)?.progressReported(number);
    }

    /** Called with each outcome when it is known. The worker replaces this function. */
    settled() {}

    #end(attempt, outcome) {
        if (attempt.running) {
            attempt.running = false;
            this.load.running.add(attempt.row.queue, -1);
        }
        if (attempt.outcome) {          // an abandoned job may already run on another worker
            this.#free(attempt);
            this.wake();
            return;
        }
        attempt.outcome = outcome;
        this.#logEnd(attempt, outcome);
        if (outcome.what === 'nothing') this.#endedWithout(attempt);
        else if (outcome.what === 'complete' && attempt.progress === undefined && !attempt.logged && !this.away()) this.#addDone(attempt);
        else this.reports.add([attempt]);
        this.load.changed();
    }

    #addDone(attempt) {
        this.#done.push(attempt);
        this.load.done.add(attempt.row.queue, 1);
    }

    #logEnd({ row }, { what, text, cancelled, collision }) {
        if (what === 'fail' && cancelled) this.log.info(`${nameOf(row)}: cancelled`);
        else if (what === 'fail') this.log.warn(`${nameOf(row)}: failed: ${text}`);
        else if (what === 'release' && collision) this.log.info(`${nameOf(row)}: collided with another transaction, is given back: ${text}`);
    }

    #endedWithout(attempt) {
        if (attempt.outcome.text === 'lost' && attempt.state !== 'lost') this.log.warn(`${nameOf(attempt.row)}: the lease is lost`);
        if (!attempt.logged) this.reported([attempt]);
        else this.reports.writeLines(attempt).then(() => this.reported([attempt]));
    }

    // Sends both changes in one message, because it may go to another thread.
    #heartbeat(ended, rows) {
        if (!ended.length && !rows.length) return;
        this.heartbeats.change(ended.map(({ row }) => row.lease),
            rows.map((row) => ({ id: row.id, lease: row.lease, every: this.every(row) })));
    }

    #told(attempts, told) {
        if (attempts.length) this.heartbeats.told(attempts.map(({ row }) => row.lease), told);
    }

    #answered(attempts) {
        if (!attempts.length) return;
        this.#forget(attempts);
        for (const attempt of attempts) this.settled(attempt);
    }

    #forget(attempts) {
        for (const attempt of attempts) {
            this.#attempts.delete(attempt.row.lease);
            if (!attempt.running) this.#free(attempt);
        }
        this.wake();
    }

    #free(attempt) {
        if (attempt.freed) return;
        attempt.freed = true;
        this.load.held.add(attempt.row.queue, -1);
        this.load.changed(attempt.row.queue);
    }
}
