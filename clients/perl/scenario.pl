#!/usr/bin/perl
# The handlers for the scenarios: see clients/scenarios/README.md.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use JobqWorker;
use Time::HiRes qw(sleep);

# Reads the database on a separate connection, which it opens again when it breaks.
my $eye;
sub ask
{
    my ($statement, @values) = @_;
    while (1)
    {
        my $row = eval { $eye ||= JobqWorker::connect_now(); $eye->selectrow_arrayref($statement, undef, @values) };
        return $row && $row->[0] if !$@;
        $eye = undef;
        sleep 0.2;
    }
}
sub tell_it { my ($job, $event) = @_; ask('INSERT INTO scenario.events VALUES (?, ?, ?) RETURNING 1', @$job{qw(id attempt)}, $event); return; }
sub is_open { my ($gate) = @_; return !defined $gate || ask('SELECT count(*) FROM scenario.gates WHERE name = ?', $gate); }

sub effect
{
    my ($dbh, $job, $name) = @_;
    $dbh->do('INSERT INTO scenario.effects VALUES (?, ?, ?)', undef, @$job{qw(id attempt)}, $name);
    return;
}

sub deaf
{
    my ($job) = @_;
    tell_it($job, 'started');
    sleep 0.1 until is_open($job->{payload}{gate});
    return { gate => $job->{payload}{gate} };
}

sub waits
{
    my ($job) = @_;
    tell_it($job, 'started');
    until (is_open($job->{payload}{gate}))
    {
        if (my $reason = $job->cancelled) { tell_it($job, $reason); $job->check; }
        sleep 0.1;
    }
    return { gate => $job->{payload}{gate} };
}

sub garbage
{
    my ($job) = @_;
    die "bad \x{d800}\xff\0 bytes\n" if $job->{payload}{in} eq 'error';
    return "\0" if $job->{payload}{in} eq 'result';
    $job->set_progress("\0");
    return waits($job);
}

my %handlers = (
    echo => sub { return $_[0]{payload} },
    fail => sub {
        my ($job) = @_;
        die "$job->{payload}{message}\n" if $job->{attempt} <= $job->{payload}{times};
        return { attempt => $job->{attempt} + 0 };
    },
    reject => sub {
        my ($job) = @_;
        my $retry_in = $job->{payload}{retry_in};
        $job->fail($job->{payload}{message}, retry_in => $retry_in, final => !defined $retry_in);
    },
    snooze => sub {
        my ($job) = @_;
        return { snoozed => JSON::PP::true } if $job->{progress};
        $job->set_progress({ snoozed => JSON::PP::true });
        $job->snooze($job->{payload}{delay});
    },
    wait  => \&waits,
    deaf  => \&deaf,
    sleep => sub { my ($job) = @_; tell_it($job, 'started'); sleep $job->{payload}{seconds}; return {} },
    progress => sub {
        my ($job) = @_;
        tell_it($job, 'started');
        $job->set_progress({ step => $_ }) for 1 .. $job->{payload}{steps};
        until (is_open($job->{payload}{gate})) { $job->check; sleep 0.1; }
        return { steps => $job->{payload}{steps} };
    },
    transfer => sub {
        my ($job) = @_;
        deaf($job);
        $job->completing(sub {
            my ($dbh) = @_;
            effect($dbh, $job, 'transfer');
            die "$job->{payload}{error}\n" if exists $job->{payload}{error} && $job->{attempt} == 1;
            return { moved => JSON::PP::true };
        });
    },
    steps => sub {
        my ($job) = @_;
        tell_it($job, 'started');
        my @results;
        for my $name (@{ $job->{payload}{names} })
        {
            if ($name eq ($job->{payload}{before} // '')) { until (is_open($job->{payload}{gate})) { $job->check; sleep 0.1; } }
            push @results, $job->step($name, sub { effect($_[0], $job, $name); return { name => $name } });
        }
        return \@results;
    },
    garbage => \&garbage,
    poison => sub { my ($job) = @_; tell_it($job, 'started'); kill KILL => $job->{parent}; return },
);

my $status = eval {
    my $worker = JobqWorker->from_environment;
    $worker->handle($_, $handlers{$_}) for keys %handlers;
    $worker->run;
};
if (!defined $status) { print STDERR "scenario.pl: $@"; $status = 1; }
exit $status;
