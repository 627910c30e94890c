# DBM::Deep with one row a transaction: setup, run and check.
#
# usage: perl -I LIBRARIES workload.pl setup|run|check DIRECTORY
use strict;
use warnings;
use DBM::Deep;
use Rows;

my $rows = Rows::count(3);

# Opens the database, and makes it if it is not there.
sub database {
    my ($directory) = @_;
    return DBM::Deep->new(file => "$directory/d.db", num_txns => 2, autoflush => 1);
}

# Commits one row at a time.
sub run {
    my $db = database(@_);
    for my $number (1 .. $rows) {
        $db->begin_work;
        $db->{$number} = Rows::content($number);
        $db->commit;
        Rows::acknowledge($number);
    }
}

# All rows.
sub read_all {
    my $db = database(@_);
    return { map { $_ => $db->{$_} } grep { /^\d+$/ } keys %$db };
}

Rows::main({
    setup => sub { database(@_)->{begin} = 0 },
    run => \&run,
    read => \&read_all,
});
