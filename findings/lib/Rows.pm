# Rows with content that follows from their number, for workloads and checks in Perl. The scheme is
# the one of rows.py.
package Rows;
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use POSIX ();

# Exit codes of a check, both bad to `seekless crash-test`.
use constant { LOST => 1, DAMAGED => 3 };

# How many rows a workload commits: ROWS of the environment, else the usual number.
sub count { my ($usual) = @_; return $ENV{ROWS} || $usual }

# The 512 characters of a row.
sub content {
    my ($number) = @_;
    return join '', map { sha256_hex("row $number part $_") } 0 .. 7;
}

# Records that a row is committed.
sub acknowledge {
    my ($number) = @_;
    open my $marks, '>>', $ENV{SEEKLESS_ACKS} or die "acknowledgements: $!";
    print {$marks} "$number\n";
    close $marks or die "acknowledgements: $!";
}

# Ends the check at once, without destructors.
sub finish {
    my ($code, $message) = @_;
    $message =~ s/\s+/ /g;
    syswrite STDOUT, "$message\n";
    POSIX::_exit($code);
}

# Ends the check with the verdict about the rows, a hash of numbers to content.
sub judge {
    my ($rows) = @_;
    my $count = keys %$rows;
    for my $number (1 .. $count) {
        defined $rows->{$number}
            or finish(DAMAGED, "damaged: row $number is missing, but a later row is there");
        $rows->{$number} eq content($number)
            or finish(DAMAGED, "damaged: row $number has other content");
    }
    my $acked = $ENV{SEEKLESS_ACKED} || 0;
    finish(LOST, "lost: row $acked is acknowledged, row $count is the last one there")
        if $count < $acked;
    finish(0, "good: $count rows");
}

# Does what the last two words of the command line say: an action, and a directory.
sub main {
    my ($actions) = @_;
    my ($action, $directory) = @ARGV[-2, -1];
    if ($action ne 'check') { $actions->{$action}->($directory); return }
    my $rows = eval { $actions->{read}->($directory) };
    finish(DAMAGED, "damaged: " . ($@ || 'no rows')) unless $rows;
    judge($rows);
}

1;
