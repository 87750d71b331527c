// What the runners share: arguments, the record of handled ids, the report. Each runner is called by
// scenarios/peers.py with ACTION CONFIG, CONFIG as JSON: {mode, jobs, seconds, clients, sync}. "fill" enqueues, "work" handles jobs
// until the time is up and prints one line of JSON: what was handled, how long it took, whether an id came twice.

import { writeFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

export const action = process.argv[2];
export const config = JSON.parse(process.argv[3] ?? '{}');
export const options = `-c synchronous_commit=${config.sync ?? 'off'}`;

// A directory as host means a socket. Its name goes into the query, for it contains slashes.
const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env;
export const connectionString = `postgres://${PGUSER}@/${PGDATABASE}?host=${encodeURIComponent(PGHOST)}&port=${PGPORT}` +
    `&options=${encodeURIComponent(options)}`;
export const connection = { host: PGHOST, port: Number(PGPORT), user: PGUSER, database: PGDATABASE, options };

// The same 100 bytes as bench_payload() in contenders.py.
export const payload = (n) => ({ n: String(n).padStart(12, '0'), text: 'x'.repeat(67) });

export class Record {
    constructor() {
        this.seen = new Map();
        this.twice = 0;
        this.latencies = [];
        this.first = null;
    }

    // The clock starts with the first job: how long a runner takes to come up is not asked.
    begin() {
        if (this.first !== null) return;
        this.first = performance.now();
        this.cpu = process.cpuUsage();
    }

    handled(id) {
        this.begin();
        const times = this.seen.get(id) ?? 0;
        if (times > 0) this.twice += 1;
        this.seen.set(id, times + 1);
    }

    // The measurement: from the first job on. A runner that gets none ends with an error.
    async measure(seconds) {
        for (let waited = 0; this.first === null; waited += 1) {
            if (waited > 20_000) throw new Error('no job came');
            await sleep(1);
        }
        await sleep(seconds * 1000);
        this.mark();
    }

    // Ends the measurement: what is handled from now on, while the runner stops, counts for the audit only.
    mark() {
        this.count = this.seen.size;
        this.ended = performance.now();
        this.cpu = process.cpuUsage(this.cpu);
    }

    // The jobs by their numbers, for who compares them with what was enqueued.
    log(path) {
        writeFileSync(path, [...this.seen.keys()].map((number) => `a ${number}\n`).join(''));
    }

    report() {
        const sorted = this.latencies.sort((a, b) => a - b);
        const at = (share) => (sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : null);
        console.log(JSON.stringify({
            handled: this.seen.size, measured: this.count, seconds: (this.ended - (this.first ?? this.ended)) / 1000,
            twice: this.twice, client_cpu_s: (this.cpu.user + this.cpu.system) / 1e6, p50_ms: at(0.5), p99_ms: at(0.99),
        }));
    }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
