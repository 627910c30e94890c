//! SQLite on a mount, killed in the middle of its work: alone, with the process of the mount, and
//! with the power of the disk. Each row that it has acknowledged must be there.

use crate::harness::{Helper, command, run, seekless, succeed};
use crate::mount::{
    Disk, Foreground, Mounted, VLFS, policies, policies_of_one_device, possible, runs_on,
};
use crate::require;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Stdio};

/// Inserts rows for ever, each in a transaction of its own, and prints the number of each row that
/// is committed.
const CLIENT: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('PRAGMA journal_mode=' + sys.argv[2])
db.execute('PRAGMA synchronous=' + sys.argv[3])
db.execute('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, v TEXT)')
n = db.execute('SELECT coalesce(max(n), 0) FROM t').fetchone()[0]
while True:
    n += 1
    db.execute('INSERT INTO t VALUES (?, ?)', (n, 'row %d ' % n * 40))
    print(n, flush=True)
";

/// Prints the verdict of SQLite on the file, and how many rows there are from the first on.
const JUDGE: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
rows = [n for n, v in db.execute('SELECT n, v FROM t ORDER BY n') if v == 'row %d ' % n * 40]
assert rows == list(range(1, len(rows) + 1)), rows
print(db.execute('PRAGMA integrity_check').fetchone()[0], len(rows))
";

/// Journals, with what each needs to keep a row that it has acknowledged. A rollback journal that
/// is removed must be gone for good, for which only `EXTRA` syncs the directory.
const WAYS: [(&str, &str); 4] =
    [("DELETE", "EXTRA"), ("TRUNCATE", "FULL"), ("WAL", "FULL"), ("PERSIST", "EXTRA")];

/// The journals, each on another layout, and all on VLFS where that has the policy.
fn ways(policy: &str) -> impl Iterator<Item = ((&'static str, &'static str), &'static str)> {
    let on_vlfs = WAYS.into_iter().zip([VLFS; 4]);
    let all = WAYS.into_iter().zip(["raw", "vlog", "inplace", "lfs"]).chain(on_vlfs);
    let has_vlfs = runs_on(policy, VLFS);
    all.filter(move |(_, layout)| has_vlfs || *layout != VLFS)
}

/// Rows after which the client, or what is below it, is killed.
const ROWS: u64 = 25;

/// A running client.
struct Client {
    process: Helper,
    rows: BufReader<ChildStdout>,
}

impl Client {
    fn start(point: &Path, (journal, synchronous): (&str, &str)) -> Client {
        let mut client = command("python3");
        client.args(["-c", CLIENT]).arg(point.join("a.db")).args([journal, synchronous]);
        client.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Helper(client.spawn().expect("it starts"));
        let rows = BufReader::new(process.0.stdout.take().expect("piped"));
        Client { process, rows }
    }

    /// The next row that is acknowledged; `None` if the client has ended.
    fn row(&mut self) -> Option<u64> {
        let mut line = String::new();
        self.rows.read_line(&mut line).expect("read");
        line.trim().parse().ok()
    }

    /// Waits for so many rows.
    fn wait(&mut self, rows: u64) {
        let reached = (0..rows).filter_map(|_| self.row()).count();
        assert_eq!(reached as u64, rows, "the client works");
    }

    /// The last row that is acknowledged at its end, which must come.
    fn last(mut self) -> u64 {
        std::iter::from_fn(|| self.row()).last().unwrap_or(0).max(ROWS)
    }

    fn kill(mut self) -> u64 {
        self.process.0.kill().expect("kill");
        self.last()
    }
}

/// The rows that are there.
fn rows(point: &Path) -> Result<u64, String> {
    let ended = run(command("python3").args(["-c", JUDGE]).arg(point.join("a.db")));
    let fine = ended.out.trim().strip_prefix("ok ").and_then(|count| count.parse().ok());
    fine.ok_or(ended.out + &ended.err)
}

#[track_caller]
fn has(point: &Path, acknowledged: u64, how: &str) {
    let found = rows(point);
    assert!(
        matches!(found, Ok(rows) if rows >= acknowledged),
        "{how}: {acknowledged} rows are acknowledged, found: {found:?}"
    );
}

#[test]
fn rows_survive_a_client_that_is_killed() {
    require!("python3");
    if !possible() {
        return;
    }
    let on =
        |layout| policies().filter(move |one| runs_on(one, layout)).map(move |one| (one, layout));
    for (policy, layout) in on("vlog").chain(on(VLFS)) {
        let disk = Disk::with_policy(policy, layout, "32M", &[]);
        let mut acknowledged = 0;
        for way in WAYS {
            let mounted = disk.mount(&["--policy", policy]);
            let mut client = Client::start(&mounted.point, way);
            client.wait(ROWS);
            acknowledged = client.kill().max(acknowledged);
            has(&mounted.point, acknowledged, way.0);
            mounted.unmount();
            disk.is_clean();
        }
        let mounted = disk.mount(&["--policy", policy, "--read-only"]);
        has(&mounted.point, acknowledged, policy);
        mounted.unmount();
    }
}

#[test]
fn rows_survive_the_process_of_the_mount() {
    require!("python3");
    if !possible() {
        return;
    }
    for policy in policies() {
        for (way, layout) in ways(policy) {
            let disk = Disk::with_policy(policy, layout, "32M", &[]);
            let mut daemon = Foreground::with(&disk, &["--policy", policy]);
            let mut client = Client::start(&disk.point(), way);
            client.wait(ROWS);
            daemon.kill();
            let acknowledged = client.last();
            // The mount point is free, no process has the image in use.
            Mounted { point: disk.point() }.unmount();
            disk.repair_after(policy);
            let mounted = disk.mount(&["--policy", policy]);
            has(&mounted.point, acknowledged, &format!("{policy}, {layout}, {}", way.0));
            mounted.unmount();
            disk.is_clean();
        }
    }
}

/// Lets a client work until the power goes, repairs what is left, and gives the rows that were
/// acknowledged and those that are there.
fn cut(policy: &str, layout: &str, way: (&str, &str), faults: &str) -> (u64, Result<u64, String>) {
    let disk = Disk::with_policy(policy, layout, "32M", &[]);
    let mounted = disk.mount_with_control(&["--policy", policy, "--faults", faults]);
    let mut client = Client::start(&mounted.point, way);
    client.wait(ROWS);
    disk.control(&["cut"]);
    // SQLite takes a directory that it cannot open for synced. So the row under way when the power
    // goes may be acknowledged after that, and does not count.
    let acknowledged = client.last() - 1;
    mounted.unmount();
    disk.repair_after(policy);
    let mounted = disk.mount(&[]);
    let found = rows(&mounted.point);
    mounted.unmount();
    disk.is_clean();
    (acknowledged, found)
}

#[test]
fn rows_survive_a_power_cut() {
    require!("python3");
    if !possible() {
        return;
    }
    for policy in policies_of_one_device() {
        for (way, layout) in ways(policy) {
            for seed in 1..=3 {
                let (acknowledged, found) = cut(policy, layout, way, &format!("seed={seed}"));
                assert!(
                    matches!(found, Ok(rows) if rows >= acknowledged),
                    "{policy}, {layout}, {}, seed {seed}: {acknowledged} rows are acknowledged, \
                     found: {found:?}",
                    way.0
                );
            }
        }
    }
}

/// The same check sees a disk that lies about flushes.
#[test]
fn rows_are_lost_on_a_disk_that_lies() {
    require!("python3");
    if !possible() {
        return;
    }
    let (acknowledged, found) = cut("async", "raw", WAYS[0], "lying-flush,unflushed=lose");
    assert!(!matches!(found, Ok(rows) if rows >= acknowledged), "{found:?} of {acknowledged}");
}

#[test]
fn an_image_in_use_is_refused_to_others() {
    if !possible() {
        return;
    }
    let disk = Disk::new("raw", "32M", &[]);
    let mounted = disk.mount(&[]);
    let refused = run(seekless().arg("mkfs").arg(disk.image()).arg("--force"));
    assert_eq!(refused.code(), 4, "{}", refused.err);
    let refused = run(seekless().args(["fs", "ls"]).arg(disk.image()));
    assert_eq!(refused.code(), 4, "{}", refused.err);
    mounted.unmount();
    disk.is_clean();
    succeed(seekless().args(["fs", "ls"]).arg(disk.image()));
}
