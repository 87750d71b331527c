// The log lines of a job that have not been sent yet.
import { OptionError } from './errors.js';
import { shown, toText } from './values.js';

const LEVELS = ['debug', 'info', 'warning', 'error'];
const MOST_LINES = 500;     // lines that wait; fewer than the server stores per attempt, so that the line that counts the others fits
const MOST_BYTES = 8192;   // of a line; the server truncates longer lines
const NOT_ASCII_ALL = /[^\0-\x7f]/gu;

/** Returns {level, text}, and throws if the level is unknown. */
export function toLine(text, level) {
    if (!LEVELS.includes(level)) throw new OptionError(`the level of a log line must be one of ${LEVELS.join(', ')}, but is ${shown(level)}`);
    const whole = toText(text);
    return { level, text: whole.slice(0, new TextEncoder().encodeInto(whole, new Uint8Array(MOST_BYTES)).read) };
}

export class Lines {
    #waiting = [];
    #dropped = 0;

    add(line) {
        if (this.#waiting.length < MOST_LINES) this.#waiting.push(line);
        else this.#dropped += 1;
    }

    /** Returns the lines to send. */
    take(at) {
        const taken = this.#waiting.splice(0);
        if (this.#dropped) {
            const text = `lines dropped before this point: ${this.#dropped} (at most ${MOST_LINES} lines can wait for a heartbeat)`;
            taken.push({ level: 'warning', text, at });
        }
        this.#dropped = 0;
        return taken;
    }

    /** Puts back lines that could not be sent. */
    giveBack(lines) {
        this.#waiting.unshift(...lines);
        this.#dropped += this.#waiting.splice(MOST_LINES).length;
    }

    get empty() {
        return this.#waiting.length === 0;
    }
}

/** Returns the lines for a database whose encoding lacks some of their characters. */
export const inAscii = (lines) => lines.map((line) => ({ ...line, text: line.text.replace(NOT_ASCII_ALL, '?') }));
