# Tests that examples/in_each.sh finds the databases that have jobq, whatever their names, and reports failures.
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
is_deeply([ in_each('SELECT current_database()') ], [ 0, sort map { "$_: $_" } @names ], 'each database that has jobq is visited and named');
is_deeply([ in_each('SELECT jobq_shard_id() IS NULL') ], [ 0, sort map { "$_: t" } @names ], 'the functions are found in any schema');
{
    local $ENV{PGOPTIONS} = '-c search_path=';
    is_deeply([ in_each('SELECT jobq_shard_id() IS NULL') ], [ 0, sort map { "$_: t" } @names ], 'the functions are found even if search_path is empty');
}
in_database('we ird', 'CREATE TABLE "Od d".made (n int)');
my ($status, @lines) = in_each('CREATE TABLE made (n int)');
is($status, 1, 'a failure in one database is reported');
is_deeply([ in_each('SELECT count(*) FROM made') ], [ 0, sort map { "$_: 0" } @names ], 'the other databases have executed the statement');
is((in_each('INSERT INTO made VALUES (1); SELECT 1 / 0'))[0], 1, 'a failure in all databases is reported');
is_deeply([ in_each('SELECT count(*) FROM made') ], [ 0, sort map { "$_: 0" } @names ], 'failed statements change nothing');
{
    local $ENV{PGPORT} = 1;
    local $SIG{__WARN__} = sub { };
    isnt((in_each('SELECT 1'))[0], 0, 'a missing server is a failure');
}

# The owner of a database has shadowed functions, operators, and views of PostgreSQL. A superuser executes the statements that the
# documentation shows.
my @shown;
for my $page (qw(reference/server guides/upgrades guides/backup))
{
    open my $text, '<', "$FindBin::RealBin/../../docs/$page.md" or die "$page.md: $!";
    while (<$text>) { push @shown, $1 if m{examples/in_each\.sh "(.*?)"} and $1 !~ /DROP|UPDATE/; }
    close $text;
}
cmp_ok(@shown, '>=', 3, 'the documentation shows ' . @shown . ' statements for each database');
$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN; CREATE DATABASE hostile OWNER mallory; CREATE DATABASE "start" OWNER mallory');
in_database('hostile', q{CREATE EXTENSION jobq; SELECT jobq_grant('mallory', 'operator'); SELECT jobq_enqueue('q')});
my @ways = ('"$user", public', 'evil, pg_catalog, public');
for my $name ('hostile', 'start')
{
    my $attack = q{CREATE SCHEMA evil;
        CREATE FUNCTION evil.seize() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN EXECUTE ''ALTER ROLE mallory SUPERUSER''; RETURN true; END';
        CREATE FUNCTION evil.regnamespace(oid) RETURNS regnamespace LANGUAGE sql AS 'SELECT evil.seize()::text::regnamespace';
        CREATE FUNCTION evil.jobq_adopt() RETURNS boolean LANGUAGE sql AS 'SELECT evil.seize()';
        CREATE FUNCTION evil.jobq_version() RETURNS text LANGUAGE sql AS 'SELECT evil.seize()::text';
        CREATE VIEW evil.pg_extension AS SELECT *, evil.seize() FROM pg_catalog.pg_extension;
        CREATE VIEW evil.pg_database AS SELECT *, evil.seize() FROM pg_catalog.pg_database;};
    for my $schema (qw(evil public))
    {
        for my $types ('name, name', 'name, text', 'text, text', 'oid, oid', $name eq 'hostile' ? 'jobq.job_status, jobq.job_status' : ())
        {
            $attack .= "CREATE FUNCTION $schema.seize($types) RETURNS boolean LANGUAGE sql AS 'SELECT evil.seize()';";
            my ($left, $right) = split ', ', $types;
            $attack .= "CREATE OPERATOR $schema.$_ (FUNCTION = $schema.seize, LEFTARG = $left, RIGHTARG = $right);" for '=', '<=';
        }
    }
    $node->safe_psql($name, $attack, connect_as('mallory'));
}
for my $way (@ways)
{
    $node->safe_psql('postgres', qq{ALTER DATABASE "$_" SET search_path = $way}, connect_as('mallory')) for 'hostile', 'start';
    local $ENV{PGDATABASE} = 'start';
    for my $statements (@shown)
    {
        my @said = in_each($statements);
        is_deeply([ $said[0], scalar grep { /^hostile: / } @said ], [ 0, 1 ], "$statements, search_path $way");
        is($node->safe_psql('postgres', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f',
            '  the owner of a database has not become a superuser');
        $node->safe_psql('postgres', 'ALTER ROLE mallory NOSUPERUSER');
    }
}
$node->safe_psql('postgres', 'DROP DATABASE hostile');

is_deeply([ in_each('DROP EXTENSION jobq') ], [ 0, sort map { "$_: " } @names ], 'the extension is dropped in all databases');
is_deeply([ in_each('SELECT 1') ], [0], 'no database has the extension anymore');
$node->stop;
done_testing();
