//! How many checks a second the sandbox runs: each mounts an ext4 state, runs `true` and unmounts.
//!
//! `mounts [SECONDS] [WORKERS]`, as root. States are files of a FUSE directory, as in a sweep.

use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::replay::check::{Checker as _, Verdict};
use seekless_crashtest::replay::extents::Extents;
use seekless_crashtest::replay::image::{Image, Source};
use seekless_crashtest::replay::mount::{Place, Way};
use seekless_crashtest::replay::stop::Stop;
use seekless_crashtest::sandbox::process::COMMAND;
use seekless_crashtest::sandbox::{SandboxOptions, Workers, enter_private_namespace, worker};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bytes of the disk.
const SIZE: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == COMMAND) {
        worker::run();
    }
    let number =
        |at: usize, default: u32| arguments.get(at).map_or(Ok(default), |text| text.parse::<u32>());
    let (seconds, count) = (number(0, 5)?, number(1, 2)?);
    enter_private_namespace()?;
    let dir = tempfile::tempdir()?;
    let base = dir.path().join("base");
    File::create(&base)?.set_len(SIZE)?;
    FileSystem::Ext4.make(&base)?;
    let stop = Arc::new(Stop::new()?);
    let options = SandboxOptions {
        isolation: seekless_crashtest::sandbox::process::Isolation::Machine,
        program: "/proc/self/exe".into(),
        command: "true".to_owned(),
        mount: FileSystem::Ext4.for_checks(),
        timeout: Duration::from_secs(60),
        stop: Arc::clone(&stop),
        dir: dir.path().to_owned(),
        copies: None,
    };
    let workers = Workers::new(options, count as usize)?;
    let way = std::env::var("WAY").unwrap_or_default().parse().unwrap_or(Way::Auto);
    let place = Place::new(way, dir.path())?;
    let source = Arc::new(Source::new(Some(File::open(&base)?), File::open("/dev/null")?, SIZE));
    let (done, began) = (AtomicU32::new(0), Instant::now());
    let end = began + Duration::from_secs(seconds.into());
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while Instant::now() < end {
                    one(&workers, &place, &source, &stop);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (done, took) = (done.into_inner(), began.elapsed());
    let rate = f64::from(done) / took.as_secs_f64();
    println!("{done} checks by {count} workers in {took:.1?}: {rate:.0} per second");
    Ok(())
}

fn one(workers: &Workers, place: &Place, source: &Arc<Source>, stop: &Stop) {
    let image = Image::new(Arc::clone(source), Arc::default(), Extents::default());
    let placed = place.put(Arc::new(image), stop).expect("a state becomes a file");
    let path: &Path = placed.path();
    let checked = workers.check(path, &[]).expect("a worker runs");
    assert_eq!(checked.verdict, Verdict::Good, "{}", checked.output);
}
