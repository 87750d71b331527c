#!/usr/bin/perl
# Tests of JobqWorker.pm that need no server.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use JobqWorker;
use Test::More tests => 3;

my $job = bless {}, 'JobqWorker::Job';
sub thrown { my (@arguments) = @_; eval { $job->fail(@arguments) }; return $@; }

is thrown('no', retry_inn => 5), qq(unknown option "retry_inn" of fail; the options are retry_in and final\n), 'a misspelled option is an error';
is thrown('no', what => 'complete'), qq(unknown option "what" of fail; the options are retry_in and final\n), 'an option cannot replace the outcome';
is_deeply { %{ thrown('no', retry_in => 5, final => 1) } }, { what => 'fail', text => 'no', retry_in => 5, final => 1 }, 'the options are passed on';
