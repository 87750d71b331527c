// Patterns of queue names, with the syntax of LIKE. Needs no server.
const WILDCARDS = { '%': '.*', _: '.' };

/** Returns false if the server would reject the pattern because its last backslash precedes no character. */
export const isPattern = (text) => /^(?:\\.|[^\\])*$/su.test(text);

const regexOf = (pattern) => new RegExp(`^${[...pattern.matchAll(/\\.|./gsu)]
    .map(([part]) => WILDCARDS[part] ?? [...part].at(-1).replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&')).join('')}$`, 'su');

/**
 * Returns a function that returns the slots of the first pattern that matches a queue, as the server does, or undefined if no
 * pattern matches. patterns: a Map with the slots of each queue that a pattern matches.
 */
export function slotsOfPatterns(patterns) {
    const regexes = [...patterns].map(([pattern, slots]) => [regexOf(pattern), slots]);
    return (queue) => regexes.find(([regex]) => regex.test(queue))?.[1];
}
