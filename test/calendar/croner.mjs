// Compares jobq_next_runs with croner (npm) for random expressions. A difference that none of the rules below explains is a
// failure, and so is a rule that explains nothing. Needs a server (PGHOST, PGPORT).

import { execFileSync } from 'node:child_process';
import { Cron } from 'croner';

const COUNT = Number(process.env.JOBQ_CALENDAR_EXPRESSIONS ?? 10000);
const RUNS = 5;
const ZONES = ['UTC', 'Asia/Kolkata', 'Europe/Berlin', 'America/New_York', 'America/St_Johns', 'Australia/Lord_Howe',
               'America/Sao_Paulo', 'Asia/Tokyo', 'Pacific/Chatham', 'Africa/Cairo'];
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

let seed = Number(process.env.JOBQ_CALENDAR_SEED ?? 20260101);
function random(below) {   // mulberry32
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
}
const one = list => list[random(list.length)];

function field(lowest, highest, names, stars) {
    const number = () => lowest + random(highest - lowest + 1);
    const value = () => names && random(2) ? names[random(names.length)] : String(number());
    const element = () => {
        const first = number(), last = first + random(highest - first + 1);
        switch (random(6)) {
            case 0: return `${first}-${last}`;
            case 1: return `${first}-${last}/${1 + random(highest)}`;
            case 2: return `*/${1 + random(highest)}`;
            default: return value();
        }
    };
    if (random(10) < stars) return '*';
    return Array.from({ length: 1 + random(3) }, element).join(',');
}

function expression() {
    const day = random(8) === 0 ? one(['L', '15,L', '1,L']) : field(1, 31, null, 6);
    const fields = [field(0, 59, null, 2), field(0, 23, null, 3), day, field(1, 12, MONTHS, 6), field(0, 6, WEEKDAYS, 6)];
    return (random(4) === 0 ? [field(0, 59, null, 3), ...fields] : fields).join(' ');
}

function ask(cases) {
    const json = JSON.stringify(cases.map(c => ({ cron: c.cron, zone: c.zone, after: c.after.toISOString() })));
    const sql = `
        CREATE FUNCTION pg_temp.runs(c jsonb) RETURNS jsonb LANGUAGE plpgsql AS $f$
        DECLARE
            why text;
        BEGIN
            RETURN (SELECT coalesce(jsonb_agg(extract(epoch FROM r)::bigint ORDER BY r), '[]')
                    FROM jobq_next_runs(c ->> 'cron', c ->> 'zone', (c ->> 'after')::timestamptz, ${RUNS}) r);
        EXCEPTION WHEN invalid_parameter_value THEN
            GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
            RETURN to_jsonb(SQLERRM || ': ' || why);
        END $f$;
        SELECT jsonb_agg(pg_temp.runs(c) ORDER BY n) FROM jsonb_array_elements($json$${json}$json$::jsonb) WITH ORDINALITY e(c, n);`;
    return JSON.parse(execFileSync('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1'], { input: sql, maxBuffer: 1 << 28 }).toString());
}

function offsetOf(zone) {
    const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' });
    return second => format.formatToParts(new Date(second * 1000)).find(p => p.type === 'timeZoneName').value;
}

// Returns whether the clocks of the zone are changed within three hours of a moment.
const changes = new Map();
function nearChange(zone, second) {
    if (!changes.has(zone)) changes.set(zone, offsetOf(zone));
    const offset = changes.get(zone);
    const hour = Math.floor(second / 3600);
    return offset((hour - 27) * 3600) !== offset((hour + 27) * 3600);
}

const starredDays = c => {
    const [day, , weekday] = c.cron.split(' ').slice(-3);
    return day.startsWith('*') || weekday.startsWith('*');
};
const plainStars = c => {
    const [day, , weekday] = c.cron.split(' ').slice(-3);
    return day === '*' || weekday === '*';
};

const RULES = [
    ['the day of the month or the weekday begins with * and has more: both must hold here, one is enough there',
     (c, ours, theirs) => starredDays(c) && !plainStars(c)],
    ['the clocks are changed that day: crontab(5) has rules for that, croner has others',
     (c, ours, theirs) => typeof ours !== 'string' && [...ours, ...theirs].some(second => nearChange(c.zone, second))],
];

// A third of the moments are at night in weeks in which clocks are changed.
function randomCase() {
    const night = random(3) === 0;
    const [month, day] = night ? one([[2, 8 + random(7)], [2, 24 + random(7)], [9, 24 + random(7)], [10, 1 + random(7)]])
                               : [random(12), 1 + random(28)];
    const fields = expression().split(' ');
    if (night) fields.splice(-4, 4, field(0, 3, null, 3), '*', '*', '*');
    return { cron: fields.join(' '), zone: one(ZONES),
             after: new Date(Date.UTC(2015 + random(20), month, day, random(24), random(60), random(60))) };
}

const cases = Array.from({ length: COUNT }, randomCase);
const answers = ask(cases);
const explained = new Array(RULES.length).fill(0);
let same = 0, neverHere = 0, failed = 0;
for (const [i, c] of cases.entries()) {
    const ours = answers[i];
    let theirs;
    try {
        theirs = new Cron(c.cron, { timezone: c.zone, paused: true }).nextRuns(RUNS, c.after).map(d => Math.floor(d.getTime() / 1000));
    } catch (error) {
        theirs = error.message;
    }
    if (typeof ours === 'string' && /The day never occurs/.test(ours) && theirs.length === 0) { neverHere++; continue; }
    if (JSON.stringify(ours) === JSON.stringify(theirs)) { same++; continue; }
    const refused = typeof ours === 'string' && !/The day never occurs/.test(ours);
    const rule = refused || typeof theirs === 'string' ? -1 : RULES.findIndex(([, holds]) => holds(c, ours, theirs));
    if (rule >= 0) { explained[rule]++; continue; }
    if (failed++ < 20) {
        const show = runs => typeof runs === 'string' ? runs : runs.map(s => new Date(s * 1000).toISOString()).join(' ');
        console.log(`not ok - ${c.cron} in ${c.zone} after ${c.after.toISOString()}\n#   here:  ${show(ours)}\n#   there: ${show(theirs)}`);
    }
}
console.log(`# ${COUNT} expressions: the same runs ${same}, days that do not exist refused here ${neverHere}`);
RULES.forEach(([why], i) => console.log(`#   ${explained[i]}: ${why}`));
explained.forEach((count, i) => { if (count === 0) { failed++; console.log(`not ok - nothing to explain: ${RULES[i][0]}`); } });
console.log(`${same + neverHere + explained.reduce((a, b) => a + b, 0)} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
