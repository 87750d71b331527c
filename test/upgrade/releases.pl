# Tests scripts/release.sh in a repository of its own: releases, a patch on a branch from a tag, carrying it over, and what is
# rejected.
use strict;
use warnings FATAL => 'all';

use Cwd qw(getcwd);
use File::Temp qw(tempdir);
use Test::More;

my $source = getcwd();
my $here   = tempdir(CLEANUP => 1);
$ENV{"GIT_$_->[0]"} = $_->[1]
  for [ AUTHOR_NAME => 'a' ], [ AUTHOR_EMAIL => 'a@b' ], [ COMMITTER_NAME => 'a' ], [ COMMITTER_EMAIL => 'a@b' ], [ CONFIG_GLOBAL => '/dev/null' ];

sub run
{
    my ($command) = @_;
    my $said = qx(cd '$here' && { $command; } 2>&1);
    return ($? == 0, $said);
}

sub does
{
    my ($command, $name) = @_;
    my ($ok, $said) = run($command);
    ok($ok, $name // $command) or diag($said);
    return $said;
}

sub refuses
{
    my ($command, $why) = @_;
    my $head = head();
    my ($ok, $said) = run($command);
    ok(!$ok, "rejected: $command");
    like($said, $why, 'with the reason');
    is(head(), $head, 'and without a commit');
    return;
}

sub head { return (run('git rev-parse HEAD && git tag'))[1] }

sub contents
{
    my ($file) = @_;
    open my $in, '<', "$here/$file" or return undef;
    local $/ = undef;
    return <$in>;
}

sub changed
{
    my ($file, $how, $line) = @_;
    my $text = contents($file);
    $how->() for $text;
    open my $out, '>', "$here/$file" or die "$file: $!";
    print {$out} $text;
    close $out;
    does("git commit -qam '$line'", $line);
    return;
}

sub says_new { my ($line) = @_; return changed('CHANGELOG.md', sub { s/^(## \[Unreleased\]\n)/$1\n- $line\n/m }, $line) }
sub checks { return does('scripts/release.sh --check', "--check: $_[0]") }

sub entries
{
    return [ contents('debian/changelog') =~ /^jobq \((.*?)-/gm ];
}

# Whatever has been released, this history begins before the first release.
my @parts = map { "'$source/$_'" } qw(Makefile jobq.control router scripts src docs debian CHANGELOG.md);
does("cp -R @parts . && rm -rf src/sql/releases src/sql/upgrades router/sql/releases router/sql/upgrades", 'a copy');
does(q{sed -i "s/^default_version = .*/default_version = '1.0.0'/" jobq.control && sed -i -e '/^ -- /q' debian/changelog &&
    sed -i '1s/([^-]*-/(1.0.0-/' debian/changelog && printf '# Changelog\n\n## [Unreleased]\n' >CHANGELOG.md &&
    git init -q -b main && git add -A && git commit -qm Begin}, 'a repository');
checks('nothing has been released');
refuses('scripts/release.sh 1.0.0', qr/says nothing under/);
says_new('everything');
does('scripts/release.sh 1.0.0');
checks('1.0.0 is released');
is_deeply(entries(), [ '1.1.0', '1.0.0' ], 'Debian: each version has an entry');

# A change of the SQL, which must not become part of 1.0.1.
my $begun = 'src/sql/upgrades/jobq--1.0.0--1.1.0.sql';
my $new   = "\nCOMMENT ON SCHEMA jobq IS 'new';\n";
does("printf \"\\n-- Something new.\\nCOMMENT ON SCHEMA jobq IS 'new';\\n\" >>src/sql/50_privileges.sql && git commit -qam SQL", 'SQL changes');
refuses('scripts/release.sh --check', qr/has no statements, but src\/sql has changed since 1\.0\.0/);
changed($begun, sub { $_ .= $new }, 'the change has an upgrade script');
checks('with the upgrade script');
says_new('something new');
refuses('scripts/release.sh 1.0.1', qr/make it on a branch from v1\.0\.0/);

# The patch release, made from the tag.
does('git checkout -q -b patch v1.0.0', 'a branch from v1.0.0');
checks('on the branch');
changed('src/main/jobq.cpp', sub { $_ .= "// Mended.\n" }, 'mended');
refuses('scripts/release.sh 1.1.0', qr/patches of it are 1\.0\.1 and so on/);
says_new('a hole is closed');
does('scripts/release.sh 1.0.1');
checks('1.0.1 is released');
is_deeply(entries(), [ '1.0.1', '1.0.0' ], 'Debian: the patch has an entry');
like(contents('jobq.control'), qr/'1\.0\.1'/, 'nothing is in the making there');
says_new('another hole is closed');
does('scripts/release.sh 1.0.2');
checks('1.0.2 is released');

# The version in development must have upgrade paths from these patch releases.
does('git checkout -q main');
refuses('scripts/release.sh --check', qr/v1\.0\.1: was released on another branch.*v1\.0\.2: /s);
refuses('scripts/release.sh 1.1.0',   qr/v1\.0\.1: was released on another branch/);
refuses('scripts/release.sh --carry 1.0.2', qr/carry the releases between them first/);
refuses('scripts/release.sh --carry 1.0.3', qr/tag v1\.0\.3 does not exist/);
does("scripts/release.sh --carry $_") for '1.0.1', '1.0.2';
checks('both are carried over');
refuses('scripts/release.sh --carry 1.0.2', qr/is already here/);
is_deeply(entries(), [ '1.1.0', '1.0.2', '1.0.1', '1.0.0' ], 'Debian: in the order of versions');
is_deeply([ contents('CHANGELOG.md') =~ /^## \[(.*?)\]/gm ], [ 'Unreleased', '1.0.2', '1.0.1', '1.0.0' ], 'so is the changelog');
like(contents('CHANGELOG.md'), qr/\[1\.0\.1\].*a hole is closed.*\[1\.0\.0\]/s, 'with what is new');
like(contents('src/sql/upgrades/jobq--1.0.2--1.1.0.sql'), qr/since 1\.0\.2\..*IS 'new'/s, 'the upgrade script begins at the last patch release');
is(contents($begun), undef, 'and no longer at 1.0.0');
does('scripts/release.sh 1.1.0');
checks('1.1.0 is released');

# A later patch release of the old branch: its upgrade script is a copy.
does('git checkout -q patch');
checks('newer releases do not concern the old branch');
says_new('a third hole is closed');
does('scripts/release.sh 1.0.3');
does('git checkout -q main');
does('scripts/release.sh --carry 1.0.3');
checks('1.0.3 is carried over');
is(contents('src/sql/upgrades/jobq--1.0.3--1.1.0.sql'), contents('src/sql/upgrades/jobq--1.0.2--1.1.0.sql'), 'its upgrade script is that of 1.0.2');
like(contents('src/sql/releases/SHA256SUMS'), qr/ src\/sql\/upgrades\/jobq--1\.0\.3--1\.1\.0\.sql$/m, 'its upgrade script is frozen');
like(contents('router/sql/releases/SHA256SUMS'), qr/ router\/sql\/releases\/jobq_$_--1\.0\.3\.sql$/m, "so is the script of jobq_$_") for qw(router shard);
says_new('one more');
does('scripts/release.sh 1.1.1', 'a patch where no SQL has changed, without a branch');
checks('1.1.1 is released');
is_deeply(entries(), [ '1.2.0', '1.1.1', '1.1.0', '1.0.3', '1.0.2', '1.0.1', '1.0.0' ], 'Debian: all of them');
my @dates = map { scalar qx(date -d '$_' +%s) } (contents('debian/changelog') =~ /^ -- .*>  (.*)$/gm)[ 0, 1 ];
cmp_ok($dates[0], '>', $dates[1], 'the newest entry is later than the entry below it');
changed('src/sql/releases/jobq--1.0.1.sql', sub { s/queue/Queue/ }, 'a frozen script changes');
refuses('scripts/release.sh --check', qr/1\.0\.1\.sql: differs from the released file.*differs from the file in tag v1\.0\.1/s);
changed('router/sql/releases/jobq_shard--1.0.0.sql', sub { s/queue/Queue/ }, 'a frozen script of a shard changes');
refuses('scripts/release.sh --check', qr/jobq_shard--1\.0\.0\.sql: differs from the released file/);

done_testing();
