# examples/in_each.sh finds the databases that have jobq, whatever they are called, and says when something has failed in one.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('in_each');
my @names = ('we ird', q{o'h}, 'quo"ted', 'host=nowhere', 'postgresql://nowhere/x', 'back\\slash', '$(false)', '-c');
$node->safe_psql('postgres', 'CREATE DATABASE ' . '"' . s/"/""/gr . '"') for @names, 'without', 'closed';
@ENV{qw(PGHOST PGPORT)} = ($node->host, $node->port);

sub in_database
{
    my ($name, $statement) = @_;
    local $ENV{PGDATABASE} = $name;
    system('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-c', $statement) == 0 or die "$name: $statement";
    return;
}

sub in_each
{
    my ($statements) = @_;
    open my $said, '-|', "$FindBin::RealBin/../../examples/in_each.sh", $statements or die "in_each.sh: $!";
    my @lines = sort <$said>;
    close $said;
    chomp @lines;
    return ($? >> 8, @lines);
}

in_database($_, 'CREATE EXTENSION jobq') for @names[1 .. $#names], 'closed';
in_database($names[0], 'CREATE SCHEMA "Od d"; CREATE EXTENSION jobq SCHEMA "Od d"');
in_database('postgres', q{ALTER DATABASE closed ALLOW_CONNECTIONS false});
is_deeply([ in_each('SELECT current_database()') ], [ 0, sort map { "$_: $_" } @names ], 'each that has jobq, by its name');
is_deeply([ in_each('SELECT jobq_shard_id() IS NULL') ], [ 0, sort map { "$_: t" } @names ], 'functions in whatever schema');
{
    local $ENV{PGOPTIONS} = '-c search_path=';
    is_deeply([ in_each('SELECT jobq_shard_id() IS NULL') ], [ 0, sort map { "$_: t" } @names ], 'also where the search_path is empty');
}
in_database('we ird', 'CREATE TABLE made (n int)');
my ($status, @lines) = in_each('CREATE TABLE made (n int)');
is($status, 1, 'one has failed');
is_deeply([ in_each('SELECT count(*) FROM made') ], [ 0, sort map { "$_: 0" } @names ], 'and the others have not');
is((in_each('INSERT INTO made VALUES (1); SELECT 1 / 0'))[0], 1, 'all fail');
is_deeply([ in_each('SELECT count(*) FROM made') ], [ 0, sort map { "$_: 0" } @names ], 'and what fails changes nothing');
{
    local $ENV{PGPORT} = 1;
    local $SIG{__WARN__} = sub { };
    isnt((in_each('SELECT 1'))[0], 0, 'no server: no success');
}
is_deeply([ in_each('DROP EXTENSION jobq') ], [ 0, sort map { "$_: " } @names ], 'to be rid of it');
is_deeply([ in_each('SELECT 1') ], [0], 'none is left');
$node->stop;
done_testing();
