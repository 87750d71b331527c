// The default logger: standard error. Payloads are never logged.
import process from 'node:process';

const line = (level) => (text) => process.stderr.write(`${new Date().toISOString()} ${level} ${text}\n`);

export const stderrLogger = { info: line('INFO'), warn: line('WARN'), error: line('ERROR') };

/** Returns the logger of a worker, which puts the worker's ID before each line. */
export const loggerOf = ({ logger = stderrLogger, workerId }) => Object.fromEntries(
    ['info', 'warn', 'error'].map((level) => [level, (text) => logger[level](`jobq ${workerId}: ${text}`)]));

export const nameOf = ({ id, kind, attempt }) => `job ${id} of kind ${JSON.stringify(kind)}, attempt ${attempt}`;
