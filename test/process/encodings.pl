# Tests the metrics of databases whose encoding is not UTF8: for a client with the encoding UTF8, the text for Prometheus and the
# labels are valid UTF-8, and different names have different labels.
use strict;
use warnings FATAL => 'all';

use Encode;
use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('encodings');

sub encoded
{
    my ($database, $encoding) = @_;
    $node->safe_psql('postgres', "CREATE DATABASE $database ENCODING '$encoding' LOCALE 'C' TEMPLATE template0");
    return value($node, $database, 'CREATE EXTENSION jobq');
}

# Returns the bytes that a client with this encoding reads.
sub read_as { my ($database, $encoding, $sql) = @_; return value($node, $database, "SET client_encoding = '$encoding'; $sql"); }

sub is_utf8
{
    my ($bytes, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $text = eval { decode('UTF-8', $bytes, Encode::FB_CROAK | Encode::LEAVE_SRC) };
    return ok(defined $text, $name);
}

my $queues = q{SELECT labels->>'queue' FROM jobq_metrics() WHERE name = 'jobq_jobs_enqueued_total' ORDER BY 1};

# ---- SQL_ASCII: names can contain any bytes

encoded('bytes', 'SQL_ASCII');
# Each name and its label.
my %label = (
    q{plain} => 'plain',
    q{caf\xc3\xa9} => "caf\xc3\xa9",
    q{caf\xe9} => 'caf\xE9',
    q{caf\\\\xE9} => 'caf\x5CxE9',
    q{back\\\\slash} => 'back\slash',
    q{overlong \xc0\xaf} => 'overlong \xC0\xAF',
    q{surrogate \xed\xa0\x80} => 'surrogate \xED\xA0\x80',
    q{truncated \xe2\x82"} => 'truncated \xE2\x82"');
value($node, 'bytes', "SELECT jobq_enqueue(E'$_', kind => E'kind \\xff')") for sort keys %label;
is(read_as('bytes', 'UTF8', $queues), join("\n", sort values %label), 'jobq_metrics() has a label in UTF-8 for each name');
is(read_as('bytes', 'SQL_ASCII', $queues), join("\n", sort values %label), 'the labels do not depend on the encoding of the client');
my $text = read_as('bytes', 'UTF8', 'SELECT jobq_prometheus()');
is_utf8($text, 'the text for Prometheus is UTF-8');
for my $label (sort values %label)
{
    my $escaped = $label =~ s/([\\"])/\\$1/gr;
    like($text, qr/^\Qjobq_jobs{queue="$escaped",status="pending"} 1\E$/m, "the text has the label $label");
    like($text, qr/^\Qjobq_jobs_enqueued_total{queue="$escaped",kind="kind \\xFF"} 1\E$/m, 'the totals have the label, too');
}

# ---- LATIN1: the server converts the output

encoded('latin', 'LATIN1');
value($node, 'latin', q{SELECT jobq_enqueue(E'caf\xe9'), jobq_enqueue('caf\xE9')});
is(read_as('latin', 'UTF8', $queues), qq{caf\\xE9\ncaf\xc3\xa9}, 'LATIN1: the labels are the names');
$text = read_as('latin', 'UTF8', 'SELECT jobq_prometheus()');
is_utf8($text, 'LATIN1: the text is UTF-8 for a client with that encoding');
like($text, qr/queue="caf\xc3\xa9",status="pending"} 1$/m, 'LATIN1: it has the name');

done_testing();
