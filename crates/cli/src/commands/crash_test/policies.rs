//! One run of the workload under every policy: its calls are recorded, replayed under each policy
//! in virtual time, and the recording of blocks that this makes is swept.

use super::{Subject, Test, by_signal};
use crate::failure::{Exit, Failure, Outcome};
use crate::sweeping::conduct::{self, Examined};
use crate::sweeping::output;
use crate::term::say;
use seekless_calls::Entry;
use seekless_crashtest::calls::replay::{Replayed, replay};
use seekless_crashtest::calls::store::{self, CallsError};
use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::own::policy::OwnPolicy;
use seekless_crashtest::own::run::{TestedCalls, image_of, record_calls};
use seekless_crashtest::record::recorder::Recorder;
use seekless_crashtest::report::Report;
use seekless_crashtest::report::policies::{PAUSED, PolicyReport};
use seekless_crashtest::session::{Load, Session};
use seekless_formats::Kind;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// A policy that was tried.
struct Tried {
    report: Report,
    distrust: Option<Failure>,
}

/// What was recorded.
struct Calls {
    run: Vec<Entry>,
    /// How the workload died, if it did.
    died: Option<String>,
    control: Option<Vec<Entry>>,
}

/// How calls are replayed.
#[derive(Clone, Copy)]
struct Replay {
    kind: Kind,
    policy: OwnPolicy,
    /// Virtual time behind each change.
    pause: Duration,
}

impl Replay {
    /// The policy, and whether there are pauses.
    fn name(self) -> String {
        match self.pause.is_zero() {
            true => self.policy.to_string(),
            false => format!("{}{PAUSED}", self.policy),
        }
    }
}

impl Test<'_> {
    /// Everything from the empty disk to the verdict.
    pub(super) fn every_policy(&self, kind: Kind, size: u64, out: &mut dyn Write) -> Outcome {
        let Calls { run, died, control } = match &self.args.calls {
            Some(dir) => self.earlier(dir)?,
            None => self.recorded_now(size)?,
        };
        let marks = run.iter().filter(|entry| matches!(entry, Entry::Mark(_))).count();
        self.refuse_silence(marks, died.as_deref())?;
        let (mut reports, mut distrust) = (Vec::new(), None);
        let calls = Calls { run, died, control };
        // Pauses let the file system write back between calls. That leaves other states, not
        // worse ones: both ways are tried.
        let pauses = [Duration::ZERO, self.args.pause];
        let pauses = if self.args.pause.is_zero() { &pauses[..1] } else { &pauses[..] };
        let ways = OwnPolicy::of(kind)
            .into_iter()
            .flat_map(|policy| pauses.iter().map(move |&pause| Replay { kind, policy, pause }));
        for way in ways {
            let tried = self.policy(way, &calls)?;
            reports.push(PolicyReport { policy: way.name(), report: tried.report });
            distrust = distrust.or(tried.distrust);
            if self.stop.asked().is_some() {
                break;
            }
        }
        output::print_policies(&reports, &self.args.sweep, out)?;
        if let Some(signal) = self.stop.asked() {
            return Err(by_signal(signal));
        }
        distrust.map_or(Ok(()), Err)?;
        let exits = reports.iter().filter_map(|one| conduct::exit_code(&one.report));
        match exits.min_by_key(|exit| *exit as u8) {
            Some(exit) => Err(Failure::said(exit)),
            None => Ok(()),
        }
    }

    /// Records the calls of --run and --control.
    fn recorded_now(&self, size: u64) -> Result<Calls, Failure> {
        self.make(size)?;
        let (run, died) = self.calls("run", &self.args.title())?;
        let control = self.args.control.as_deref();
        let control = control.map(|command| self.calls("control", command)).transpose()?;
        Ok(Calls { run, died, control: control.map(|(calls, _)| calls) })
    }

    /// Reads the calls that an earlier test has left, and copies its base.
    fn earlier(&self, dir: &Path) -> Result<Calls, Failure> {
        let base = dir.join("base.img");
        let cannot = |error| Failure::failed(format!("--calls: {}: {error}", base.display()));
        let image = image_of(&base).map_err(cannot)?;
        image.save(&self.path("base.img"), self.stop).map_err(cannot)?;
        let unusable = |error: CallsError| Failure::from_message(Exit::Image, &error.to_string());
        let read = |path: &Path| {
            let (size, entries) = store::read(path).map_err(unusable)?;
            match size == image.size() {
                true => Ok(entries),
                false => Err(Failure::new(
                    Exit::Image,
                    format!("{} is of another disk than its base.img", path.display()),
                )
                .hint("give the whole directory of one test")),
            }
        };
        let run = read(&dir.join("run.calls"))?;
        let control = dir.join("control.calls");
        let control = control.exists().then(|| read(&control)).transpose()?;
        Ok(Calls { run, died: None, control })
    }

    /// Records the calls of a workload; tells how it died, if it did.
    fn calls(&self, name: &str, command: &str) -> Result<(Vec<Entry>, Option<String>), Failure> {
        if self.is_traced {
            let (traced, died) = self.traced(name, command)?;
            return Ok((traced.entries, died));
        }
        let began = Instant::now();
        let (base, tape) = (self.path("base.img"), self.path(&format!("{name}.calls")));
        let log = self.path(&format!("{name}.log"));
        let run = self.run_of(command, [&base, &tape, &log]);
        let recorded = record_calls(run, OwnPolicy::default());
        let TestedCalls { entries, tested } =
            recorded.map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
        let died = self.accept(name, &tested, began)?;
        let size = std::fs::metadata(&base)?.len();
        store::write(&tape, size, &entries)
            .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
        Ok((entries, died))
    }

    /// Tries a policy.
    fn policy(&self, way: Replay, calls: &Calls) -> Result<Tried, Failure> {
        let test = Test { fs: FileSystem::Own(way.kind, way.policy), ..self.clone() };
        let name = &way.name();
        let (session, replayed) = test.replayed(name, way, &calls.run)?;
        let control = calls.control.as_ref().map(|calls| {
            test.replayed(&format!("{name}.control"), way, calls).map(|(session, _)| session)
        });
        let control = control.transpose()?;
        let writes = session.history().writes().len();
        let seconds = replayed.took_ns / 1_000_000_000;
        say(&format!(
            "seekless: {name}: {} calls in {seconds} s of virtual time made {writes} writes",
            replayed.calls
        ));
        let died = calls.died.clone();
        let subject = Subject { name, session: &session, died, control: control.as_ref() };
        let Examined { mut report, distrust } = test.examine(&subject)?;
        if replayed.foreign > 0 {
            report.warnings.push(format!(
                "{} calls about files without a name or extended attributes were left out: these \
                 file systems have none",
                replayed.foreign
            ));
        }
        if let Some(first) = replayed.first {
            let count = replayed.differences;
            report.warnings.push(format!("{count} replies differ in the replay: {first}"));
        }
        Ok(Tried { report, distrust })
    }

    /// Replays calls and reads the recording of blocks.
    fn replayed(
        &self,
        name: &str,
        way: Replay,
        calls: &[Entry],
    ) -> Result<(Session, Replayed), Failure> {
        let (base, tape) = (self.path("base.img"), self.path(&format!("{name}.tape")));
        let failed = |error: String| Failure::from_message(Exit::Failed, &error);
        let image = image_of(&base).map_err(|error| failed(error.to_string()))?;
        let recorder = Recorder::create(&tape, image.size(), false);
        let recorder = recorder.map_err(|error| failed(error.to_string()))?;
        // 584 years fit.
        let pause = way.pause.as_nanos() as u64;
        let replayed = replay(calls, image, way.policy, pause, &recorder);
        let replayed = replayed.map_err(|error| failed(error.to_string()))?;
        recorder.finish()?;
        let session = Load { recording: &tape, base: Some(&base) }.session()?;
        Ok((session, replayed))
    }
}
