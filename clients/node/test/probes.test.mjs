// Tests what the probes of Kubernetes and systemd see of a worker that works, one whose claims are stuck, and a process that stops.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { CLAIMS } from '../src/due.js';
import { enqueue } from '../src/index.js';
import { now } from '../src/timing.js';
import { freePort, probe } from './probe.mjs';
import { becomesTrue, gate, newDatabase, reaches, working } from './server.mjs';

const database = await newDatabase('probes');
const directory = mkdtempSync(join(tmpdir(), 'jobq-probes-'));
after(() => rmSync(directory, { recursive: true }));
const options = async () => ({ livenessFile: join(directory, 'alive'), livenessPort: `127.0.0.1:${await freePort()}` });

test('probes succeed while a handler blocks the event loop', async () => {
    const { livenessFile, livenessPort } = await options();
    const id = await enqueue(database.pool, 'blocked', {}, { kind: 'block' });
    const block = () => {
        unlinkSync(livenessFile);
        const pause = new Int32Array(new SharedArrayBuffer(4));
        for (const until = Date.now() + 60_000; !existsSync(livenessFile) && Date.now() < until;) Atomics.wait(pause, 0, 0, 50);
        const ask = `fetch('http://${livenessPort}/').then(async (answer) => process.stdout.write(answer.status + await answer.text()))`;
        return existsSync(livenessFile) && execFileSync(process.execPath, ['-e', ask], { encoding: 'utf8', timeout: 60_000 });
    };
    await working({ queue: 'blocked', handlers: { block }, livenessFile, livenessPort }, () => reaches(database, id, 'completed'));
    assert.deepEqual((await database.job(id)).result, '200ok\n');
});

test('probes fail while claims are stuck', async () => {
    const { livenessFile, livenessPort } = await options();
    const port = livenessPort.split(':')[1];
    const { open, opened } = gate();
    await working({ queue: 'stuck', handlers: { x: () => opened }, slots: 2, waitTimeout: 0.1, livenessFile, livenessPort }, async (worker, all) => {
        await reaches(database, await enqueue(database.pool, 'stuck', {}, { kind: 'x' }), 'processing');
        assert.deepEqual(await probe(port), [200, 'ok']);
        const { connection } = worker.claims;
        const query = connection.query.bind(connection);
        connection.query = async (...values) => {
            worker.due[CLAIMS] = now() - 121;    // as if it had hung for so long already
            await opened;
            return query(...values);
        };
        await becomesTrue(async () => (await probe(port))[0] === 503);
        assert.deepEqual(await probe(port), [503, `${worker.id}: claims are stuck`]);
        await becomesTrue(() => all.some((line) => line.includes('probes fail')));
        open();
        await becomesTrue(async () => (await probe(port))[0] === 200);
    });
});

// Prints the datagrams that arrive at a Unix socket, which Node cannot receive.
const RECEIVER = `$| = 1; socket(S, AF_UNIX, SOCK_DGRAM, 0) && bind(S, pack_sockaddr_un($ARGV[0])) or die $!; print "bound\\n";
    print "$_\\n" while defined recv(S, $_, 4096, 0);`;
const missing = spawnSync('systemd-notify', ['--version']).error && 'there is no systemd-notify: apt-get install systemd';

test('systemd is notified', { skip: missing }, async () => {
    const socket = join(directory, 'notify');
    const systemd = spawn('perl', ['-MSocket', '-e', RECEIVER, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    const states = [];
    createInterface({ input: systemd.stdout }).on('line', (line) => line !== 'BARRIER=1' && states.push(line));
    await becomesTrue(() => states.includes('bound'));
    const program = join(directory, 'worker.mjs');
    writeFileSync(program, `import { Worker, run } from ${JSON.stringify(new URL('../src/index.js', import.meta.url).href)};
        process.exit(await run(new Worker({ queue: 'systemd', handlers: { x() {} } })));`);
    const worker = spawn(process.execPath, [program], { env: { ...process.env, NOTIFY_SOCKET: socket, WATCHDOG_USEC: '2000000' }, stdio: 'inherit' });
    try {
        await becomesTrue(() => states.includes('READY=1') && states.filter((state) => state === 'WATCHDOG=1').length >= 2);
        const ended = once(worker, 'exit');
        worker.kill('SIGTERM');
        await becomesTrue(() => states.includes('STOPPING=1'));
        assert.deepEqual(await ended, [0, null]);
    } finally {
        worker.kill('SIGKILL');
        systemd.kill();
    }
});
