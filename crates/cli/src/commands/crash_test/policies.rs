//! One run of the workload under every policy: its calls are recorded, replayed under each policy
//! in virtual time, and the recording of blocks that this makes is swept.

use super::{Subject, Test, by_signal};
use crate::failure::{Exit, Failure, Outcome};
use crate::sweeping::conduct::{self, Examined};
use crate::sweeping::output;
use crate::term::say;
use seekless_crashtest::calls::Entry;
use seekless_crashtest::calls::file::{self, CallsError};
use seekless_crashtest::calls::replay::{Replayed, replay};
use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::own::run::{TestedCalls, image_of, record_calls};
use seekless_crashtest::record::recorder::Recorder;
use seekless_crashtest::report::Report;
use seekless_crashtest::report::policies::PolicyReport;
use seekless_crashtest::session::{Load, Session};
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// A policy that was tried.
struct Tried {
    report: Report,
    distrust: Option<Failure>,
}

impl Test<'_> {
    /// Everything from the empty disk to the verdict.
    pub(super) fn every_policy(&self, kind: Kind, size: u64, out: &mut dyn Write) -> Outcome {
        let (run, control) = match &self.args.calls {
            Some(dir) => self.earlier(dir)?,
            None => self.recorded_now(size)?,
        };
        self.refuse_silence(run.iter().filter(|entry| matches!(entry, Entry::Mark(_))).count())?;
        let (mut reports, mut distrust) = (Vec::new(), None);
        for &policy in kind.policies {
            let tried = self.policy((kind, policy), &run, control.as_deref())?;
            reports.push(PolicyReport { policy: policy.name().to_owned(), report: tried.report });
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
    fn recorded_now(&self, size: u64) -> Result<(Vec<Entry>, Option<Vec<Entry>>), Failure> {
        self.make(size)?;
        let run = self.calls("run", &self.args.title())?;
        let control = self.args.control.as_deref();
        let control = control.map(|command| self.calls("control", command)).transpose()?;
        Ok((run, control))
    }

    /// Reads the calls that an earlier test has left, and copies its base.
    fn earlier(&self, dir: &Path) -> Result<(Vec<Entry>, Option<Vec<Entry>>), Failure> {
        let base = dir.join("base.img");
        let cannot = |error| Failure::failed(format!("--calls: {}: {error}", base.display()));
        let image = image_of(&base).map_err(cannot)?;
        image.save(&self.path("base.img"), self.stop).map_err(cannot)?;
        let unusable = |error: CallsError| Failure::from_message(Exit::Image, &error.to_string());
        let read = |path: &Path| {
            let (size, entries) = file::read(path).map_err(unusable)?;
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
        Ok((run, control))
    }

    /// Records the calls of a workload.
    fn calls(&self, name: &str, command: &str) -> Result<Vec<Entry>, Failure> {
        let began = Instant::now();
        let (base, tape) = (self.path("base.img"), self.path(&format!("{name}.calls")));
        let log = self.path(&format!("{name}.log"));
        let run = self.run_of(command, [&base, &tape, &log]);
        let recorded = record_calls(run, PolicyKind::default());
        let TestedCalls { entries, tested } =
            recorded.map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
        self.accept(name, &tested, began)?;
        let size = std::fs::metadata(&base)?.len();
        file::write(&tape, size, &entries)
            .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
        Ok(entries)
    }

    /// Tries a policy.
    fn policy(
        &self,
        (kind, policy): (Kind, PolicyKind),
        run: &[Entry],
        control: Option<&[Entry]>,
    ) -> Result<Tried, Failure> {
        let test = Test { fs: FileSystem::Own(kind, policy), ..self.clone() };
        let name = policy.name();
        let (session, replayed) = test.replayed(name, policy, run)?;
        let control = control.map(|calls| {
            test.replayed(&format!("{name}.control"), policy, calls).map(|(session, _)| session)
        });
        let control = control.transpose()?;
        let writes = session.history().writes().len();
        let seconds = replayed.took_ns / 1_000_000_000;
        say(&format!(
            "seekless: {name}: {} calls in {seconds} s of virtual time made {writes} writes",
            replayed.calls
        ));
        let subject = Subject { name, session: &session, control: control.as_ref() };
        let Examined { mut report, distrust } = test.examine(&subject)?;
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
        policy: PolicyKind,
        calls: &[Entry],
    ) -> Result<(Session, Replayed), Failure> {
        let (base, tape) = (self.path("base.img"), self.path(&format!("{name}.tape")));
        let failed = |error: String| Failure::from_message(Exit::Failed, &error);
        let image = image_of(&base).map_err(|error| failed(error.to_string()))?;
        let recorder = Recorder::create(&tape, image.size(), false);
        let recorder = recorder.map_err(|error| failed(error.to_string()))?;
        // 584 years fit.
        let pause = self.args.pause.as_nanos() as u64;
        let replayed = replay(calls, image, policy, pause, &recorder);
        let replayed = replayed.map_err(|error| failed(error.to_string()))?;
        recorder.finish()?;
        let session = Load { recording: &tape, base: Some(&base) }.session()?;
        Ok((session, replayed))
    }
}
