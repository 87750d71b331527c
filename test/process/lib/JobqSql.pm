# Executes SQL in a session of its own like psql, but without starting psql, which takes ten times as long as a connection; a test does
# this hundreds of times. Statements are sent one at a time, each in a transaction of its own unless the SQL says BEGIN. The first error
# ends the session. The output has the format of `psql -XAtq`.
package JobqSql;

use strict;
use warnings FATAL => 'all';

use DBI;
use Exporter 'import';

our @EXPORT = qw(run_here);

# Splits a script into statements. Semicolons in strings, quoted names, comments, parentheses, and SQL function bodies do not end a
# statement.
sub statements
{
    my ($sql) = @_;
    my ($parentheses, $body, $begin, @found) = (0, 0, 0);
    pos($sql) = 0;
    while (pos($sql) < length $sql)
    {
        if    ($sql =~ /\G(?:--[^\n]*|\s+)/gc)                       { next; }
        elsif ($sql =~ /\G\/\*/gc)                                   { $sql =~ /\G.*?\*\//gcs; }
        elsif ($sql =~ /\G[eE]'(?:[^'\\]|\\.|'')*'/gcs)              { next; }
        elsif ($sql =~ /\G'(?:[^']|'')*'/gcs)                        { next; }
        elsif ($sql =~ /\G"(?:[^"]|"")*"/gcs)                        { next; }
        elsif ($sql =~ /\G(\$(?:[A-Za-z_][A-Za-z_0-9]*)?\$).*?\1/gcs) { next; }
        elsif ($sql =~ /\G\$(?:[A-Za-z_][A-Za-z_0-9]*)?\$/gc)        { $sql =~ /\G.*/gcs; }
        elsif ($sql =~ /\GBEGIN\s+ATOMIC\b/gci)                      { $body++; }
        elsif ($body > 0 && $sql =~ /\GCASE\b/gci)                   { $body++; }
        elsif ($body > 0 && $sql =~ /\GEND\b/gci)                    { $body--; }
        elsif ($sql =~ /\G\w+/gc)                                    { next; }
        elsif ($sql =~ /\G\(/gc)                                     { $parentheses++; }
        elsif ($sql =~ /\G\)/gc)                                     { $parentheses--; }
        elsif ($sql =~ /\G;/gc)
        {
            next if $parentheses > 0 || $body > 0;
            push @found, substr($sql, $begin, pos($sql) - $begin);
            $begin = pos $sql;
        }
        else { $sql =~ /\G./gcs; }
    }
    push @found, substr($sql, $begin);
    return grep { /[^\s;]/ && !/\A(?:\s|--[^\n]*\n?)*\z/ } @found;
}

# Returns whether only psql can execute the SQL.
sub needs_psql
{
    my ($sql) = @_;
    return $sql =~ /^\s*\\|\\g/m || $sql =~ /\bCOPY\b.*\b(?:STDIN|STDOUT)\b/is;
}

# Executes SQL with a connection string, optionally as another user. Returns the output, and the errors and notices.
sub run_here
{
    my ($connection, $user, $sql) = @_;
    my ($out, $err) = ('', '');
    local $SIG{__WARN__} = sub { $err .= $_[0]; };
    my $dbh = DBI->connect("dbi:Pg:$connection", $user // '', '',
        { AutoCommit => 1, RaiseError => 0, PrintError => 0, PrintWarn => 1, pg_enable_utf8 => 0, pg_bool_tf => 1, pg_expand_array => 0 });
    return ('', $DBI::errstr, 0) unless $dbh;
    for my $statement (statements($sql))
    {
        my $sth = $dbh->prepare($statement, { pg_direct => 1 });
        if (!$sth || !$sth->execute)
        {
            $err .= $dbh->errstr;
            $dbh->disconnect;
            return ($out, $err, 0);
        }
        next unless ($sth->{NUM_OF_FIELDS} // 0) > 0;
        while (my $row = $sth->fetchrow_arrayref) { $out .= join('|', map { $_ // '' } @$row) . "\n"; }
    }
    $dbh->disconnect;
    return ($out, $err, 1);
}

1;
