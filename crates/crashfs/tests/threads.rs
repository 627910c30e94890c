//! Disks, threads and files that stay open.

use seekless_crashfs::{Acks, CheckError, Disk, Model, fs};
use std::io::{self, Write};
use std::thread;

/// Threads that write a file each.
fn write_one(number: u8, acks: &Acks<u8>) -> io::Result<()> {
    let mut file = fs::File::create(format!("{number}"))?;
    file.write_all(&[number])?;
    file.sync_all()?;
    fs::File::open("/")?.sync_all()?;
    acks.push(number);
    Ok(())
}

#[test]
fn threads_that_enter_a_disk_are_on_it_in_runs_and_in_checks() {
    let disk = Disk::new();
    disk.run(|acks| {
        thread::scope(|scope| {
            for number in 0..3 {
                let disk = &disk;
                scope.spawn(move || {
                    let _entered = disk.enter();
                    write_one(number, acks).expect("the disk in memory has room");
                });
            }
        });
    });
    let report = disk.crashes(Model::USUAL).check(|acked| {
        let read = || {
            let _entered = disk.enter();
            acked
                .iter()
                .all(|number| fs::read(format!("{number}")).is_ok_and(|bytes| bytes == [*number]))
        };
        let is_good = thread::scope(|scope| scope.spawn(read).join());
        if is_good.unwrap_or(false) { Ok(()) } else { Err(format!("{acked:?}").into()) }
    });
    let report = report.expect("each thread syncs");
    assert!(report.models.iter().all(|one| one.cuts > 3), "{report}");
}

#[test]
fn what_a_check_writes_is_discarded_and_what_a_run_left_open_changes_no_state() {
    let disk = Disk::new();
    let mut left_open = disk
        .run(|acks| {
            fs::create_dir("dir")?;
            write_one(7, acks)?;
            fs::File::create("dir/open")
        })
        .expect("the disk in memory has room");
    let mut checks = 0;
    let report = disk.crashes([Model::EXT4]).check(|acked| {
        checks += 1;
        left_open.write_all(b"late")?;
        assert!(!fs::exists("checked")?, "a state has what the check of another one wrote");
        fs::write("checked", "x")?;
        assert!(fs::read("dir/open").unwrap_or_default().is_empty());
        assert!(fs::exists("7")? || acked.is_empty());
        Ok(())
    });
    report.expect("the file is synced");
    assert!(checks > 4, "{checks}");
    // Back on the disk of the runs.
    let _entered = disk.enter();
    assert!(!fs::exists("checked").expect("the top is there"));
    let bytes = fs::read("dir/open").expect("it was made in the run");
    assert_eq!(bytes.len(), 4 * checks);
}

#[test]
fn a_panic_of_the_check_is_told_with_its_place_and_ends_nothing() {
    let disk = Disk::new();
    disk.run(|acks| {
        fs::write("a", "1")?;
        acks.push(1);
        io::Result::Ok(())
    })
    .expect("the disk in memory has room");
    let result = disk.crashes([Model::XFS]).check(|acked| {
        assert_eq!(fs::exists("a")?, !acked.is_empty(), "the file and its promise");
        Ok(())
    });
    let Err(error @ CheckError::Red(_)) = result else { panic!("{result:?}") };
    let text = format!("{error:?}");
    assert!(text.contains("the file and its promise") && text.contains("threads.rs"), "{text}");
    assert!(text.contains("sync_all of \"/a\" before that is missing"), "{text}");
    let outside = thread::spawn(|| fs::read("a")).join();
    assert!(outside.is_err(), "a thread without a disk must not reach a real one");
}

#[test]
fn what_is_there_before_the_first_run_is_durable() {
    let disk = Disk::new();
    {
        let _entered = disk.enter();
        fs::write("base", "never synced").expect("the disk in memory has room");
    }
    disk.run(|acks| {
        fs::write("later", "1")?;
        fs::File::open("later")?.sync_all()?;
        acks.push(());
        io::Result::Ok(())
    })
    .expect("the disk in memory has room");
    let report = disk.crashes([Model::EXT4]).check(|acked| {
        assert_eq!(fs::read_to_string("base")?, "never synced");
        assert!(acked.is_empty() || fs::read("later")? == b"1");
        Ok(())
    });
    report.expect("nothing undoes what came before");
}
