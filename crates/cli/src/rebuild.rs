//! Progress of a rebuild, as `serve` prints it: a line that changes on a terminal, a line for each
//! tenth elsewhere.

use crate::term::{Progress, say};
use seekless_engine::io::Rebuild;
use std::time::Instant;

/// Reports how far a rebuild is, and when it will end at this pace.
#[derive(Debug)]
pub struct RebuildLines {
    began: Instant,
    /// Stripes that were filled when the server started.
    first: Option<u64>,
    /// Tenths that were reported.
    told: u64,
    running: Option<(u64, u64)>,
    progress: Option<Progress>,
}

impl RebuildLines {
    /// No rebuild is known yet.
    pub fn new() -> RebuildLines {
        let (began, progress) = (Instant::now(), Some(Progress::new()));
        RebuildLines { began, first: None, told: 0, running: None, progress }
    }

    /// Takes the state of the rebuild.
    pub fn tell(&mut self, news: Rebuild) {
        match news {
            Rebuild::Running { done, stripes } => self.went_on(done, stripes),
            Rebuild::Ended => {
                let seconds = self.began.elapsed().as_secs_f64();
                self.finish(&format!("the new member is filled and active after {seconds:.1} s"));
            }
            Rebuild::Failed => {
                self.finish("the rebuild has failed: the new member is not part of the array");
            }
        }
    }

    /// Serving has ended; reports a rebuild that is not finished.
    pub fn end(&mut self) {
        if let Some((done, stripes)) = self.running {
            let share = percent(done, stripes);
            self.finish(&format!("rebuild {share} % done; it goes on when the array is served"));
        }
        self.progress = None;
    }

    fn went_on(&mut self, done: u64, stripes: u64) {
        let first = *self.first.get_or_insert(done);
        self.running = Some((done, stripes));
        let spent = self.began.elapsed().as_secs_f64();
        let text = || {
            let share = percent(done, stripes);
            let to_go = forecast(spent, done - first, stripes - done);
            format!("rebuild {share} % done{to_go}")
        };
        let Some(progress) = &mut self.progress else { return };
        if progress.is_shown() {
            progress.show(text);
        } else if done < stripes && percent(done, stripes) / 10 > self.told {
            self.told = percent(done, stripes) / 10;
            say(&format!("seekless: {}", text()));
        }
    }

    fn finish(&mut self, text: &str) {
        // Erase the progress line before another line is printed.
        self.progress = None;
        self.running = None;
        say(&format!("seekless: {text}"));
    }
}

fn percent(done: u64, stripes: u64) -> u64 {
    (u128::from(done) * 100 / u128::from(stripes.max(1))) as u64
}

/// Time that the rest takes at the pace so far.
fn forecast(spent: f64, done: u64, left: u64) -> String {
    if done == 0 || left == 0 {
        return String::new();
    }
    let seconds = spent / done as f64 * left as f64;
    match seconds {
        ..120.0 => format!(", {seconds:.0} s to go"),
        ..7200.0 => format!(", {:.0} min to go", seconds / 60.0),
        _ => format!(", {:.1} h to go", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_pace_says() {
        assert_eq!(forecast(3.0, 0, 10), "");
        assert_eq!(forecast(3.0, 1, 10), ", 30 s to go");
        assert_eq!(forecast(60.0, 1, 10), ", 10 min to go");
        assert_eq!(forecast(3600.0, 1, 10), ", 10.0 h to go");
        assert_eq!(forecast(3.0, 10, 0), "");
    }

    #[test]
    fn shares_of_large_arrays_do_not_overflow() {
        assert_eq!(percent(u64::MAX / 2, u64::MAX), 49);
        assert_eq!(percent(0, 0), 0);
    }
}
