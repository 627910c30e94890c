//! A configuration file that is replaced by write and rename.

use seekless_crashfs::{CheckError, Disk, Model, Probe, Report, fs};
use std::error::Error;
use std::io::{self, Write};

/// Which syncs a program does.
#[derive(Clone, Copy)]
struct Syncs {
    file: bool,
    directory: bool,
}

const ALL: Syncs = Syncs { file: true, directory: true };

fn save(text: &str, syncs: Syncs) -> io::Result<()> {
    let mut file = fs::File::create("config.tmp")?;
    file.write_all(text.as_bytes())?;
    if syncs.file {
        file.sync_all()?;
    }
    fs::rename("config.tmp", "config")?;
    if syncs.directory {
        fs::File::open("/")?.sync_all()?;
    }
    Ok(())
}

fn text(number: u32) -> String {
    format!("number = {number}\n")
}

/// The number in the file; 0 if there is no file.
fn load() -> Result<u32, Box<dyn Error>> {
    match fs::read_to_string("config") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        read => {
            let read = read?;
            let number = read.strip_prefix("number = ").ok_or_else(|| format!("{read:?}"))?;
            Ok(number.trim_end().parse()?)
        }
    }
}

/// Saves `saves` files, the first without a predecessor.
fn report(saves: u32, syncs: Syncs, models: &[Model]) -> Result<Report, CheckError> {
    let disk = Disk::new();
    let saved = disk.run(|acks| {
        (1..=saves).try_for_each(|number| {
            save(&text(number), syncs)?;
            acks.push(number);
            io::Result::Ok(())
        })
    });
    saved.expect("the disk in memory has room");
    disk.crashes(models.iter().copied()).check(|acked| {
        let (found, wanted) = (load()?, acked.last().copied().unwrap_or(0));
        match found >= wanted {
            true => Ok(()),
            false => Err(format!("number {found} is older than {wanted}").into()),
        }
    })
}

fn red(result: Result<Report, CheckError>) -> Report {
    match result {
        Err(CheckError::Red(report)) => report,
        other => panic!("{other:?}"),
    }
}

fn bad(report: &Report) -> Vec<&str> {
    let those = report.models.iter().filter(|one| one.bad.is_some());
    those.map(|one| one.model.name).collect()
}

#[test]
fn a_save_with_all_syncs_is_good_on_every_model() {
    let report = report(4, ALL, &Model::USUAL).expect("all syncs are there");
    assert_eq!(bad(&report), Vec::<&str>::new(), "{report}");
    assert!(report.models.iter().all(|one| one.states > 8), "{report}");
    assert!(report.to_string().starts_with("GREEN: no bad state on posix, xfs, ext4\n"));
}

#[test]
fn a_first_save_without_a_sync_of_the_file_is_bad_on_ext4_and_xfs() {
    let report = red(report(1, Syncs { file: false, directory: true }, &Model::USUAL));
    assert_eq!(bad(&report), ["posix", "xfs", "ext4"]);
    let text = report.to_string();
    assert!(text.contains("sync_all of \"/config.tmp\" between them is missing"), "{text}");
    assert!(text.contains("ext4 writes a new name without waiting for the content"), "{text}");
}

#[test]
fn a_later_save_without_a_sync_of_the_file_is_bad_on_xfs_and_ext4() {
    let disk = Disk::new();
    {
        let _entered = disk.enter();
        save(&text(1), ALL).expect("the disk in memory has room");
    }
    disk.run(|acks| {
        save(&text(2), Syncs { file: false, directory: true })?;
        acks.push(2);
        io::Result::Ok(())
    })
    .expect("the disk in memory has room");
    let models = [Model::XFS, Model::EXT4];
    let result = disk.crashes(models).check(|acked| {
        let wanted = acked.last().copied().unwrap_or(1);
        if load()? >= wanted { Ok(()) } else { Err("an old number".into()) }
    });
    let report = red(result);
    assert_eq!(bad(&report), ["xfs", "ext4"], "{report}");
    let rule = "xfs does not write the content of a file before a rename over another";
    assert!(report.to_string().contains(rule), "{report}");
}

#[test]
fn a_save_without_a_sync_of_the_directory_loses_what_was_acknowledged() {
    let report = red(report(2, Syncs { file: true, directory: false }, &Model::USUAL));
    let text = report.to_string();
    assert!(text.contains("1 was acknowledged when rename("), "{text}");
    assert!(text.contains("sync_all of the directory \"/\" before that is missing"), "{text}");
}

#[test]
fn posix_alone_decides_and_beside_others_informs() {
    // The directory is never synced, but the sync of the next file commits the earlier rename.
    let relies = |models: &[Model]| {
        let disk = Disk::new();
        disk.run(|acks| {
            fs::write("a", "1")?;
            let second = fs::File::create("b")?;
            second.sync_all()?;
            acks.push(());
            io::Result::Ok(())
        })
        .expect("the disk in memory has room");
        disk.crashes(models.iter().copied()).check(|acked| {
            let is_there = fs::exists("a")?;
            if is_there || acked.is_empty() { Ok(()) } else { Err("a is lost".into()) }
        })
    };
    let report = relies(&Model::USUAL).expect("named file systems keep it");
    assert_eq!(bad(&report), ["posix"]);
    assert!(report.to_string().contains("relies on more than POSIX promises"), "{report}");
    assert!(report.to_string().contains("\nposix: the power goes"), "{report}");
    assert_eq!(bad(&red(relies(&[Model::POSIX]))), ["posix"]);
}

#[test]
fn a_check_that_cannot_be_trusted_is_an_error() {
    let saved = || {
        let disk = Disk::new();
        disk.run(|acks| {
            save(&text(1), ALL)?;
            acks.push(1);
            io::Result::Ok(())
        })
        .expect("the disk in memory has room");
        disk
    };
    let probe = |result: Result<Report, CheckError>| match result {
        Err(CheckError::Untrusted { probe, .. }) => probe,
        other => panic!("{other:?}"),
    };
    let blind = saved().crashes(Model::USUAL).check(|_| Ok(()));
    assert_eq!(probe(blind), Probe::MissingData);
    let wrong = saved().crashes(Model::USUAL).check(|_| Err("no".into()));
    assert_eq!(probe(wrong), Probe::EndState);
    let strict = saved().crashes(Model::USUAL).check(|_| {
        assert_eq!(load()?, 1);
        Ok(())
    });
    assert_eq!(probe(strict), Probe::StartState);
    let elsewhere = Disk::<u32>::new();
    elsewhere.run(|acks| acks.push(1));
    assert_eq!(elsewhere.crashes(Model::USUAL).check(|_| Ok(())), Err(CheckError::NoChange));
    assert_eq!(saved().crashes([]).check(|_| Ok(())), Err(CheckError::NoModel));
}

#[test]
fn the_same_run_has_the_same_report() {
    let syncs = Syncs { file: false, directory: false };
    let run = || report(6, syncs, &Model::USUAL).expect_err("syncs are missing").to_string();
    assert_eq!(run(), run());
}
