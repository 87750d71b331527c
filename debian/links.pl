# debian/links.pl DIRECTORY...: corrects the links in the pages below directories of installed documentation. A link to a file
# that the package has under another name gets this name, and a link to a file that the package does not have becomes plain text.
# Runs after everything else is installed.
use strict;
use warnings FATAL => 'all';

use File::Basename qw(dirname);
use File::Find qw(find);

my %installed_as = (LICENSE => 'copyright', 'CHANGELOG.md' => 'changelog.gz');

sub link_to
{
    my ($page, $text, $target) = @_;
    my $path = $target =~ s/#.*//r;
    return "[$text]($target)" if $path eq '' || $path =~ /^\w+:/;
    my $named = $path =~ s/([^\/]+)$/$installed_as{$1} || $1/er;
    return "[$text](" . $named . substr($target, length $path) . ')' if -e dirname($page) . "/$named";
    return $text;
}

for my $top (@ARGV)
{
    find({ no_chdir => 1, wanted => sub {
        return if !-f || !/\.md$/;
        my $page = $_;
        open my $in, '<', $page or die "$page: $!";
        my $text = do { local $/ = undef; <$in> };
        close $in;
        $text =~ s/\[([^\[\]]*)\]\(([^()\s]+)\)/link_to($page, $1, $2)/ge;
        open my $out, '>', $page or die "$page: $!";
        print {$out} $text;
        close $out or die "$page: $!";
    } }, $top);
}
