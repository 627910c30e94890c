//! Running `--setup` and `--run` on a file system that this process serves.
//!
//! The worker that runs the command attaches the mount in its own namespace. When the command has
//! ended, the namespace goes, and the file system comes to its clean end: what it writes then is on
//! the recording, behind the last acknowledgement.

use super::device::ImageDevice;
use super::policy::OwnPolicy;
use crate::calls::record::{CallRecorder, Heard};
use crate::record::marks::{MarkFile, Marks};
use crate::record::{RecordError, Recorded};
use crate::replay::extents::Extents;
use crate::replay::image::{Image, Source};
use crate::workload::record::{ACKS, AckDirectory, Run, RunError, Tested};
use crate::workload::{Disk, Ran, Running, SetUp, SetUpError, mount_point, second_mount_point};
use seekless_calls::Entry;
use seekless_formats::FsError;
use seekless_serve::files::{Detached, FilesError, Volume, VolumeOptions};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What lists of mounts call the file system.
const SOURCE: &str = "seekless";

/// What recording calls came to.
#[derive(Debug)]
pub struct TestedCalls {
    /// The calls.
    pub entries: Vec<Entry>,
    /// How the command ended, and how many calls changed something.
    pub tested: Tested,
}

/// The content of a base image, which is only read.
///
/// # Errors
/// If it cannot be opened.
pub fn image_of(base: &Path) -> io::Result<Image> {
    image_with(base, None)
}

/// The content of each disk in a base image. The second one begins at byte `second`.
fn disks_of(base: &Path, second: Option<u64>) -> io::Result<Vec<Arc<Image>>> {
    Ok(image_with(base, second)?.disks().into_iter().map(Arc::new).collect())
}

fn image_with(base: &Path, second: Option<u64>) -> io::Result<Image> {
    let file = File::open(base)?;
    let size = file.metadata()?.len();
    let source = Source::new(Some(file.try_clone()?), file, size).with_second(second);
    Ok(Image::new(Arc::new(source), Arc::default(), Extents::default()))
}

/// Runs a command and records the blocks of the file system below it.
///
/// # Errors
/// As for [`crate::workload::record::record`].
pub fn record(run: Run<'_>, policy: OwnPolicy) -> Result<Tested, RunError> {
    let images = disks_of(run.base, run.second).map_err(told(run.base))?;
    let size = images.iter().map(|image| image.size()).sum();
    let recorder = run.recorder(size)?;
    let mut images = images.into_iter();
    let first = images.next().map(|image| ImageDevice::recorded(image, Arc::clone(&recorder)));
    let second = run.second.zip(images.next());
    let second =
        second.map(|(begin, image)| ImageDevice::second(image, Arc::clone(&recorder), begin));
    let calls = CallRecorder::counting();
    let marks = Arc::clone(&recorder) as Arc<dyn Marks>;
    let begin = || recorder.begin();
    let live = Live { run, policy, calls: &calls, marks, begin: &begin };
    let (ran, writes) = live.run(first.into_iter().chain(second))?;
    let output = |source| RecordError::Output { path: run.tape.to_owned(), source };
    let recorded = recorder.finish().map_err(output)?;
    Ok(Tested { recorded, ran, writes })
}

/// Runs a command and records its calls. `run.tape` is not written.
///
/// # Errors
/// As for [`record`].
pub fn record_calls(run: Run<'_>, policy: OwnPolicy) -> Result<TestedCalls, RunError> {
    let image = image_of(run.base).map_err(told(run.base))?;
    let device = ImageDevice::new(Arc::new(image));
    let calls = CallRecorder::new();
    let marks = Arc::clone(&calls) as Arc<dyn Marks>;
    let begin = || {
        calls.begin();
        Ok(())
    };
    let live = Live { run, policy, calls: &calls, marks, begin: &begin };
    let (ran, writes) = live.run([device])?;
    let entries = calls.take();
    let count = |is: fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count() as u64;
    let recorded = Recorded {
        requests: count(|entry| matches!(entry, Entry::Call { .. })),
        marks: count(|entry| matches!(entry, Entry::Mark(_))),
        ..Recorded::default()
    };
    Ok(TestedCalls { entries, tested: Tested { recorded, ran, writes } })
}

fn told<'p>(what: &'p Path) -> impl FnOnce(io::Error) -> RunError + use<'p> {
    move |error| RunError::System { what: what.display().to_string(), error }
}

/// A workload that is recorded.
struct Live<'l> {
    run: Run<'l>,
    policy: OwnPolicy,
    calls: &'l Arc<CallRecorder>,
    /// Takes acknowledgements.
    marks: Arc<dyn Marks>,
    /// Notes that the workload begins.
    begin: &'l dyn Fn() -> io::Result<()>,
}

impl Live<'_> {
    /// How the command ended, and how many of its calls changed something.
    fn run(self, devices: impl IntoIterator<Item = ImageDevice>) -> Result<(Ran, u64), RunError> {
        let Run { base, dir, command, timeout, stop, log, .. } = self.run;
        let (mut all, mut disks) = (Vec::new(), Vec::new());
        for device in devices {
            let (served, disk) = self.serve(device).map_err(told(base))?;
            all.push(served);
            disks.push(disk);
        }
        let acks = AckDirectory::new(MarkFile::over(self.marks), dir).map_err(told(dir))?;
        let point = mount_point(dir).map_err(told(dir))?;
        let second = self.run.second.map(|_| second_mount_point(dir)).transpose();
        let second = second.map_err(told(dir))?;
        let variables = [(ACKS, acks.path().display().to_string())];
        let (place, second, variables) = (&*point, second.as_deref(), &variables[..]);
        let running = Running { command, place, second, variables, timeout, stop, log };
        let mut before = 0;
        let mut begin = || {
            before = self.calls.changes();
            (self.begin)()
        };
        let ran = running.run(disks, &mut begin, &mut || ());
        // Whatever became of the command, each file system is brought to its end.
        let ended: Vec<_> = all.into_iter().map(Detached::end).collect();
        let ran = ran.map_err(told(Path::new("--run")))?;
        for one in ended {
            one.map_err(|error| told(base)(os(error)))?;
        }
        Ok((ran, self.calls.changes() - before))
    }

    /// Serves the file system on a device. Its calls are heard.
    fn serve(&self, device: ImageDevice) -> io::Result<(Detached, Disk)> {
        let mut volume = Volume::of_device(Box::new(device), "a recorded volume");
        let fs = super::mount(&mut volume, self.policy, super::wall_clock()).map_err(os)?;
        let heard = Heard::new(fs, Arc::clone(self.calls));
        let mut served = Detached::new(Box::new(heard), volume, SOURCE).map_err(os)?;
        let disk = attached(&mut served)?;
        Ok((served, disk))
    }
}

/// Mounts the image, runs the command, and unmounts.
///
/// # Errors
/// As for [`crate::workload::set_up`].
pub fn set_up(how: SetUp<'_>, policy: OwnPolicy) -> Result<Option<Ran>, SetUpError> {
    let told = |what: &Path| {
        let what = what.display().to_string();
        move |error| SetUpError::System { what, error }
    };
    let (mut all, mut disks) = (Vec::new(), Vec::new());
    for image in [Some(how.image), how.second].into_iter().flatten() {
        let (served, disk) = served_image(image, policy).map_err(told(image))?;
        all.push(served);
        disks.push(disk);
    }
    let point = mount_point(how.dir).map_err(told(how.dir))?;
    let second = how.second.map(|_| second_mount_point(how.dir)).transpose();
    let second = second.map_err(told(how.dir))?;
    let SetUp { command, variables, timeout, stop, log, .. } = how;
    let (place, second) = (&*point, second.as_deref());
    let running = Running { command, place, second, variables, timeout, stop, log };
    let ran = running.run(disks, &mut || Ok(()), &mut || ());
    let ended: Vec<_> = all.into_iter().map(Detached::end).collect();
    let ran = ran.map_err(told(Path::new("--setup")))?;
    for one in ended {
        one.map_err(|error| told(how.image)(os(error)))?;
    }
    if ran.is_good() { Ok(Some(ran)) } else { Err(SetUpError::Command(ran)) }
}

/// Serves the file system in an image.
fn served_image(image: &Path, policy: OwnPolicy) -> io::Result<(Detached, Disk)> {
    let options = VolumeOptions::new(vec![image.to_owned()], false);
    let mut volume = Volume::open(&options).map_err(os)?;
    let fs = super::mount(&mut volume, policy, super::wall_clock()).map_err(os)?;
    let mut served = Detached::new(Box::new(fs), volume, SOURCE).map_err(os)?;
    let disk = attached(&mut served)?;
    Ok((served, disk))
}

/// The mount, for the worker that runs the command.
fn attached(served: &mut Detached) -> io::Result<Disk> {
    let mount = served.take_mount().ok_or_else(|| io::Error::other("a mount was taken"))?;
    Ok(Disk { file: File::from(mount), mounting: super::mounting() })
}

/// An error that says more than a number of the system.
fn os<E: Into<OwnError>>(error: E) -> io::Error {
    io::Error::other(error.into())
}

/// What can go wrong below a workload.
#[derive(Debug, thiserror::Error)]
enum OwnError {
    #[error(transparent)]
    Fs(#[from] FsError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Serve(#[from] seekless_serve::server::ServeError),
}
