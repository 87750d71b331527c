# Tests that the comparison of catalogs notices each COMMENT, GRANT, or REVOKE that is left out of the newest upgrade script.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../process/lib";

use JobqCatalogue;
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node    = preloaded('left_out');
my $old     = $ENV{JOBQ_OLD_VERSION} // die 'JOBQ_OLD_VERSION is not set';
my $current = value($node, 'postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'jobq'});
my $script  = value($node, 'postgres', q{SELECT setting FROM pg_config WHERE name = 'SHAREDIR'}) . "/extension/jobq--$old--$current.sql";
my $whole   = slurp_file($script);

sub write_script
{
    my ($text) = @_;
    unlink $script or die "$script: $!";
    append_to_file($script, $text);
    return;
}

sub updated
{
    $node->safe_psql('postgres', 'DROP DATABASE IF EXISTS updated');
    $node->safe_psql('postgres', 'CREATE DATABASE updated');
    value($node, 'updated', "CREATE EXTENSION jobq VERSION '$old'; ALTER EXTENSION jobq UPDATE");
    return catalogue($node, 'updated', rows => 1);
}

database($node, 'fresh');
my $fresh = catalogue($node, 'fresh', rows => 1);
is_deeply([ differences($fresh, updated()) ], [], "with the whole script, the update from $old to $current equals a fresh install");

my @statements = $whole =~ /^((?:COMMENT|GRANT|REVOKE)\b.*?;)$/gms;
is_deeply([ grep { index($whole, $_) < 0 } @statements ], [], scalar @statements . ' statements to leave out');
for my $statement (@statements)
{
    my $at = index $whole, $statement;
    write_script(substr($whole, 0, $at) . substr($whole, $at + length $statement));
    my @found = differences($fresh, updated());
    ok(@found > 0, 'noticed without ' . ($statement =~ s/\s+/ /gr));
    note(join "\n", map { '    ' . substr $_, 0, 160 } @found);
}
write_script($whole);

done_testing();
