// Tells systemd the states of this process, if its unit has Type=notify.
import { execFile } from 'node:child_process';
import process from 'node:process';

/** Sends a state. Node cannot send datagrams to a Unix socket, so a program of systemd does this. */
export function notify(state, log) {
    if (!process.env.NOTIFY_SOCKET) return;
    execFile('systemd-notify', [state], (error) => {
        if (error) log.warn(`could not send ${state} to systemd: ${error.message.trim()}`);
    });
}

/** Returns after how many seconds of silence systemd ends this process, or undefined. */
export function watchdog({ WATCHDOG_USEC: microseconds, WATCHDOG_PID: pid } = process.env) {
    return Number(microseconds) > 0 && (!pid || pid === String(process.pid)) ? Number(microseconds) / 1e6 : undefined;
}
