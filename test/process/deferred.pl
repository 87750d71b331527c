# Tests deferred constraints of users on jobq.jobs and foreign keys to it. They stop no duty of the background worker: the worker
# leaves out the job that violates one, names it, and processes the others. A worker runs with restricted rights, in which nothing
# can be deferred. Also tests as which role a deferred trigger runs, and errors that occur only at COMMIT.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('deferred', conf => ["jobq.cancel_grace = '200ms'", "jobq.tick_interval = '200ms'"]);
database($node, 'd');

# There are two jobs for each duty; the constraint decides which of them can be changed.
value(
    $node, 'd', q{
    CREATE FUNCTION keep_bad() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.payload = '"bad"' AND NEW.status <> 'processing' AND OLD.status <> 'pending' THEN
            RAISE 'bad jobs stay as they are';
        END IF;
        RETURN NULL;
    END $$});
value($node, 'd', q{SELECT jobq_create_queue('rescue', heartbeat_timeout => '1 s')});
value($node, 'd', q{SELECT jobq_create_queue('prune', keep_completed => '1 s')});
value($node, 'd', q{CREATE TABLE referring (job_id bigint REFERENCES jobq.jobs DEFERRABLE INITIALLY DEFERRED)});
value(
    $node, 'd', q{
    CREATE CONSTRAINT TRIGGER keep_bad AFTER UPDATE ON jobq.jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION keep_bad()});
# A deferred unique constraint.
value($node, 'd', q{ALTER TABLE jobq.jobs ADD CONSTRAINT once UNIQUE (worker_id, payload, queue) DEFERRABLE INITIALLY DEFERRED});

# Enqueues both jobs in one transaction, so that the worker finds them together.
sub enqueue_both {
    my ($queue, $more) = @_;
    value($node, 'd', qq{SELECT count(jobq_enqueue('$queue', to_jsonb(p)$more)) FROM unnest('{bad,good}'::text[]) p});
    return;
}

sub is_left_out {
    my ($duty, $error) = @_;
    becomes_true($node, 'd', qq{SELECT last_error ~ '^$duty: job \\d+: $error' FROM jobq.background_workers WHERE database = 'd'},
        "jobq.background_workers names the job that the $duty left out");
    return;
}

# ---- promotion

enqueue_both('promote', q{, run_at => clock_timestamp() + interval '1 s'});
becomes_true($node, 'd', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'promote' AND payload = '"good"'}, 'a job is promoted');
is_left_out('promote', 'bad jobs stay as they are');
is(value($node, 'd', q{SELECT status FROM jobq.jobs WHERE queue = 'promote' AND payload = '"bad"'}), 'scheduled', 'the other job is unchanged');
value($node, 'd', q{DELETE FROM jobq.jobs});

# ---- rescue

enqueue_both('rescue', '');
is(value($node, 'd', q{SELECT count(*) FROM jobq_claim('rescue', 'doomed', batch => 2)}), 2, 'two jobs are claimed');
becomes_true($node, 'd', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'rescue' AND payload = '"good"'}, 'a job is rescued');
is_left_out('rescue', 'bad jobs stay as they are');
value($node, 'd', q{DELETE FROM jobq.jobs});

# ---- the lease of a running job is entered into the rescue's index

value(
    $node, 'd', q{
    CREATE FUNCTION unwatched() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.payload = '"bad"' AND NEW._rescue_indexed THEN
            RAISE 'nobody watches bad jobs';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER unwatched AFTER UPDATE ON jobq.jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION unwatched()});
enqueue_both('rescue', '');
is(value($node, 'd', q{SELECT count(*) FROM jobq_claim('rescue', 'young', batch => 2)}), 2, 'two jobs are claimed by a worker that sends no heartbeats');
becomes_true($node, 'd', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'rescue' AND payload = '"good"'}, 'a job is indexed and rescued');
is_left_out('rescue', 'nobody watches bad jobs');
# The worker retries the other job at intervals.
my $rounds = q{SELECT extract(epoch FROM clock_timestamp()), rounds FROM jobq.background_workers WHERE database = 'd'};
my ($begin, $before) = split /\|/, value($node, 'd', $rounds);
becomes_true($node, 'd', "SELECT extract(epoch FROM clock_timestamp()) > $begin + 4 AND rounds > $before + 2 FROM jobq.background_workers WHERE database = 'd'", 'the worker runs for seconds');
my ($end, $after) = split /\|/, value($node, 'd', $rounds);
cmp_ok($after - $before, '<', 20 * ($end - $begin), 'a few rounds per second');
value($node, 'd', q{DROP FUNCTION unwatched CASCADE});
becomes_true($node, 'd', q{SELECT _rescue_indexed FROM jobq.jobs WHERE queue = 'rescue' AND payload = '"bad"'}, 'the other job is indexed when the constraint permits it');
value($node, 'd', q{DELETE FROM jobq.jobs});

# ---- forced cancellation

enqueue_both('cancel', '');
is(value($node, 'd', q{SELECT count(*) FROM jobq_claim('cancel', 'deaf', batch => 2), jobq_cancel(id)}), 2, 'two jobs are requested to be cancelled');
becomes_true($node, 'd', q{SELECT status = 'cancelled' FROM jobq.jobs WHERE queue = 'cancel' AND payload = '"good"'}, 'a job is cancelled');
is_left_out('cancel', 'bad jobs stay as they are');
value($node, 'd', q{DELETE FROM jobq.jobs});

# ---- the head of a group

value($node, 'd', q{SELECT jobq_enqueue('groups', '"bad"', group_key => 'b'), jobq_enqueue('groups', '"good"', group_key => 'g')});
becomes_true($node, 'd', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'groups' AND payload = '"good"'}, 'a job becomes the head of its group');
becomes_true($node, 'd', q{SELECT last_error ~ 'bad jobs stay' FROM jobq.background_workers WHERE database = 'd'}, 'the other job does not and is named');
value($node, 'd', q{DELETE FROM jobq.jobs});

# ---- prune: a row of another table refers to one of the jobs

keep_in_use($node, 'd');
enqueue_both('prune', '');
value($node, 'd', q{INSERT INTO referring SELECT id FROM jobq.jobs WHERE queue = 'prune' AND payload = '"bad"'});
value($node, 'd', q{ALTER TABLE jobq.jobs DISABLE TRIGGER keep_bad});
is(value($node, 'd', q{SELECT count(*) FROM jobq_claim('prune', 'w', batch => 2), jobq_complete(id, lease) c WHERE c}), 2, 'two jobs are completed');
becomes_true($node, 'd', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'prune'}, 'a job is pruned');
is_left_out('prune', 'update or delete on table "jobs" violates foreign key constraint');
is(value($node, 'd', q{SELECT payload FROM jobq.jobs WHERE queue = 'prune'}), '"bad"', 'the job that is referred to is not pruned');
value($node, 'd', q{DELETE FROM referring; DELETE FROM jobq.jobs});

# ---- a handler whose executor completes a job and claims the next one in one transaction

value(
    $node, 'd', q{
    CREATE ROLE runner LOGIN;
    CREATE FUNCTION handle(job jsonb) RETURNS void LANGUAGE sql AS 'SELECT';
    SELECT jobq_set_handler('handled', '', 'handle(jsonb)', 'runner');
    CREATE FUNCTION unclaimed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.payload = '"bad"' AND NEW.status = 'processing' THEN
            RAISE 'nobody takes bad jobs';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER unclaimed AFTER UPDATE ON jobq.jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION unclaimed()});
value($node, 'd', q{SELECT jobq_enqueue('handled', '"good"', max_attempts => 1), jobq_enqueue('handled', '"bad"')});
becomes_true($node, 'd', q{SELECT status > 'processing' FROM jobq.jobs WHERE queue = 'handled' AND payload = '"good"'}, 'a job is handled');
is(value($node, 'd', q{SELECT status, error FROM jobq.jobs WHERE queue = 'handled' AND payload = '"good"'}), 'completed|', 'the completed job did not fail because of the next one');
is(value($node, 'd', q{SELECT status, attempts FROM jobq.jobs WHERE queue = 'handled' AND payload = '"bad"'}), 'pending|0', 'the next job, which cannot be claimed, is unchanged');

# ---- the role as which a deferred trigger runs at COMMIT

my $seen_by = q{
    CREATE ROLE app LOGIN; SELECT jobq_grant('app', 'producer');
    CREATE TABLE seen (by name); GRANT INSERT ON seen TO PUBLIC;
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.seen VALUES (current_user); RETURN NULL; END$$;
    CREATE CONSTRAINT TRIGGER see AFTER INSERT ON jobq.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see()};
value($node, 'd', $seen_by);
value($node, 'd', q{SELECT jobq_enqueue('seen')}, connect_as('app'));
is(value($node, 'd', 'SELECT by FROM seen'), value($node, 'd', q{SELECT CASE WHEN current_setting('server_version_num')::int < 180000 THEN 'app' ELSE current_user END}),
    'as the role of the session, from PostgreSQL 18 on as the owner of the extension');
value($node, 'd', q{DROP FUNCTION see CASCADE; DELETE FROM jobq.jobs});

# ---- a duty that fails only at COMMIT, for example because a foreign server rejects a change, is not logged as done and is retried
# after a delay

my $port = $node->port;
my $host = $node->host;
my $refused_there = qq{
    CREATE EXTENSION postgres_fdw;
    CREATE TABLE there (id bigint);
    CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'd');
    CREATE USER MAPPING FOR CURRENT_USER SERVER loopback;
    CREATE FOREIGN TABLE remote (id bigint) SERVER loopback OPTIONS (table_name 'there');
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN RAISE 'not at the end'; END\$\$;
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON there DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
    CREATE FUNCTION tell_remote() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN INSERT INTO public.remote VALUES (NEW.id); RETURN NEW; END\$\$;
    CREATE TRIGGER tell_remote BEFORE UPDATE ON jobq.jobs FOR EACH ROW WHEN (OLD.status = 'scheduled') EXECUTE FUNCTION tell_remote()};
settings($node, 'jobq.log_duties = log');
$node->reload;
value($node, 'd', $refused_there);
my $position = log_size($node);
value($node, 'd', q{SELECT jobq_enqueue('told', run_at => clock_timestamp() + interval '1 s')});
becomes_true($node, 'd', q{SELECT last_error LIKE 'promote: not at the end%' AND last_error_over_at IS NULL FROM jobq.background_workers WHERE database = 'd'}, 'a promotion fails at its COMMIT');
value($node, 'd', q{ALTER TABLE jobq.jobs DISABLE TRIGGER tell_remote});
becomes_true($node, 'd', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'told'}, 'the next attempt succeeds');
becomes_true($node, 'd', q{SELECT last_error_over_at IS NOT NULL FROM jobq.background_workers WHERE database = 'd'}, 'a successful attempt ends the error');
ok(defined seconds_until(sub { count_in_log($node, qr/promote 1\b/, $position) }), 'the log reports the promotion');
is(count_in_log($node, qr/promote 1\b/, $position), 1, 'the log reports it once');

done_testing();
