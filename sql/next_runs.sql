-- Recurring work: cron expressions and their runs.
SET timezone = 'UTC';

-- The next five runs after now or after a given time.
SELECT count(*) = 5 AND min(r) > now() AND max(r) <= now() + interval '5 minutes 1 second' AS next_minutes FROM jobq_next_runs('* * * * *') r;
SELECT jobq_next_runs('30 9 * * mon-fri', after => '2026-01-01', n => 3);
SELECT jobq_next_runs('0 0 L * *', after => '2028-01-31', n => 3);
SELECT jobq_next_runs('@every 90s', after => '2026-01-01', n => 3);
SELECT jobq_next_runs('*/20 * * * * *', after => '2026-01-01 00:00:20.5', n => 3);
-- Day of the month or weekday must match; both, if one of them begins with a star.
SELECT array_agg(to_char(r, 'Dy DD')) FROM jobq_next_runs('0 0 13 * fri', after => '2026-03-01', n => 6) r;
SELECT array_agg(to_char(r, 'Dy DD')) FROM jobq_next_runs('0 0 */2 * fri', after => '2026-03-01', n => 6) r;

-- Clock changes. A time that does not exist in spring runs once, at the end of the gap. A time that exists twice in autumn runs
-- the first time.
SET timezone = 'Europe/Berlin';
SELECT jobq_next_runs('0,30 2 * * *', 'Europe/Berlin', '2026-03-28 12:00', 3);
SELECT jobq_next_runs('30 2 * * *', 'Europe/Berlin', '2026-10-24 12:00', 2);
-- Times with a star, a range, or a step follow the clock.
SELECT jobq_next_runs('*/30 2 * * *', 'Europe/Berlin', '2026-03-28 12:00', 2);
SELECT jobq_next_runs('*/30 2 * * *', 'Europe/Berlin', '2026-10-24 12:00', 4);
SET timezone = 'UTC';

-- The names of time zones are the names that the server knows, in upper or lower case. Unknown names are rejected.
SELECT jobq_next_runs('0 12 * * *', 'asia/kolkata', '2026-01-01', 1);
SELECT jobq_next_runs('0 12 * * *', 'Foo5');
SELECT jobq_next_runs('0 12 * * *', '');
SELECT jobq_next_runs('0 12 * * *', repeat('x', 1000)) IS NULL;

-- After the last transition in its file, a time zone continues with the rule of its last years.
SELECT jobq_next_runs('0 12 1 7 *', 'America/New_York', '2769-07-01', 2);

-- Rare days are found. The search stops at the end of the supported time range.
SELECT jobq_next_runs('0 0 29 2 */7', after => '2088-03-01', n => 1);
SELECT count(*) FROM jobq_next_runs('@yearly', after => '6008-02-01');
SELECT count(*) FROM jobq_next_runs('@every 366d', after => '5990-01-01', n => 10000);

-- An error names the field and the position.
SELECT jobq_next_runs('0 25 * * *');
SELECT jobq_next_runs('0 0 30 feb *');
\set VERBOSITY sqlstate
SELECT jobq_next_runs('0 25 * * *');
SELECT jobq_next_runs('@daily', 'Foo5');
\set VERBOSITY default
SELECT jobq_next_runs('every minute');
SELECT jobq_next_runs('@every 1w');
SELECT jobq_next_runs(NULL);
SELECT jobq_next_runs('@daily', NULL);
SELECT jobq_next_runs('@daily', after => 'infinity');
SELECT jobq_next_runs('@daily', after => '294276-12-30');
SELECT jobq_next_runs('@daily', after => '4713-01-01 BC');
SELECT jobq_next_runs('@daily', n => 0);
SELECT jobq_next_runs('@daily', n => 10001);
