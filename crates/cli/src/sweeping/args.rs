//! The options of a sweep, as arguments.

use crate::failure::{Failure, Outcome};
use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::replay::check::quoted;
use seekless_crashtest::sandbox::Mounting;
use seekless_crashtest::sandbox::process::Isolation;
use seekless_crashtest::session::Session;
use seekless_crashtest::states::choose::Bounds;
use seekless_crashtest::states::state::SectorSize;
use seekless_crashtest::sweep::{Options, Shard};
use std::path::PathBuf;
use std::time::Duration;

/// A check waits for its mount most of the time. On two processors, 1, 2 and 4 jobs for each of
/// them check 259, 431 and 485 states a second with `true`, and 107, 153 and 163 with SQLite.
const JOBS_PER_PROCESSOR: usize = 2;

/// Options of a sweep.
#[derive(Clone, Debug, clap::Args)]
pub struct SweepArgs {
    /// Time limit of a check, such as 30s or 2m.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// Checks to run at once [default: twice the number of processors, as mounts mostly wait].
    #[arg(long, short, value_name = "N", alias = "workers")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=512))]
    pub jobs: Option<u16>,
    /// Try every combination of kept and lost for up to so many unflushed writes.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=16))]
    pub exhaustive: u32,
    /// More states to try at each flush boundary; with more unflushed writes than that, the total.
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub samples: u32,
    /// Bytes that the drive writes as a whole: 512 or 4096. Longer writes tear between them
    /// [default: 4096 with a file system, else 512].
    #[arg(long, value_name = "BYTES")]
    pub sector: Option<SectorSize>,
    /// Seed of the samples.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The power goes only behind this acknowledgement.
    #[arg(long, value_name = "VALUE")]
    pub from: Option<String>,
    /// Check consistency only: tell the check of no acknowledgement.
    #[arg(long)]
    pub consistency_only: bool,
    /// Time for the states, such as 60s or 10m. The most telling states are tried first. If it ends
    /// before all are tried, and none is bad, the exit code is 8.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    /// With a budget: the share of the states that is enough for exit code 0, such as 80%.
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    pub min_coverage: Option<f64>,
    /// Try only a share of the states: part I of N.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Keep all verdicts in this directory, and use those that are there. Shards share one.
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// End at the first state that is not good.
    #[arg(long)]
    pub fail_fast: bool,
    /// With a file system of the kernel: more options of its mounts, as in
    /// `noauto_da_alloc,data=writeback`.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub mount_options: Option<String>,
    /// With a file system: let checks use the network, IPC, temporary files and the boot id of this
    /// machine. Without it each check has its own.
    #[arg(long)]
    pub share_machine: bool,
    /// Write a JUnit report.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a report for a browser.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON object with all states.
    #[arg(long)]
    pub json: bool,
    /// Left out: writes longer than a sector tear. It is taken to say so.
    #[arg(long, hide = true)]
    no_tearing: bool,
}

impl SweepArgs {
    /// Refuses what has no meaning.
    ///
    /// # Errors
    /// If an option cannot be obeyed.
    pub fn validate(&self) -> Outcome {
        if self.no_tearing {
            return Err(Failure::usage("there is no --no-tearing: every drive tears long writes")
                .hint("--sector 4096 tears between 4096 bytes, --sector 512 between 512"));
        }
        if self.timeout.is_zero() {
            return Err(Failure::usage("--timeout must be above 0"));
        }
        Ok(())
    }

    /// The bounds; writes tear at `sector` unless it is given.
    pub fn bounds(&self, sector: SectorSize) -> Bounds {
        Bounds {
            exhaustive: self.exhaustive,
            samples: self.samples,
            sector: self.sector.unwrap_or(sector),
            seed: self.seed,
        }
    }

    /// How a file system is mounted, with the options that are given.
    pub fn mounting(&self, how: Option<Mounting>) -> Option<Mounting> {
        how.map(|how| how.with_options(self.mount_options.as_deref().unwrap_or_default()))
    }

    /// Refuses options of a mount where the kernel mounts nothing.
    ///
    /// # Errors
    /// If there are options, and no such file system.
    pub fn refuse_mount_options(&self, fs: Option<FileSystem>) -> Outcome {
        let is_of_kernel = fs.is_some_and(|fs| fs.policy().is_none() && fs != FileSystem::Raw);
        match self.mount_options.is_some() && !is_of_kernel {
            true => Err(Failure::usage("--mount-options: the kernel mounts no file system here")
                .hint("give --fs ext4, xfs, btrfs or f2fs")),
            false => Ok(()),
        }
    }

    /// What each check has to itself.
    pub fn isolation(&self) -> Isolation {
        if self.share_machine { Isolation::Processes } else { Isolation::Machine }
    }

    /// Checks at once.
    pub fn workers(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(|| JOBS_PER_PROCESSOR * processors(), usize::from)
    }

    /// What is tried of a recording, behind event `begin` unless --from names a later one.
    ///
    /// # Errors
    /// If the recording has no such acknowledgement.
    pub fn options(
        &self,
        session: &Session,
        begin: u64,
        sector: SectorSize,
    ) -> Result<Options, Failure> {
        let begin = match &self.from {
            None => begin,
            Some(value) => {
                session.history().find_mark(value).map(|at| at + 1).ok_or_else(|| {
                    Failure::usage(format!(
                        "--from: `{value}` was not acknowledged in this recording"
                    ))
                })?
            }
        };
        Ok(Options {
            bounds: self.bounds(sector),
            begin,
            acknowledgements: !self.consistency_only,
            workers: self.workers(),
            budget: self.budget,
            shard: self.shard.unwrap_or(Shard::WHOLE),
            fail_fast: self.fail_fast,
            enough_percent: self.min_coverage,
        })
    }

    /// The arguments that choose states, as far as they are not the defaults: what a command needs
    /// to find a state by its short name.
    pub fn again(&self) -> String {
        let mut out = String::new();
        let mut add = |flag: &str, value: String, is_default: bool| {
            if !is_default {
                out.push_str(&format!(" --{flag} {value}"));
            }
        };
        add("exhaustive", self.exhaustive.to_string(), self.exhaustive == 4);
        add("samples", self.samples.to_string(), self.samples == 24);
        add("seed", self.seed.to_string(), self.seed == 1);
        let sector = self.sector.map(|sector| sector.bytes().to_string()).unwrap_or_default();
        add("sector", sector, self.sector.is_none());
        if self.consistency_only {
            out.push_str(" --consistency-only");
        }
        if let Some(options) = &self.mount_options {
            out.push_str(&format!(" --mount-options {}", quoted(options)));
        }
        if self.share_machine {
            out.push_str(" --share-machine");
        }
        out
    }
}

/// Parses a time: a number of seconds, or one with a unit (ms, s, m, h).
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` is no time: write 90s, 5m or 2h")),
    };
    let number: f64 =
        text[..digits].parse().map_err(|_| format!("`{text}` is no time: write 90s, 5m or 2h"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| format!("`{text}`: {error}"))
}

/// Parses a percentage: a number from 0 to 100, with or without its sign.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    number
        .filter(|number| (0.0..=100.0).contains(number))
        .ok_or_else(|| format!("`{text}` is no share: write a percentage from 0% to 100%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        for (text, share) in [("80", 80.0), ("99.5%", 99.5), ("0%", 0.0), ("100%", 100.0)] {
            assert_eq!(percentage(text), Ok(share), "{text}");
        }
        for text in ["", "%", "-1", "101%", "all", "nan", "0.8.1"] {
            assert!(percentage(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        let good =
            [("60s", 60_000), ("2", 2000), ("1.5m", 90_000), ("250ms", 250), ("1h", 3_600_000)];
        for (text, milliseconds) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "-1s", "5 days", "1e999", "nan", "inf"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
