// The thread that answers liveness probes even if handlers block the main thread. probes.js starts it.
import { parentPort } from 'node:worker_threads';
import { Liveness } from './liveness.js';
import { notify } from './systemd.js';

const log = (level) => (text) => parentPort.postMessage([level, text]);
const liveness = new Liveness({ log: log('error'), notify: (state) => notify(state, { warn: log('warn') }) });

const TOLD = {
    watch: (port, ...values) => liveness.watch(...values).then(() => port.postMessage(null), ({ message }) => port.postMessage(message)),
    leave: (number) => liveness.leave(number),
    ready: (seconds) => liveness.ready(seconds),
};

parentPort.on('message', ([name, ...values]) => TOLD[name](...values));
