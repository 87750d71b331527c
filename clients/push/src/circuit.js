// The circuit breaker of an endpoint. After several failures in a row, the circuit opens, and the worker claims no jobs. After a while, it
// is half open: the worker claims one job at a time, and the result of the first delivery closes or opens the circuit.

export class Circuit {
    #state = 'closed';
    #failures = 0;
    #generation = 0;    // number of state changes; a delivery that began in an earlier state does not count
    #timer;

    /** failures, openFor: the option circuit. slots: the concurrency. setSlots(number): sets the number of slots of the worker. */
    constructor({ failures, openFor, slots, setSlots, log, timer = setTimeout }) {
        Object.assign(this, { failures, openFor, slots, setSlots, log, timer });
    }

    get state() {
        return this.#state;
    }

    /** Called when a delivery begins. Returns a function; call it with true if the endpoint has answered, and otherwise with false. */
    begin() {
        const generation = this.#generation;
        return (succeeded) => {
            if (generation !== this.#generation) return;
            if (succeeded) this.#succeeded();
            else this.#failed();
        };
    }

    end() {
        clearTimeout(this.#timer);
    }

    #succeeded() {
        this.#failures = 0;
        if (this.#state === 'half-open') this.#become('closed', this.slots);
    }

    #failed() {
        this.#failures += 1;
        if (this.#state === 'closed' && this.#failures < this.failures) return;
        this.#become('open', 0);
        this.#timer = this.timer(() => this.#become('half-open', 1), this.openFor * 1000);
        this.#timer?.unref?.();
    }

    #become(state, slots) {
        this.#state = state;
        this.#generation += 1;
        this.log(`the circuit is ${state}${state === 'open' ? ` for ${this.openFor} s after ${this.#failures} failures in a row` : ''}`);
        this.setSlots(slots);
    }
}
