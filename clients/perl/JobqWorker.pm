package JobqWorker;

# A jobq worker in Perl that uses DBD::Pg. Copy this file. Contract: clients/CONTRACT.md.
#
#   my $worker = JobqWorker->from_environment;
#   $worker->handle(welcome => sub { my $job = shift; ...; return { sent => JSON::PP::true } });
#   exit $worker->run;
#
# Each handler runs in a process of its own. This process claims jobs, sends the heartbeats of all jobs, and reports. The wait for
# jobs is an asynchronous statement (pg_async), so it blocks nothing. Text to and from the database is Unicode: encode a payload
# with JSON::PP->new->encode, not with encode_json, whose bytes would be encoded twice. With PgBouncer before 1.21, set
# pg_server_prepare => 0.
use strict;
use warnings;

use DBD::Pg qw(:async);
use DBI;
use Errno qw(EINTR);
use IO::Select;
use JSON::PP ();
use POSIX qw(:sys_wait_h _exit);
use Sys::Hostname qw(hostname);
use Time::HiRes qw(sleep time);

use constant ANSWERED_WITHIN => 5;

# Length in seconds of a wait that cannot be woken or that uses a pooler.
use constant SHORT_WAIT => 2;

# Seconds between two checks for jobs of the queue that the worker does not claim.
use constant LOOKS_EVERY => 600;

# Maximum number of times that the worker gives a job back because the job's own transaction collided with another one. The next
# collision counts as a failed attempt, so that a job that always collides ends.
use constant MOST_CONFLICTS => 10;

my $json = JSON::PP->new->allow_nonref->utf8(0);

sub from_environment
{
    my ($class, %given) = @_;
    my %option = (queue => 'default', slots => 1, wait_timeout => 30, grace => 25,
        worker_id => sprintf('%s-%d-%08x', hostname(), $$, int(rand(2**32))), %given);
    for my $name (qw(queue worker_id slots heartbeat_timeout heartbeat_interval wait_timeout grace))
    {
        my $text = $ENV{ 'JOBQ_' . uc $name } // '';
        next if $text eq '';
        my $least = $name =~ /^heartbeat/ ? 0.01 : 0;
        die qq(option "$name" must be a number of seconds, at least $least; it is $text\n)
            if $name =~ /timeout|interval|grace/ && ($text !~ /^[0-9]{1,9}(\.[0-9]+)?\z/ || $text < $least);
        $option{$name} = $text;
    }
    die qq(option "slots" must be an integer from 1 to 1000; it is $option{slots}\n)
        unless $option{slots} =~ /^[0-9]{1,4}$/ && $option{slots} >= 1 && $option{slots} <= 1000;
    die qq(option "worker_id" must not begin with "backend:"; it is $option{worker_id}\n) if $option{worker_id} =~ /^backend:/;
    return bless { option => \%option, handlers => {}, jobs => {} }, $class;
}

# Registers the handler of a kind. The kind '' stands for jobs without a kind.
sub handle { my ($self, $kind, $handler) = @_; $self->{handlers}{$kind} = $handler; return; }
sub say_it { my ($self, $text) = @_; chomp $text; print STDERR "$self->{option}{worker_id}: $text\n"; return; }

# Returns a connection that uses PGHOST and so on. A child process does not close the connections of its parent.
sub connect_now
{
    my $alive = 'client_encoding=UTF8;connect_timeout=10;keepalives_idle=30;keepalives_interval=10;keepalives_count=3;tcp_user_timeout=30000';
    return DBI->connect("dbi:Pg:$alive", '', '',
        { AutoCommit => 1, RaiseError => 1, PrintError => 0, AutoInactiveDestroy => 1, pg_enable_utf8 => 1, pg_server_prepare => 0 });
}

sub one { my ($dbh, $statement, @values) = @_; my $row = rows($dbh, $statement, @values)->[0]; return $row && $row->[0]; }

# Returns the rows of a statement that must be answered soon, because a pooler without a server can delay an answer for minutes.
sub rows
{
    my ($dbh, $statement, @values) = @_;
    my $sth = $dbh->prepare($statement, { pg_async => PG_ASYNC });
    $sth->execute(@values);
    my ($select, $deadline) = (IO::Select->new($dbh->{pg_socket}), time + ANSWERED_WITHIN);
    until ($dbh->pg_ready)
    {
        if (time > $deadline) { $dbh->disconnect; die "no answer within ${\ANSWERED_WITHIN} s\n"; }
        $select->can_read(0.05);
    }
    $dbh->pg_result;
    return $sth->fetchall_arrayref;
}

# Returns whether the error requires a new connection. Collisions (40001, 40P01) only need another try, which a new connection
# provides.
sub is_broken
{
    my ($dbh) = @_;
    return 1 if !$dbh || !$dbh->{Active};
    return ($dbh->state || '') =~ /^(08|53|57|58)|^(25006|40001|40P01)$/ || !eval { $dbh->ping };
}

# ---- the worker

# Works until SIGTERM or SIGINT and returns the exit status.
sub run
{
    my ($self) = @_;
    my $option = $self->{option};
    $self->{kinds} = [ sort keys %{ $self->{handlers} } ];
    $self->{claims} = connect_now();
    $self->{beats}  = connect_now();
    $self->{pooled} = one($self->{beats}, 'SELECT pg_backend_pid()') != $self->{beats}{pg_pid};
    $option->{wait_timeout} = SHORT_WAIT if $self->{pooled} && $option->{wait_timeout} > SHORT_WAIT;
    if (!eval { one($self->{beats}, 'SELECT jobq_wake(?)', $option->{worker_id}); 1 })
    {
        my $state = $self->{beats}->state;
        die "jobq is not in this database: $@" if $state eq '42883';
        die $@ if $state ne '55000';
        $option->{wait_timeout} = SHORT_WAIT if $option->{wait_timeout} > SHORT_WAIT;    # not preloaded: waits cannot be woken
    }
    $self->say_it(qq(serves queue "$option->{queue}", kinds @{ $self->{kinds} }; leaves jobs of other kinds to other workers));
    my $signals = 0;
    local @SIG{qw(TERM INT)} = (sub { $signals++ }) x 2;
    local $SIG{PIPE} = 'IGNORE';
    my ($stop_at, $released_at, $woken);
    $self->{retry_at} = { claims => 0, beats => 0, reports => 0 };
    while (1)
    {
        my $now = time;
        if ($signals && !$stop_at)
        {
            $self->say_it('stopping, no more claims');
            $stop_at = $now + $option->{grace};
        }
        $stop_at = $now if $stop_at && $signals > 1 && $stop_at > $now;
        if ($stop_at)
        {
            $woken ||= !$self->{waiting} || $self->wake;
            last if !%{ $self->{jobs} } && !$self->{waiting};
            if ($now >= $stop_at && !$released_at)
            {
                $released_at = $now;
                $self->stop_job($_, 'stopping') for values %{ $self->{jobs} };
            }
            if ($released_at && $now >= $released_at + 1) { $self->abandon($_) for grep { $_->{pid} } values %{ $self->{jobs} }; }
            last if $released_at && $now >= $released_at + 6;
        }
        my $begun = $self->claim($stop_at);
        # A job whose report fails, perhaps because its shard is down, must not delay the reports of other jobs.
        $self->report($_) for sort { ($a->{reports} || 0) <=> ($b->{reports} || 0) } grep { $_->{outcome} } values %{ $self->{jobs} };
        $self->heartbeat;
        $self->sleep_until_something unless $begun;
    }
    my @left = map { $_->{id} } values %{ $self->{jobs} };
    $self->say_it(@left ? "jobs that could not be reported: @left" : 'stopped');
    kill KILL => map { $_->{pid} } grep { $_->{pid} } values %{ $self->{jobs} };
    return @left || $self->{failure} ? 1 : 0;
}

# Waits for output of a handler, the end of the wait in the server, or a signal, at most 0.05 s, because heartbeats may be due
# then.
sub sleep_until_something
{
    my ($self) = @_;
    my $select = IO::Select->new(map { $_->{pipe} } grep { $_->{pipe} } values %{ $self->{jobs} });
    $select->add($self->{claims}{pg_socket}) if $self->{waiting} && $self->{claims};
    $select->count ? $select->can_read(0.05) : sleep(0.05);
    $self->hear_handler($_) for grep { $_->{pipe} } values %{ $self->{jobs} };
    return;
}

# ---- claims

# Handles a broken connection. postponed: the activities that pause because of it.
sub broken
{
    my ($self, $name, $error, @postponed) = @_;
    $self->say_it("the connection for $name is broken, trying again: $error");
    eval { $self->{$name}->disconnect } if $self->{$name};
    $self->{$name} = undef;
    for my $what (@postponed)
    {
        my $pause = $self->{pause}{$what} = $self->{pause}{$what} ? $self->{pause}{$what} * 2 : 0.1;
        $self->{pause}{$what} = 5 if $pause > 5;
        # At least half of the pause, at random, so that workers whose connections broke together do not reconnect together.
        $self->{retry_at}{$what} = time + $self->{pause}{$what} * (0.5 + rand(0.5));
    }
    return;
}

# Logs which jobs wait in the queue that have no kind, or a kind without a handler here. Reads at most a thousand jobs of each
# lane. If the role cannot read the tables, only the first check runs.
sub look_for_others
{
    my ($self, $dbh) = @_;
    return if time < ($self->{look_at} // 0);
    $self->{look_at} = time + LOOKS_EVERY;
    my $found = eval { one($dbh, q{
        SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind)
        FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
              FROM jobq.lane_directory d WHERE d.queue = ? AND d.kind <> ALL (?::text[]) GROUP BY d.kind) counted WHERE n > 0},
        $self->{option}{queue}, $self->{kinds}) };
    $self->say_it(qq(jobs that this worker does not claim are waiting in queue "$self->{option}{queue}": $found)) if defined $found;
    $self->{look_at} = 9e99 if $@ && ($dbh->state || '') eq '42501';    # the claim will notice a broken connection
    return;
}

# ---- small pools: see clients/CONTRACT.md

# Makes a worker behind a pooler poll for a while if an answer was late, because waits may hold all connections of the pool.
sub answered
{
    my ($self, $took) = @_;
    return if !$self->{pooled} || $took <= 0.25;
    my $option = $self->{option};
    my ($limit) = sort { $a <=> $b } 1, ($option->{heartbeat_interval} || 4) / 4, ($option->{heartbeat_timeout} || 12) / 12,
        map { $self->interval($_) / 4 } values %{ $self->{jobs} };
    return if $took <= ($limit > 0.25 ? $limit : 0.25);
    my $begins = !$self->{polls_until};
    $self->{polls_until} = time + 60 + rand(60);
    return if !$begins;
    $self->say_it(sprintf '%sanswers take %.1f s behind the connection pooler, whose pool may have fewer connections than there are workers: '
        . 'polling instead of waiting', $self->{has_polled}++ ? '' : 'warning: ', $took);
    return;
}

sub polls
{
    my ($self) = @_;
    return 0 if !$self->{polls_until};
    return 1 if time < $self->{polls_until};
    $self->{polls_until} = $self->{polls} = 0;
    $self->say_it('answers are fast again: waiting instead of polling');
    return 0;
}

# Claims jobs. Returns whether jobs have begun.
sub claim
{
    my ($self, $stopping) = @_;
    my $option = $self->{option};
    my $room   = $option->{slots} - keys %{ $self->{jobs} };
    return 0 if time < $self->{retry_at}{claims};
    my $begun = eval {
        $self->{claims} ||= $stopping ? return 0 : connect_now();
        my $dbh = $self->{claims};
        if ($self->{waiting})
        {
            return 0 unless $dbh->pg_ready;
            my $ended = eval { $dbh->pg_result; 1 };
            die $@ if !$ended && ($dbh->state || '') ne '57014';
            my $canceled = $ended ? undef : $dbh->errstr;
            $self->{waiting} = 0;    # set last, because destroying a statement cancels its query
            $self->say_it("the server canceled a wait: $canceled. The setting statement_timeout of this role or database is "
                . one($dbh, 'SHOW statement_timeout') . ", and wait_timeout is $option->{wait_timeout} s.")
                if $canceled && !$self->{waits_canceled}++;
        }
        return 0 if $stopping || $room < 1;
        $self->look_for_others($dbh);
        my $asked = time;
        my $rows = $dbh->selectall_arrayref(
            'SELECT id, lease, kind, payload, attempt, progress, metadata, heartbeat_seconds
             FROM jobq_claim(?, ?, ?::int, ?::text[], heartbeat_timeout => ?::interval)',
            { Slice => {} }, $option->{queue}, $option->{worker_id}, $room, $self->{kinds},
            defined $option->{heartbeat_timeout} ? "$option->{heartbeat_timeout} s" : undef);
        delete $self->{pause}{claims};
        $self->answered(time - $asked);
        $self->begin($_) for @$rows;
        if (@$rows) { $self->{polls} = 0; return 1; }
        if ($self->polls)
        {
            my ($pause) = sort { $a <=> $b } 1, 0.05 * 2**($self->{polls}++ || 0);
            $self->{retry_at}{claims} = time + $pause;
            return 0;
        }
        my $sth = $dbh->prepare('CALL jobq_wait(?::text, ?::interval, ?::text[], worker_id => ?::text, batch => ?::int)', { pg_async => PG_ASYNC });
        $sth->execute($option->{queue}, "$option->{wait_timeout} s", $self->{kinds}, $option->{worker_id}, $room);
        $self->{waiting} = $sth;
        return 0;
    };
    return $begun if defined $begun;
    my $error = $@;
    $self->{waiting} = 0;
    if (is_broken($self->{claims})) { $self->broken('claims', $error, 'claims'); return 0; }
    $self->fail("the claim was refused: $error");
    return 0;
}

# Stops as after SIGTERM, but with another exit status, because the worker cannot claim anymore.
sub fail
{
    my ($self, $why) = @_;
    $self->say_it($why);
    kill TERM => $$ if !$self->{failure}++;
    $self->{retry_at}{claims} = time + 1;
    return;
}

# Starts the handler's process. It writes lines of JSON: {"progress": ...}, and its outcome at the end. Without an outcome, the
# job is given back.
sub begin
{
    my ($self, $row) = @_;
    my ($reader, $writer);
    my $pid = pipe($reader, $writer) ? fork : undef;
    if (!defined $pid)
    {
        $self->fail("job $row->{id} of kind $row->{kind} could not be started, and is given back: could not create a process: $!");
        $self->{jobs}{ $row->{lease} } = { %$row, outcome => { what => 'release' }, beat_at => time };
        return;
    }
    if ($pid == 0)
    {
        close $reader;
        setpgrp(0, 0);
        $SIG{$_} = 'DEFAULT' for qw(TERM INT);
        my $parent = getppid;
        $self->{$_} and $self->{$_}{InactiveDestroy} = 1 for qw(claims beats);
        # The child must never continue with the parent's code, whatever happens.
        my $ended = eval { JobqWorker::Job->new($row, $writer, $parent)->run($self->{handlers}{ $row->{kind} }); 1 };
        $self->say_it("job $row->{id}: $@") if !$ended;
        _exit($ended ? 0 : 1);
    }
    close $writer;
    $reader->blocking(0);
    $self->{jobs}{ $row->{lease} } = { %$row, pid => $pid, pipe => $reader, said => '', beat_at => time };
    return;
}

sub hear_handler
{
    my ($self, $job) = @_;
    # The job ends with its process, not with the pipe, which children of the process may hold open. Checked before the last read,
    # so that no output is missed.
    my $ended = waitpid($job->{pid}, WNOHANG) == $job->{pid};
    my $status = $?;
    my $count;
    1 while $count = sysread $job->{pipe}, $job->{said}, 65536, length $job->{said};
    while ($job->{said} =~ s/^(.*)\n//)
    {
        my $said = JSON::PP->new->utf8->decode($1);
        if (exists $said->{progress}) { $job->{progress_new} = $said->{progress}; }
        else                          { $job->{outcome} = $said; }
    }
    return if !$ended && !defined $count;    # nothing to read at the moment
    if (!$ended) { waitpid $job->{pid}, 0; $status = $?; }
    delete @$job{qw(pid pipe)};
    $job->{outcome} ||= { what => 'fail', text => "the handler's process ended with status $status" };
    return;
}

sub stop_job
{
    my ($self, $job, $reason) = @_;
    return if $job->{reason} && $reason ne 'lost';
    $job->{reason} = $reason;
    kill { cancel => 'USR1', lost => 'USR2', stopping => 'TERM' }->{$reason} => $job->{pid} if $job->{pid};
    return;
}

sub abandon
{
    my ($self, $job) = @_;
    kill KILL => $job->{pid};
    waitpid $job->{pid}, 0;
    delete @$job{qw(pid pipe)};
    $job->{outcome} = { what => 'release' };
    return;
}

# ---- heartbeats and reports

# Returns the value of the function, or undef if it cannot run now. A report that breaks the connection, perhaps because its shard
# is down, must not delay heartbeats, and heartbeats must not delay reports, so each pauses separately unless there is no
# connection at all.
sub beats
{
    my ($self, $function, $what) = @_;
    $what //= 'beats';
    return undef if time < $self->{retry_at}{$what};
    my $begun;
    my $answer = eval { $self->{beats} ||= connect_now(); $begun = time; $function->($self->{beats}); };
    if (defined $answer) { delete $self->{pause}{$what}; $self->answered(time - $begun); return $answer; }
    my $error = $@;
    die $error if !is_broken($self->{beats});
    $self->broken('beats', $error, $self->{beats} ? $what : qw(beats reports));
    return undef;
}

# Wakes the wait. Returns true when done, or when waits cannot be woken because jobq is not preloaded, and are short.
sub wake
{
    my ($self) = @_;
    my $answer = eval { $self->beats(sub { one($_[0], 'SELECT jobq_wake(?)', $self->{option}{worker_id}); 1 }) };
    my $error = $@ or return $answer;
    $self->say_it("the wait could not be woken: $error");
    return 1;
}

sub interval
{
    my ($self, $job) = @_;
    my $option = $self->{option};
    my ($shortest) = sort { $a <=> $b } $job->{heartbeat_seconds}, $option->{heartbeat_interval} || 1e9, ($option->{heartbeat_timeout} || 3e9) / 3;
    return $shortest;
}

sub heartbeat
{
    my ($self) = @_;
    my $now  = time;
    my @live = grep { !$_->{outcome} && ($_->{reason} || '') ne 'lost' && $_->{pid} } values %{ $self->{jobs} };
    my @told = grep { $_->{outcome} && ($_->{reason} || '') ne 'lost' } values %{ $self->{jobs} };    # heartbeats continue until the report
    my @progressed = grep { defined $_->{progress_new} && ($now - $_->{beat_at} > 0.5 || $now - $_->{beat_at} >= $self->interval($_)) } @live;
    # Send the heartbeats of running jobs before progress, and separately from jobs that have ended, because an unanswered
    # completion may still lock the row of such a job, and the heartbeats of other jobs must not wait.
    for my $jobs (\@live, \@told)
    {
        my @due = grep { $now - $_->{beat_at} >= $self->interval($_) } @$jobs;
        $self->heartbeat_together($now, @due) if @due;
    }
    for my $job (grep { ($_->{reason} || '') ne 'lost' } @progressed)
    {
        my $state = eval { $self->beats(sub { one($_[0], 'SELECT jobq_heartbeat(?, ?, ?::jsonb)', @$job{qw(id lease progress_new)}) }) };
        if (my $error = $@) { $self->say_it("progress of job $job->{id} was refused: $error"); delete $job->{progress_new}; next; }
        return if !defined $state;
        delete $job->{progress_new};
        $self->heard($job, $state);
    }
    return;
}

sub heartbeat_together
{
    my ($self, $now, @due) = @_;
    my $states = eval { $self->beats(sub {
        rows($_[0], 'SELECT state FROM jobq_heartbeat_many(?::bigint[], ?::bigint[])', [ map { $_->{id} } @due ], [ map { $_->{lease} } @due ]) }) };
    if (my $error = $@) { $self->say_it("heartbeats were refused: $error"); $_->{beat_at} = $now for @due; return; }
    if ($states) { $self->heard($due[$_], $states->[$_][0]) for 0 .. $#due; }
    return;
}

sub heard
{
    my ($self, $job, $state) = @_;
    $job->{beat_at} = time;
    return if $state eq 'held' || $state eq 'finished' || $job->{outcome};    # the report will find out
    $self->say_it("job $job->{id} of kind $job->{kind}: the lease is lost") if $state ne 'cancel';
    $self->stop_job($job, $state eq 'cancel' ? 'cancel' : 'lost');
    return;
}

# Turns a failure into a release, because the job's own transaction ended with 40001 or 40P01, so that the attempt is not counted.
sub give_back
{
    my ($self, $job) = @_;
    my $state = $job->{outcome}{state} // '';
    my $times = delete $self->{conflicts}{ $job->{id} } // 0;
    return if $job->{outcome}{what} ne 'fail' || $state !~ /^(40001|40P01)$/ || $times >= MOST_CONFLICTS;
    $self->{conflicts} = {} if keys %{ $self->{conflicts} } > 1000;    # removes entries of jobs that other workers have completed
    $self->{conflicts}{ $job->{id} } = ++$times;
    $self->say_it("job $job->{id} of kind $job->{kind}: its transaction collided with another one (SQLSTATE $state), so it is given back: "
        . "$times of ${\MOST_CONFLICTS} times");
    $job->{outcome}{what} = 'release';
    return;
}

# Reports the outcome of a handler. Repeated until the server answers.
sub report
{
    my ($self, $job) = @_;
    return if $job->{pid};    # the handler's process has not ended
    my $outcome = $job->{outcome};
    $self->give_back($job) if !$job->{given_back}++;
    my $what = $outcome->{what};
    if ($what eq 'nothing' || ($job->{reason} || '') eq 'lost') { delete $self->{jobs}{ $job->{lease} }; return; }
    my ($statement, @values) =
          $what eq 'complete' ? ('SELECT jobq_complete(?, ?, ?::jsonb)', $outcome->{result})
        : $what eq 'snooze'   ? ('SELECT jobq_snooze(job_id => ?, lease => ?, delay => ?::interval)', "$outcome->{delay} s")
        : $what eq 'release'  ? ('SELECT jobq_release(?, ?)')
        : ('SELECT jobq_fail(?, ?, ?, ?::interval, ?::boolean) IS NOT NULL', $outcome->{text},
            defined $outcome->{retry_in} ? "$outcome->{retry_in} s" : undef, $outcome->{final} ? 'f' : 't');
    $job->{reports}++;
    my $state = eval { $self->beats(sub {
        my ($dbh) = @_;
        $self->report_progress($dbh, $job) if defined $job->{progress_new};
        $job->{tries}++;
        return 'finished' if one($dbh, $statement, @$job{qw(id lease)}, @values);
        # Maybe an earlier try succeeded, but its answer was lost.
        my $state = one($dbh, 'SELECT jobq_heartbeat(?, ?)', @$job{qw(id lease)});
        return $state eq 'gone' && $job->{tries} > 1 ? 'finished' : $state;    # gone: the queue keeps no finished jobs
    }, 'reports') };
    if (my $error = $@)
    {
        my $state = $self->{beats} ? $self->{beats}->state : '';
        $self->say_it("job $job->{id}: the report was refused: $error");
        if ($what eq 'fail' && $state =~ /^(22P05|22021)$/ && $outcome->{text} =~ s/[^\x00-\x7f]/?/g) { return; }    # not in the database's encoding
        my $rejected = { complete => 'result', snooze => 'snooze', release => 'release' }->{$what} || 'failure';
        # If the server rejects the report twice, the delay may be the reason.
        if    (!$outcome->{refused})          { $job->{outcome} = { %$outcome, what => 'fail', text => "the $rejected was refused: $error", refused => 1 }; }
        elsif (defined $outcome->{retry_in})  { delete $outcome->{retry_in}; }
        else                                  { $job->{outcome} = { what => 'nothing' }; }
        return;
    }
    return if !defined $state;
    $self->say_it("job $job->{id} of kind $job->{kind}: " . ($state ne 'finished' ? 'the lease is lost'
        : $what eq 'fail' && $outcome->{text} ne 'cancelled' ? "failed: $outcome->{text}" : $outcome->{text} // $what));
    delete $self->{jobs}{ $job->{lease} };
    return;
}

# Sends a heartbeat with progress. If the server rejects the progress, it is discarded.
sub report_progress
{
    my ($self, $dbh, $job) = @_;
    if (!eval { one($dbh, 'SELECT jobq_heartbeat(?, ?, ?::jsonb)', @$job{qw(id lease progress_new)}); 1 })
    {
        my $error = $@;
        die $error if is_broken($dbh);
        $self->say_it("progress of job $job->{id} was refused: $error");
    }
    delete $job->{progress_new};
    return;
}

# ---- a job, in its handler's process

package JobqWorker::Job;

sub new
{
    my ($class, $row, $writer, $parent) = @_;
    my %job = map { $_ => $row->{$_} } qw(id lease kind attempt);
    return bless { %job, texts => $row, writer => $writer, parent => $parent }, $class;
}

sub tell_parent
{
    my ($self, $said) = @_;
    my $line = JSON::PP->new->encode($said) . "\n";
    $line =~ s/[\x{d800}-\x{dfff}]/\x{fffd}/g;    # halves of surrogate pairs are not valid in text
    utf8::encode($line);
    while (length $line)
    {
        my $count = syswrite $self->{writer}, $line;
        if (!defined $count) { next if $!{EINTR}; POSIX::_exit(1); }
        substr $line, 0, $count, '';
    }
    return;
}

# Reports progress with a heartbeat, within about a second.
sub set_progress { my ($self, $value) = @_; $self->tell_parent({ progress => $json->encode($value) }); return; }

# Returns why the handler should stop: undef, cancel, lost, or stopping. If the worker was killed, its jobs are lost.
sub cancelled { my ($self) = @_; return getppid() == $self->{parent} ? $self->{cancelled} : 'lost'; }

# Returns an outcome that the functions below throw. Anything else that a handler throws is an error.
sub thrown { return bless {@_}, 'JobqWorker::Thrown'; }

# Returns an error as text that PostgreSQL can store, without NUL.
sub text_of
{
    my ($error) = @_;
    return undef if !defined $error;
    my $text = ref $error eq 'HASH' || ref $error eq 'ARRAY' ? eval { $json->encode($error) } // "$error" : "$error";
    chomp $text;
    $text =~ s/\0/\\0/g;
    return $text;
}

sub check { my ($self) = @_; my $reason = $self->cancelled; die thrown(stop => $reason) if $reason; return; }

# Functions with which a handler ends with another outcome.
sub fail
{
    my ($self, $message, %given) = @_;
    for my $name (sort keys %given)
    {
        die qq(unknown option "$name" of fail; the options are retry_in and final\n) if $name !~ /\A(?:retry_in|final)\z/;
    }
    die thrown(what => 'fail', text => text_of($message), %given);
}
sub snooze { my ($self, $delay) = @_; die thrown(what => 'snooze', delay => $delay); }

sub dbh { my ($self) = @_; return $self->{dbh} ||= JobqWorker::connect_now(); }

# Commits the writes of the function together with the completion of the job, or neither. The function returns the result.
sub completing
{
    my ($self, $function) = @_;
    $self->transaction(sub {
        my ($dbh) = @_;
        my $result = $json->encode($function->($dbh));
        JobqWorker::one($dbh, 'SELECT jobq_complete(?, ?, ?::jsonb, must_hold => true)', @$self{qw(id lease)}, $result);
    });
    die thrown(what => 'nothing');
}

# Calls the function once, even if the job is retried: its writes commit together with its result.
sub step
{
    my ($self, $name, $function) = @_;
    my ($state, $result) = $self->dbh->selectrow_array('SELECT state, result FROM jobq_step(?, ?, ?)', undef, @$self{qw(id lease)}, $name);
    return defined $result ? $json->decode($result) : undef if $state eq 'done';
    die thrown(stop => $state) if $state ne 'run';
    return $json->decode($self->transaction(sub {
        my ($dbh) = @_;
        my $value = $json->encode($function->($dbh));
        return JobqWorker::one($dbh, 'SELECT result FROM jobq_step_done(?, ?, ?, ?::jsonb)', @$self{qw(id lease)}, $name, $value);
    }));
}

# Returns the payload of a signal. The job occupies no worker while it waits.
sub wait_for
{
    my ($self, $event) = @_;
    my ($state, $payload) = $self->dbh->selectrow_array('SELECT state, payload FROM jobq_await(?, ?, ?)', undef, @$self{qw(id lease)}, $event);
    die thrown(what => 'nothing') if $state eq 'waiting';
    die thrown(stop => $state eq 'lost' ? 'lost' : 'cancel') if $state ne 'ready';
    return defined $payload ? $json->decode($payload) : undef;
}

sub transaction
{
    my ($self, $function) = @_;
    my $dbh = $self->dbh;
    $self->{state} = undef;
    $dbh->begin_work;
    my $value;
    if (eval { $value = $function->($dbh); $dbh->commit; 1 }) { return $value; }
    my $error = $@;
    my $state = $dbh->state;
    eval { $dbh->rollback };
    die thrown(stop => 'lost') if $state eq 'JQ001';
    $self->{state} = $state;
    die $error;
}

sub run
{
    my ($self, $handler) = @_;
    my $stopped = sub { my ($reason) = @_; return sub { $self->{cancelled} = $reason; }; };
    local @SIG{qw(USR1 USR2 TERM)} = map { $stopped->($_) } qw(cancel lost stopping);
    my ($value, $outcome);
    my $read = sub { $self->{$_} = defined $self->{texts}{$_} ? $json->decode($self->{texts}{$_}) : undef for qw(payload progress metadata) };
    if (eval { $read->(); $value = $handler->($self); $outcome = { what => 'complete', result => defined $value ? $json->encode($value) : undef }; 1 })
    {
        # the handler's outcome
    }
    elsif (ref $@ eq 'JobqWorker::Thrown' && $@->{stop})
    {
        my $reason = $@->{stop};
        $outcome = $reason eq 'lost' ? { what => 'nothing' } : $reason eq 'cancel' ? { what => 'fail', text => 'cancelled' } : { what => 'release' };
    }
    elsif (ref $@ eq 'JobqWorker::Thrown') { $outcome = { %{$@} }; }
    else
    {
        # The SQLSTATE of the job's own transaction, or else of the handler's last statement.
        $outcome = { what => 'fail', text => text_of($@), state => $self->{state} || $DBI::state };
    }
    $self->tell_parent($outcome);
    return;
}

1;
