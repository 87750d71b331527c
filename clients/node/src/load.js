// How many jobs a process holds and runs, in total and for each queue. The workers of a cluster share one Load. Needs no server.

class Tally {
    all = 0;
    #byQueue = new Map();

    of(queue) {
        return this.#byQueue.get(queue) ?? 0;
    }

    queues() {
        return this.#byQueue.keys();
    }

    add(queue, change) {
        this.all += change;
        const count = this.of(queue) + change;
        if (count > 0) this.#byQueue.set(queue, count);
        else this.#byQueue.delete(queue);
    }
}

export class Load {
    held = new Tally();     // jobs that have not been reported, or whose handlers still run
    running = new Tally();  // running handlers
    done = new Tally();     // completions that are to be sent with the next claim
    hands = new Set();      // the Hands (hand.js) that share this Load

    /** Called when a handler has ended, or when a slot is free again, with the queue of its job. */
    changed(freed) {
        for (const hand of [...this.hands]) hand.loadChanged(freed);
    }

    /** Lets the other hands start handlers first. */
    giveWay(hand) {
        if (this.hands.size > 1 && this.hands.delete(hand)) this.hands.add(hand);
    }
}
