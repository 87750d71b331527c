// Shared by the runners: arguments, the record of handled IDs, and the report. scenarios/peers.py calls each runner with ACTION
// CONFIG, where CONFIG is JSON: {mode, jobs, seconds, clients, sync}. "fill" enqueues. "work" handles jobs until the time is up
// and prints one line of JSON: the number of handled jobs, the time, and the number of IDs that came twice.

import { writeFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

export const action = process.argv[2];
export const config = JSON.parse(process.argv[3] ?? '{}');
export const options = `-c synchronous_commit=${config.sync ?? 'off'}`;

// A directory as the host means a socket. It is passed as a query parameter because it contains slashes.
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

    // The clock starts with the first job, so that the start of the runner is not measured.
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

    // The measurement begins with the first job. A runner that gets no job ends with an error.
    async measure(seconds) {
        for (let waited = 0; this.first === null; waited += 1) {
            if (waited > 20_000) throw new Error('no job came');
            await sleep(1);
        }
        await sleep(seconds * 1000);
        this.mark();
    }

    // Ends the measurement. Jobs that are handled while the runner stops count only for the audit.
    mark() {
        this.count = this.seen.size;
        this.ended = performance.now();
        this.cpu = process.cpuUsage(this.cpu);
    }

    // The numbers of the handled jobs, for a comparison with the enqueued jobs.
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
