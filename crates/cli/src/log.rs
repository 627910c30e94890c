//! The log of processes that serve: time, level and message, or a JSON object, in each line.

use clap::{ArgMatches, ValueEnum};
use std::fmt;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::registry::LookupSpan;

/// What goes to the log, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct LogFlags {
    /// Least severe messages that are logged: error, warn, info or debug.
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_default_value = true)]
    log_level: Level,
    /// Log a JSON object in each line.
    #[arg(long)]
    log_json: bool,
}

/// How severe a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Something is lost or refused.
    Error,
    /// Something needs attention.
    Warn,
    /// What happens.
    Info,
    /// And how.
    Debug,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> LevelFilter {
        match level {
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
        }
    }
}

/// Starts the log on standard error, as the flags of a subcommand say if it has some.
pub fn start(subcommand: Option<&ArgMatches>) {
    let level = subcommand
        .and_then(|matches| matches.try_get_one::<Level>("log_level").ok().flatten())
        .map_or(LevelFilter::INFO, |level| (*level).into());
    let json = subcommand
        .and_then(|matches| matches.try_get_one::<bool>("log_json").ok().flatten())
        .is_some_and(|json| *json);
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level);
    // Only the first call in a process starts it.
    let _ = match json {
        true => log.json().flatten_event(true).with_target(false).try_init(),
        false => log.event_format(Line).try_init(),
    };
}

/// `2026-11-26T09:30:01.123456Z WARN seekless: message`. An event is one write: the log of the
/// kernel makes a record of each.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        SystemTime.format_time(&mut writer)?;
        write!(writer, " {} seekless: ", event.metadata().level())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
