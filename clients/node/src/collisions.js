// Jobs whose transactions collided with other transactions (SQLSTATE 40001, 40P01). They are given back without counting the
// attempt, but only a limited number of times in a row. Needs no server.
const MOST = 10;            // maximum number of collisions in a row
const REMEMBERED = 1000;    // maximum number of jobs that are remembered

export class Collisions {
    #counts = new Map();    // number of collisions of each job, the latest job last

    /** Returns the outcome to report for an attempt that had this outcome. */
    decide(id, outcome) {
        const count = (this.#counts.get(id) ?? 0) + 1;
        this.#counts.delete(id);
        if (outcome.what !== 'fail' || !outcome.collision || count > MOST) return outcome;
        this.#counts.set(id, count);
        if (this.#counts.size > REMEMBERED) this.#counts.delete(this.#counts.keys().next().value);
        return { ...outcome, what: 'release' };
    }
}
