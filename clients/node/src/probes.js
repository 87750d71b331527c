// The workers' side of the thread that answers liveness probes (liveness.js). All workers of the process share this thread.
import process from 'node:process';
import { MessageChannel, Worker as Thread } from 'node:worker_threads';
import { OptionError } from './errors.js';
import { notify, watchdog } from './systemd.js';

const watched = new Map();  // worker -> its number in the thread
let thread = null;
let numbers = 0;
let log = null;             // the logger of the worker that has started last

/** Covers the worker, if it has an option or systemd expects states, until leave(). */
export async function watch(worker) {
    const { options: { livenessFile, livenessPort }, due } = worker;
    if (livenessFile === undefined && livenessPort === undefined && !process.env.NOTIFY_SOCKET) return;
    log = worker.log;
    thread ??= start();
    numbers += 1;
    watched.set(worker, numbers);
    const { port1: answer, port2: port } = new MessageChannel();
    thread.postMessage(['watch', port, numbers, { id: worker.id, due, livenessFile, livenessPort }], [port]);
    const error = await new Promise((resolve) => {
        answer.on('message', resolve);
        answer.on('close', () => resolve('the thread that answers liveness probes has ended'));
    });
    answer.close();
    if (error) throw new OptionError(error);
}

export function leave(worker) {
    if (watched.has(worker)) thread.postMessage(['leave', watched.get(worker)]);
    watched.delete(worker);
}

/** Tells systemd that all workers have started. From now on, systemd expects its watchdog to be told, too. */
export function ready(logger) {
    notify('READY=1', logger);
    if (thread && watchdog()) thread.postMessage(['ready', watchdog()]);
}

function start() {
    const started = new Thread(new URL('./liveness_thread.js', import.meta.url), { name: 'jobq liveness' });
    started.on('message', ([level, text]) => log[level](text));
    started.on('error', (error) => log.error(`the thread that answers liveness probes has ended: ${error.message}`));
    started.unref();
    return started;
}
