// Jobs whose transactions collided with others (40001, 40P01). They are given back without counting the attempt, a bounded number of
// times in a row. No server.
const MOST = 10;            // collisions in a row
const REMEMBERED = 1000;    // jobs

export class Collisions {
    #counts = new Map();    // collisions by job, the job that collided last at the end

    /** What is reported of an attempt with this outcome. */
    decide(id, outcome) {
        const count = (this.#counts.get(id) ?? 0) + 1;
        this.#counts.delete(id);
        if (outcome.what !== 'fail' || !outcome.collision || count > MOST) return outcome;
        this.#counts.set(id, count);
        if (this.#counts.size > REMEMBERED) this.#counts.delete(this.#counts.keys().next().value);
        return { ...outcome, what: 'release' };
    }
}
