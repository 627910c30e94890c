//! `seekless top`: a live view of a process that serves.

mod rates;
mod view;

use super::status::find;
use crate::failure::{Failure, Outcome};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rates::Rates;
use seekless_serve::control::registry::{self, Found};
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `seekless top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless top                       # what you serve or have mounted, if it is one thing
  seekless top disk.img
  seekless top /mnt --interval 0.5
  seekless top disk.img --lines 3    # three lines of text, a second apart

Keys: q or Ctrl-C ends, space holds the view. Rates and latencies are those of the last interval.")]
pub struct Args {
    /// An image, the socket of a server, or the directory of a mount.
    #[arg(value_name = "IMAGE|SOCKET|DIR")]
    what: Option<PathBuf>,
    /// Seconds between two looks.
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Print this many lines of text in place of the view.
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<u32>,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "give seconds, as in 0.5".to_owned())?;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("give 0.1 to 3600 seconds".to_owned()),
    }
}

/// Shows it until a key ends it, or until the process does.
///
/// # Errors
/// If there is no such process, or no terminal.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let found = target(args)?;
    let step = Duration::from_secs_f64(args.interval);
    if let Some(lines) = args.lines {
        return print(&found, step, lines, out);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::usage("top: the output is no terminal")
            .hint("use --lines N, or seekless status --json"));
    }
    let mut terminal = ratatui::init();
    let ended = watch(&mut terminal, &found, step);
    ratatui::restore();
    if ended? == End::Gone {
        writeln!(out, "process {} has ended", found.report.pid)?;
    }
    Ok(())
}

fn target(args: &Args) -> Result<Found, Failure> {
    if let Some(what) = &args.what {
        let found = find(what)?;
        return found.ok_or_else(|| {
            Failure::failed(format!("{}: it is not served", what.display()))
                .hint("`seekless status` lists what you serve or have mounted")
        });
    }
    let mut all = registry::all();
    match all.len() {
        1 => Ok(all.remove(0)),
        0 => Err(Failure::failed("nothing is served or mounted by you")),
        count => Err(Failure::usage(format!("you serve or have mounted {count} volumes"))
            .hint("name one: `seekless status` lists them")),
    }
}

/// How a view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By a key.
    Key,
    /// The process does not answer any longer.
    Gone,
}

fn watch(terminal: &mut DefaultTerminal, found: &Found, step: Duration) -> io::Result<End> {
    let mut rates = Rates::new(found.report.clone());
    let mut held = false;
    loop {
        terminal.draw(|frame| view::draw(frame, &rates, held))?;
        let until = Instant::now() + step;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                break;
            }
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(End::Key),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(End::Key);
                    }
                    KeyCode::Char(' ') => held = !held,
                    _ => {}
                },
                Event::Resize(..) => {
                    terminal.draw(|frame| view::draw(frame, &rates, held))?;
                }
                _ => {}
            }
        }
        if held {
            continue;
        }
        match registry::report(&found.socket) {
            Ok(report) => rates.take(report),
            Err(_) => return Ok(End::Gone),
        }
    }
}

/// A line for each interval.
fn print(found: &Found, step: Duration, lines: u32, out: &mut dyn Write) -> Outcome {
    let mut rates = Rates::new(found.report.clone());
    for _ in 0..lines {
        std::thread::sleep(step);
        let report = registry::report(&found.socket)
            .map_err(|error| Failure::failed(format!("the process does not answer: {error}")))?;
        rates.take(report);
        writeln!(out, "{}", rates.line())?;
        out.flush()?;
    }
    Ok(())
}
