# Tests a server that does not preload the library: every function works, jobq_tick() performs the duties, and jobq.background_workers says
# what is missing.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = server('unloaded');
database($node, 'plain');

# ---- the contents of jobq.background_workers

is( value($node, 'plain', 'SELECT count(*), count(pid), min(state) FROM jobq.background_workers'),
    '1|0|not running', 'jobq.background_workers says that no worker runs');
like(value($node, 'plain', 'SELECT note FROM jobq.background_workers'),
    qr/shared_preload_libraries.*jobq_tick/s, 'and how to start one, and what to do until then');
is( value($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}),
    '0', 'no worker is running');

# ---- every function: name => [call, result]

value($node, 'plain', 'CREATE ROLE shop; CREATE ROLE handling LOGIN; CREATE FUNCTION handles(job jsonb) RETURNS void LANGUAGE sql AS $$ $$');
my $pick = q{(SELECT id FROM jobq.jobs WHERE queue = '%s' ORDER BY id LIMIT 1)};
my $held = q{jobq.jobs WHERE status = 'processing'};
my @calls = (
    [ q{SELECT jobq_version() = (SELECT extversion FROM pg_extension WHERE extname = 'jobq')}, 't' ],
    [ q{SELECT jobq_set_shard(7)},                                                            't' ],
    [ q{SELECT jobq_shard_id()},                                                              '7' ],
    [ q{SELECT jobq_create_queue('mail', max_attempts => 3, backoff_base => '0 s')},          '' ],
    [ q{SELECT jobq_alter_queue('mail', max_attempts => 4)},                                  '' ],
    [ q{SELECT jobq_alter_kind('mail', 'news', max_attempts => 2), jobq_drop_kind('mail', 'news')}, '|t' ],
    [ q{SELECT jobq_enqueue('mail', '{"n": 1}') > 0},                                         't' ],
    [ q{SELECT count(*), bool_and(is_new) FROM jobq_enqueue_many('mail', ARRAY['2', '3', '4']::jsonb[])}, '3|t' ],
    [ q{SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "mail"}, {"queue": "post"}]')},    '2' ],
    [ q{SELECT jobq_pause_queue('mail'), jobq_pause_queue('mail')},                           't|f' ],
    [ q{SELECT count(*) FROM jobq_claim('mail')},                                             '0' ],
    [ q{SELECT jobq_resume_queue('mail'), jobq_resume_queue('mail')},                         't|f' ],
    [ q{SELECT payload, attempt, max_attempts FROM jobq_claim('mail', 'w')},                  '{"n": 1}|1|4' ],
    [ q{SELECT queue FROM jobq_claim_any(ARRAY['nothing', 'post'], 'w')},                     'post' ],
    [ qq{SELECT string_agg(jobq_heartbeat(id, lease), ' ') FROM $held},                       'held held' ],
    [ q{SELECT count(*), min(state) FROM jobq_heartbeat_worker('w')},                         '2|held' ],
    [ q{SELECT state FROM jobq.jobs j, jobq_heartbeat_many(ARRAY[j.id], ARRAY[j.lease]) WHERE j.queue = 'post'}, 'held' ],
    [ q{SELECT jobq_complete(id, lease, '"done"') FROM jobq.jobs WHERE queue = 'post'},       't' ],
    [ q{SELECT jobq_fail(id, lease, 'no such user') FROM jobq.jobs WHERE worker_id = 'w' AND queue = 'mail'}, 'pending' ],
    [ q{SELECT count(*) FROM jobq_claim('mail', 'x', batch => 2)},                            '2' ],
    [ q{SELECT jobq_release(id, lease) FROM jobq.jobs WHERE worker_id = 'x' ORDER BY id LIMIT 1}, 't' ],
    [ q{CALL jobq_wait('mail', '1 min')},                                                     '' ],
    [ q{CALL jobq_wait_any('{nothing}', '1 min', patterns => '{mai_}')},                      '' ],
    [ q{SELECT count(*) FROM jobq_claim_any('{nothing}', patterns => '{new%}', batches => '{1,1}')}, '0' ],
    [ q{SELECT jobq_snooze(id, '1 h', lease) FROM jobq.jobs WHERE status = 'processing'},     't' ],
    [ q{SELECT count(*) FROM jobq_claim('mail', 'y', batch => 2)},                            '2' ],
    [ q{SELECT released FROM jobq.jobs j, jobq_release_many(ARRAY[j.id], ARRAY[j.lease]) WHERE j.worker_id = 'y'
        AND j.status = 'processing' ORDER BY j.id LIMIT 1},                                   't' ],
    [ q{SELECT status FROM (SELECT id, lease FROM jobq.jobs WHERE status = 'processing' ORDER BY id LIMIT 1) j,
        jobq_fail_many(ARRAY[j.id], ARRAY[j.lease], ARRAY['boom'], retry => false)},          'failed' ],
    [ q{SELECT count(*) FROM jobq_claim('mail', 'z')},                                        '1' ],
    [ q{SELECT completed FROM jobq.jobs j, jobq_complete_many(ARRAY[j.id], ARRAY[j.lease], ARRAY['1'::jsonb])
        WHERE j.status = 'processing'},                                                       't' ],
    [ q{SELECT count(*) FROM jobq_claim('mail', 'z')},                                        '1' ],
    [ q{SELECT j.id IS NOT NULL FROM jobq.jobs h, jobq_complete_and_claim(ARRAY[h.id], ARRAY[h.lease],
        queue => 'nothing') j WHERE h.status = 'processing'},                                 '' ],
    [ q{SELECT count(*) FROM jobq_complete_and_claim_any('{}', '{}', queues => '{nothing}')}, '0' ],
    [ q{SELECT jobq_claim_json('{nothing}')},                                                  '[]' ],
    [ q{SELECT queue, status FROM jobq_get((SELECT min(id) FROM jobq.jobs WHERE queue = 'post'))}, 'post|completed' ],
    [ q{SELECT jobq_result((SELECT min(id) FROM jobq.jobs WHERE queue = 'post'))},            '"done"' ],
    [ q{CALL jobq_wait_job(-1, '1 min')},                                                     '' ],
    [ q{SELECT jobq_enqueue('ops', kind => k) > 0 FROM unnest('{a,b,c,d}'::text[]) k},        "t\nt\nt\nt" ],
    [ sprintf("SELECT jobq_cancel($pick)", 'ops'),                                            'cancelled' ],
    [ sprintf("SELECT jobq_retry($pick)", 'ops'),                                             'pending' ],
    [ sprintf("SELECT jobq_reschedule($pick, clock_timestamp() + interval '1 h')", 'ops'),    'scheduled' ],
    [ q{SELECT jobq_fork(-1) IS NULL},                                                        't' ],
    [ q{SELECT stored FROM jobq_write_log('{-1}', '{1}', '{lost}')},                           '0' ],
    [ sprintf("SELECT jobq_delete($pick)", 'ops'),                                            'scheduled' ],
    [ q{SELECT jobq_reschedule_jobs('ops', clock_timestamp() + interval '1 h', kind => 'b')}, '1' ],
    [ q{SELECT jobq_cancel_jobs('ops')},                                                      '3' ],
    [ q{SELECT jobq_retry_jobs('ops', statuses => '{cancelled}', max_jobs => 1)},             '1' ],
    [ q{SELECT jobq_delete_jobs('ops')},                                                      '2' ],
    [ q{SELECT jobq_purge_queue('ops')},                                                      '1' ],
    [ q{SELECT jobq_set_limit('ops', max_running => 1)},                                      't' ],
    [ q{SELECT jobq_create_queue('work', dead_letter_queue => 'dead')},                       '' ],
    [ q{SELECT jobq_enqueue('work') > 0},                                                     't' ],
    [ q{SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('work')},                 'failed' ],
    [ q{SELECT count(*) FROM jobq.jobs, jobq_log(id) WHERE queue = 'dead'},               '5' ],
    [ q{SELECT jobq_redrive('dead')},                                                         '1' ],
    [ q{SELECT jobq_enqueue('graph', kind => 'a', depends_on => '{}') > 0},                   't' ],
    [ q{SELECT jobq_enqueue('graph', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE kind = 'a' AND queue = 'graph')) > 0}, 't' ],
    [ q{SELECT jobq_complete(id, lease, '7') FROM jobq_claim('graph')},                       't' ],
    [ q{SELECT count(*) FROM jobq_claim('graph')},                                            '0' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'unblock'},                                 '1' ],
    [ q{SELECT r.status, r.result FROM jobq_claim('graph') c, jobq_dependency_results(c.id) r}, 'completed|7' ],
    [ q{SELECT jobq_dot(min(id)) LIKE 'digraph%' FROM jobq.jobs WHERE queue = 'graph'},       't' ],
    [ q{SELECT jobq_drop_queue('graph', force => true)},                                      't' ],
    [ q{SELECT jobq_create_queue('halt', group_on_failure => 'halt')},                        '' ],
    [ q{SELECT jobq_enqueue('halt', group_key => 'g') > 0 AND jobq_enqueue('halt', group_key => 'g') > 0}, 't' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'unblock'},                                 '1' ],
    [ q{SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('halt')},                 'failed' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'unblock'},                                 '0' ],
    [ q{SELECT jobq_skip(job_id) FROM jobq.halted_groups},                                    't' ],
    [ q{SELECT count(*) FROM jobq_tick(), jobq_claim('halt') WHERE duty = 'unblock'},         '1' ],
    [ q{SELECT jobq_fail(id, lease, retry => false) FROM jobq.jobs WHERE queue = 'halt' AND status = 'processing'}, 'failed' ],
    [ q{SELECT jobq_alter_queue('halt', group_on_failure => 'continue')},                     '' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'unblock'},                                 '1' ],
    [ q{SELECT count(*) FROM jobq.halted_groups},                                             '0' ],
    [ q{SELECT jobq_drop_queue('halt')},                                                      't' ],
    [ q{SELECT jobq_create_batch('unloaded', on_complete => '{"queue": "batch done"}') > 0},  't' ],
    [ q{SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', b.id)) > 0 FROM jobq.batches b}, 't' ],
    [ q{SELECT jobq_seal_batch(b.id) FROM jobq.batches b},                                    't' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'batches'},                                 '0' ],
    [ q{SELECT jobq_complete(id, lease) FROM jobq_claim('batch')},                            't' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'batches'},                                 '1' ],
    [ q{SELECT g.completed, g.finished_at IS NOT NULL FROM jobq.batches b, jobq_get_batch(b.id) g}, '1|t' ],
    [ q{SELECT count(*) FROM jobq_claim('batch done')},                                       '1' ],
    [ q{SELECT jobq_set_limit('limited', max_running => 1)},                                  't' ],
    [ q{SELECT jobq_enqueue('limited') > 0 AND jobq_enqueue('limited') > 0},                  't' ],
    [ q{SELECT count(*) FROM jobq_claim('limited', batch => 2)},                              '1' ],
    [ q{SELECT running FROM jobq.limits WHERE queue = 'limited'},                             '1' ],
    [ q{SELECT jobq_set_limit('kinds', kind => 'a', max_running => 1)},                       't' ],
    [ q{SELECT jobq_enqueue('kinds', kind => 'a') > 0 AND jobq_enqueue('kinds', kind => 'a') > 0}, 't' ],
    [ q{SELECT count(*) FROM jobq_claim('kinds', batch => 2)},                                '1' ],
    [ q{SELECT running FROM jobq.limits WHERE kind = 'a'},                                    '1' ],
    [ q{SELECT jobq_set_named_limit('n', '{n1,n2}', max_running => 1)},                       't' ],
    [ q{SELECT count(jobq_enqueue(q, options => '{"limits": ["n"]}')) FROM unnest('{n1,n2}'::text[]) q}, '2' ],
    [ q{SELECT count(*) FROM jobq_claim('n1')},                                               '1' ],
    [ q{SELECT count(*) FROM jobq_claim('n2')},                                               '0' ],
    [ q{SELECT jobq_drop_named_limit('n')},                                                   't' ],
    [ q{SELECT jobq_enqueue('steps') > 0},                                                    't' ],
    [ q{SELECT d.state, s.state, d.result FROM jobq_claim('steps') c, jobq_step(c.id, c.lease, 'a') s,
        jobq_step_done(c.id, c.lease, 'a', '1') d},                                           'saved|run|1' ],
    [ q{SELECT s.name, s.state FROM jobq.jobs j, jobq_steps(ARRAY[j.id], ARRAY[j.lease]) s WHERE queue = 'steps'}, 'a|done' ],
    [ q{SELECT s.state, cardinality(s.job_ids) FROM jobq.jobs j, jobq_spawn(j.id, j.lease, 'c', '[{"queue": "steps 2"}, {"queue": "steps 2"}]') s
        WHERE queue = 'steps'},                                                               'saved|2' ],
    [ q{SELECT a.state FROM jobq.jobs j, jobq.steps s, jobq_await_jobs(j.id, j.lease, s.jobs, 'd') a
        WHERE queue = 'steps' AND s.job_id = j.id AND s.name = 'c'},                          'waiting' ],
    [ q{SELECT jobq_complete(id, lease, '8') FROM jobq_claim('steps 2')},                     't' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'unblock'},                                 '0' ],
    [ q{SELECT jobq_complete(id, lease, '9') FROM jobq_claim('steps 2')},                     't' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'unblock'},                                 '1' ],
    [ q{SELECT a.state, a.results->1->'result' FROM jobq_claim('steps') c, jobq.steps s, jobq_await_jobs(c.id, c.lease, s.jobs, 'd') a
        WHERE s.job_id = c.id AND s.name = 'c'},                                              'ready|9' ],
    [ q{SELECT jobq_sleep(id, lease, 'b', '0 s') FROM jobq.jobs WHERE queue = 'steps'},       'ready' ],
    [ q{SELECT a.state FROM jobq.jobs j, jobq_await(j.id, j.lease, 'paid') a WHERE queue = 'steps'}, 'waiting' ],
    [ q{SELECT jobq_signal('steps', 'sent'), jobq_signal_job(id, 'paid', '7') FROM jobq.jobs WHERE queue = 'steps'}, 't|t' ],
    [ q{SELECT done FROM jobq_tick() WHERE duty = 'unblock'},                                 '1' ],
    [ q{SELECT a.state, a.payload FROM jobq_claim('steps') c, jobq_await(c.id, c.lease, 'paid') a}, 'ready|7' ],
    [ q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'steps'},                't' ],
    [ q{SELECT jobq_retry_from(id, 'b') FROM jobq.jobs WHERE queue = 'steps'},                'pending' ],
    [ q{SELECT jobq_drop_queue('steps', force => true)},                                      't' ],
    [ q{SELECT jobq_drop_queue('limited', force => true)},                                    't' ],
    [ q{SELECT jobq_drop_queue('work', force => true)},                                       't' ],
    [ q{SELECT jobq_drop_queue('mail', force => true)},                                       't' ],
    [ q{SELECT jobq_grant('shop', 'producer')},                                               '' ],
    [ q{SELECT has_function_privilege('shop', 'jobq_version()', 'EXECUTE')},                  't' ],
    [ q{SELECT jobq_revoke('shop', 'producer')},                                              '' ],
    [ q{SELECT reason FROM jobq_explain_queue('never heard of')},                             'unknown' ],
    [ q{INSERT INTO jobq.limit_settings (queue, rate, per) VALUES ('rated', 1, '1 s')},       '' ],
    [ q{SELECT jobq_enqueue('rated') > 0},                                                    't' ],
    [ q{SELECT e.reason, e.until FROM jobq.jobs j, jobq_explain(j.id) e WHERE j.queue = 'rated'}, 'refused|' ],
    [ q{SELECT count(*) FROM jobq_explain_queue('rated') WHERE reason = 'claimable'},         '0' ],
    [ q{SELECT jobq_drop_queue('rated', force => true)},                                      't' ],
    [ q{SELECT count(*) FROM jobq_next_runs('@daily')},                                       '5' ],
    [ q{SELECT jobq_schedule('often', '@every 1s', 'often') > now()},                         't' ],
    [ q{SELECT name, change FROM jobq_schedules('[{"name": "rarely", "cron": "@yearly", "queue": "often"}]')}, 'rarely|created' ],
    [ q{SELECT jobq_pause_schedule('rarely'), jobq_resume_schedule('rarely')},                't|t' ],
    [ q{SELECT jobq_run_schedule('rarely') > 0},                                              't' ],
    [ q{SELECT done FROM jobq_tick(now() + interval '1 min') WHERE duty = 'schedules'},       '1' ],
    [ q{SELECT count(*) FROM jobq.jobs WHERE metadata->>'schedule' = 'often'},                '1' ],
    [ q{SELECT jobq_unschedule('often'), jobq_unschedule('rarely')},                          't|t' ],
    [ q{SELECT jobq_set_handler('ops', 'handled', 'handles(jsonb)', 'handling')},             't' ],
    [ q{SELECT state, reason FROM jobq.handlers},                                             'off|background workers run handlers; add jobq to shared_preload_libraries' ],
    [ q{SELECT jobq_drop_handler('ops', 'handled')},                                          't' ],
    [ q{SELECT count(*) FROM jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["ops"]}')},      '0' ],
    [ q{SELECT count(*) FROM jobq_workers()},                                                 '0' ],
    [ q{SELECT jobq_workers_wanted('nowhere')},                                                '0' ],
    [ q{SELECT way FROM jobq_access()},                                                       'direct' ],
    [ q{SELECT value FROM jobq_metrics() WHERE name = 'jobq_jobs' AND labels = '{"queue": "ops", "status": "pending"}'}, '' ],
    [ q{SELECT string_agg(m.value::text, ' ') FROM jobq_metrics() m WHERE name LIKE '%\_total' AND name NOT LIKE '%skipped%'}, '' ],
    [ q{SELECT jobq_prometheus() ~ 'jobq_info\{version="[0-9.]+",library="[0-9.]+",preloaded="false"\} 1'},    't' ],
    [ q{SELECT jobq_reset_metrics()},                                                         '' ],
    [ q{SELECT count(*) FROM jobq_explain(-1)},                                               '0' ],
    [ q{CALL jobq_wait('ops', '0 s')},                                                       '' ],
    [ q{SELECT string_agg(duty, ' ') FROM jobq_tick()},                                       'rescue cancel expire promote schedules unblock batches prune repair reconcile' ],
    [ q{SELECT jobq_adopt()},                                                                 'f' ],
);
my %called = (jobq_wake => 1);    # rejected without preload; tested below
for my $call (@calls)
{
    my ($sql, $expected) = @$call;
    $called{$1}++ while $sql =~ /\b(jobq_\w+)\(/g;
    my ($out, $err) = run_sql($node, 'plain', $sql);
    is($out . $err, $expected, $sql =~ s/\s+/ /gr);
}
is( value($node, 'plain', q{
    SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'jobq\_%'}),
    join(' ', sort keys %called),
    'every function has been called');
is(sqlstate($node, 'plain', q{SELECT jobq_wake('worker')}), '55000', 'jobq_wake is rejected');

# ---- the duties, with jobq_tick() at a given time

my $tick = q{SELECT string_agg(duty || ' ' || done, ', ') FROM jobq_tick(%s)};
value($node, 'plain', q{SELECT sum(jobq_purge_queue(queue)) FROM jobq.queues});
value($node, 'plain', q{SELECT jobq_create_queue('duty', keep_completed => '1 h')});
value($node, 'plain', q{SELECT count(*) FROM jobq_enqueue_many('duty', array_fill('{}'::jsonb, ARRAY[3]))});
value($node, 'plain', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '30 min')});
value($node, 'plain', q{SELECT id FROM jobq_claim('duty', 'silent', heartbeat_timeout => '2 min')});
value($node, 'plain', q{SELECT jobq_cancel(id) FROM jobq_claim('duty', 'deaf', heartbeat_timeout => '10 h')});
value($node, 'plain', q{SELECT jobq_complete(id, lease) FROM jobq_claim('duty', 'good')});

value($node, 'plain', q{SELECT jobq_enqueue('timed', options => '{"max_runtime": "5 min"}')});
value($node, 'plain', q{SELECT id FROM jobq_claim('timed', 'endless', heartbeat_timeout => '10 h')});

is(value($node, 'plain', sprintf $tick, 'NULL'), 'rescue 0, cancel 0, expire 0, promote 0, schedules 0, unblock 0, batches 0, prune 0, repair 0, reconcile 0', 'nothing is due');
is( value($node, 'plain', sprintf $tick, q{clock_timestamp() + interval '10 min'}),
    'rescue 2, cancel 1, expire 0, promote 0, schedules 0, unblock 0, batches 0, prune 0, repair 0, reconcile 0', 'the job of a silent worker is rescued, a job has exceeded max_runtime, and a job is cancelled');
is(value($node, 'plain', q{SELECT error FROM jobq.jobs WHERE queue = 'timed'}), 'ran longer than max_runtime (300 s)', 'a job has exceeded max_runtime');
value($node, 'plain', q{SELECT jobq_drop_queue('timed', force => true)});
is( value($node, 'plain', sprintf $tick, q{clock_timestamp() + interval '2 h'}),
    'rescue 0, cancel 0, expire 0, promote 1, schedules 0, unblock 0, batches 0, prune 1, repair 0, reconcile 0', 'a delayed job is promoted, and an old job is pruned');
is( value($node, 'plain', 'SELECT string_agg(queue || status, chr(32) ORDER BY id) FROM jobq.jobs'),
    'dutypending dutycancelled laterpending', 'the jobs have the resulting statuses');

# Without an argument, jobq_tick() uses the server's clock.
value($node, 'plain', q{SELECT id FROM jobq_claim('later', 'silent', heartbeat_timeout => '50 ms')});
becomes_true($node, 'plain', q{SELECT done = 1 FROM jobq_tick() WHERE duty = 'rescue'}, 'jobq_tick() rescues now');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');

# ---- jobs that were claimed while the library was preloaded and are missing from the rescue's index

value($node, 'plain', q{SELECT jobq_enqueue('left over')});
value($node, 'plain', q{SELECT id FROM jobq_claim('left over', 'gone', heartbeat_timeout => '1 s')});
value($node, 'plain', q{SET session_replication_role = replica;
    UPDATE jobq.jobs SET _rescue_indexed = NULL WHERE queue = 'left over';
    UPDATE jobq.tick_state SET unindexed_found_for = now() - interval '1 day'});
is(value($node, 'plain', q{SELECT done FROM jobq_tick(now() + interval '1 h') WHERE duty = 'rescue'}),
    '1', 'the first tick after the start of the server rescues them');

# ---- a table that inherits from jobq.jobs, which is not rejected without preload

value($node, 'plain', 'CREATE TABLE public.child () INHERITS (jobq.jobs)');
value($node, 'plain', q{INSERT INTO public.child SELECT * FROM ONLY jobq.jobs WHERE queue = 'left over'});
for my $call (
    q{SELECT jobq_enqueue('left over')}, q{SELECT jobq_enqueue('left over', unique_key => 'k')}, q{SELECT jobq_claim('left over')},
    q{SELECT jobq_complete(id, 1) FROM ONLY jobq.jobs LIMIT 1}, q{SELECT jobq_tick()}, q{SELECT jobq_access()},
    q{INSERT INTO jobq.jobs (queue) VALUES ('left over')}, q{UPDATE ONLY jobq.jobs SET priority = 1})
{
    my (undef, $refusal) = run_sql($node, 'plain', $call);
    like($refusal, qr/supports neither inheritance.*DETAIL:  Table public\.child inherits from jobq\.jobs\..*HINT:  Run ALTER TABLE public\.child NO INHERIT/s,
        "with a child table: $call");
}
value($node, 'plain', 'ALTER TABLE public.child NO INHERIT jobq.jobs');
is(value($node, 'plain', q{SELECT count(*) FROM public.child}), '1', 'the child table keeps its rows');
is(value($node, 'plain', q{SELECT count(*) FROM jobq_claim('left over')}), '1', 'jobs can be claimed again');
value($node, 'plain', q{SELECT jobq_release(id, lease) FROM jobq.jobs WHERE queue = 'left over'; DROP TABLE public.child});

# ---- a copy

value($node, 'postgres', 'CREATE DATABASE twin TEMPLATE plain');
is(sqlstate($node, 'twin', q{SELECT jobq_claim('left over')}), '55000', 'a claim in a template copy is rejected');
my ($done, $warning) = run_sql($node, 'twin', q{SELECT sum(done) FROM jobq_tick(now() + interval '1 h')});
is($done, '0', 'a tick does nothing in the copy');
like($warning, qr/WARNING: .*did nothing because the database is a copy/, 'and says so');
is(value($node, 'twin', 'SELECT bool_and(copied) FROM jobq.identity'), 't', 'jobq.identity is marked as copied');
is(value($node, 'twin', 'SELECT jobq_adopt()'), 't', 'jobq_adopt adopts the copy');
is(value($node, 'twin', q{SELECT count(*) FROM jobq_claim('left over')}), '1', 'its jobs can be claimed');

done_testing();
