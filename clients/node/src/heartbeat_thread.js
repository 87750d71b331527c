// The thread that sends heartbeats even if handlers block the main thread. heartbeat_port.js starts it, and it ends with its
// parent.
import { parentPort, workerData } from 'node:worker_threads';
import { Heartbeats } from './heartbeats.js';
import { LEAST_LATE } from './pace.js';

const tell = (name, ...values) => parentPort.postMessage([name, ...values]);

const wanted = [];  // calls that wait for a configuration, because only a function of the caller in the main thread can return it

const heartbeats = new Heartbeats({
    ...workerData,
    configuration: workerData.configuration
        ? () => workerData.configuration
        : () => new Promise((resolve, reject) => {
            wanted.push({ resolve, reject });
            tell('configure');
        }),
    log: Object.fromEntries(['info', 'warn', 'error'].map((level) => [level, (text) => tell('log', level, text)])),
    heard: (lease, state) => tell('heard', lease, state),
    progressed: (lease, number) => tell('progressed', lease, number),
    answered: (seconds) => seconds > LEAST_LATE && tell('answered', seconds),
});

// Copies an error into a plain object, because a message between threads would keep only its name and message.
const plain = ({ message, code, severity, detail, hint, where }) => ({ message, code, severity, detail, hint, where });

async function call(number, work) {
    try {
        tell('answer', number, await work(), null);
    } catch (error) {
        tell('answer', number, null, plain(error));
    }
}

const TOLD = {
    open: (number) => call(number, async () => { await heartbeats.open(); }),
    query: (number, statement, values) => call(number, () => heartbeats.query(statement, values)),
    close: (number) => call(number, () => heartbeats.close()),
    change: (dropped, held) => heartbeats.change(dropped, held),
    told: (leases, told) => heartbeats.told(leases, told),
    settle: (number, lease) => call(number, () => heartbeats.settle(lease)),
    progress: (lease, number, json) => heartbeats.progress(lease, number, json),
    line: (id, lease, line) => heartbeats.line(id, lease, line),
    flush: (number, leases) => call(number, () => heartbeats.flush(leases)),
    configuration: (configuration, error) => {
        const { resolve, reject } = wanted.shift();
        if (error) reject(Object.assign(new Error(error.message), error));
        else resolve(configuration);
    },
};

parentPort.on('message', ([name, ...values]) => TOLD[name](...values));
