//! `seekless fs log append`: records from standard input.
//!
//! A sync covers all records that the input had ready, up to [`BATCH`] bytes: a slow writer has
//! each line durable at once, and a fast one pays for few syncs.

use super::super::ImageArgs;
use super::{cannot, with_log};
use crate::failure::{Failure, Outcome};
use crate::filesystem::names;
use seekless_formats::log::{Error, Log, Lsn};
use seekless_serve::files::Volume;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::path::PathBuf;

/// Arguments of `seekless fs log append`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A zero byte ends a record, not a line feed.
    #[arg(long, short = '0')]
    null: bool,
    /// All of the input is one record.
    #[arg(long, conflicts_with = "null")]
    whole: bool,
    /// Print no positions.
    #[arg(long, short)]
    quiet: bool,
}

/// Bytes between two syncs at most.
const BATCH: usize = 1 << 20;

/// Appends.
pub fn run(image: &ImageArgs, args: &Args, out: &mut dyn Write) -> Outcome {
    with_log(image, |images, log| {
        let ends = if args.null { 0 } else { b'\n' };
        let mut appended = Appended {
            images,
            log,
            quiet: args.quiet,
            out,
            waiting: Vec::new(),
            bytes: 0,
            count: 0,
        };
        let stdin = &mut BufReader::with_capacity(64 << 10, io::stdin().lock());
        let outcome = match args.whole {
            true => appended.whole(stdin),
            false => appended.each(stdin, ends),
        };
        // What was appended before an error stays.
        let synced = appended.sync();
        let closed = appended.log.close().map(drop).map_err(|error| cannot(images, &error));
        outcome.and(synced).and(closed)
    })
}

struct Appended<'a> {
    images: &'a [PathBuf],
    log: Log<&'a mut Volume>,
    quiet: bool,
    out: &'a mut dyn Write,
    /// Records that are not durable.
    waiting: Vec<Lsn>,
    bytes: usize,
    count: u64,
}

impl Appended<'_> {
    fn whole(&mut self, input: &mut dyn io::Read) -> Outcome {
        let most = self.log.stat().most_record;
        let mut record = Vec::new();
        input.take(most + 1).read_to_end(&mut record).map_err(unread)?;
        self.append(&record)
    }

    fn each(&mut self, input: &mut BufReader<io::StdinLock<'_>>, ends: u8) -> Outcome {
        // Longer ones are refused before they fill the memory.
        let most = self.log.stat().most_record + 2;
        let mut record = Vec::new();
        loop {
            record.clear();
            let mut limited = input.by_ref().take(most);
            if limited.read_until(ends, &mut record).map_err(unread)? == 0 {
                return Ok(());
            }
            if record.last() == Some(&ends) {
                record.pop();
            }
            self.append(&record)?;
            if !input.buffer().contains(&ends) || self.bytes >= BATCH {
                self.sync()?;
            }
        }
    }

    fn append(&mut self, record: &[u8]) -> Outcome {
        self.count += 1;
        let at = self.log.append(record).map_err(|error| self.failure(&error))?;
        self.waiting.push(at);
        self.bytes += record.len();
        Ok(())
    }

    /// Names the record, if the error is about one.
    fn failure(&self, error: &Error) -> Failure {
        let failure = cannot(self.images, error);
        match error {
            Error::TooLong { .. } => {
                let most = self.log.stat().most_record;
                let (image, count) = (names(self.images), self.count);
                let cause =
                    format!("{image}: record {count} of the input has more than {most} bytes");
                Failure { cause, ..failure }
            }
            Error::Full => {
                let (image, count) = (names(self.images), self.count);
                let cause = format!("{image}: the log is full at record {count} of the input");
                Failure { cause, ..failure }
            }
            _ => failure,
        }
    }

    fn sync(&mut self) -> Outcome {
        self.bytes = 0;
        self.log.sync().map_err(|error| cannot(self.images, &error))?;
        for at in self.waiting.drain(..).filter(|_| !self.quiet) {
            writeln!(self.out, "{at}")?;
        }
        Ok(self.out.flush()?)
    }
}

fn unread(error: io::Error) -> Failure {
    Failure::failed(format!("cannot read the records: {error}"))
}
