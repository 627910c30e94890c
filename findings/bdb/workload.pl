# Berkeley DB with one row a transaction: setup, run and check.
#
# usage: perl -I LIBRARIES workload.pl setup|run|check DIRECTORY
use strict;
use warnings;
use BerkeleyDB;
use Rows;

my $rows = Rows::count(4);

# Opens the environment, which recovers it, and the database.
sub database {
    my ($directory) = @_;
    mkdir "$directory/d";
    my $environment = BerkeleyDB::Env->new(
        -Home => "$directory/d",
        -Flags => DB_CREATE | DB_INIT_TXN | DB_INIT_LOG | DB_INIT_LOCK | DB_INIT_MPOOL
            | DB_PRIVATE | DB_RECOVER,
    ) or die "environment: $BerkeleyDB::Error";
    my $db = BerkeleyDB::Btree->new(
        -Filename => 'rows.db',
        -Env => $environment,
        -Flags => DB_CREATE | DB_AUTO_COMMIT,
    ) or die "database: $BerkeleyDB::Error";
    return ($environment, $db);
}

# Commits one row at a time, with a checkpoint after half of them.
sub run {
    my ($environment, $db) = database(@_);
    for my $number (1 .. $rows) {
        my $txn = $environment->txn_begin;
        $db->Txn($txn);
        $db->db_put($number, Rows::content($number)) == 0 or die "put: $BerkeleyDB::Error";
        $txn->txn_commit == 0 or die "commit: $BerkeleyDB::Error";
        Rows::acknowledge($number);
        $environment->txn_checkpoint(0, 0) if 2 * $number == $rows;
    }
}

# All rows.
sub read_all {
    my ($environment, $db) = database(@_);
    my %found;
    my $cursor = $db->db_cursor or die "cursor: $BerkeleyDB::Error";
    my ($key, $value) = ('', '');
    $found{$key} = $value while $cursor->c_get($key, $value, DB_NEXT) == 0;
    return \%found;
}

Rows::main({ setup => sub { database(@_) }, run => \&run, read => \&read_all });
