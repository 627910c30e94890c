//! Whether writes take as long as they did when the choice was made.

/// Of the stored blocks, one in so many written on average, and at least so many writes, make a
/// stretch.
const SHARE: u64 = 32;
const LEAST: u64 = 2048;
/// How many times as long, or as short, the writes of a stretch must take than those of the first.
const UNSTEADY: f64 = 1.5;

/// What was measured since an interval began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    pub writes: u64,
    /// How long the device was busy, by the clock.
    pub busy_ns: u64,
    /// How long its commands took, which overlap: reads of clients, and all others.
    pub read_ns: u64,
    pub changing_ns: u64,
}

impl Mark {
    /// How long the device was busy since then but for reads: by the clock, of which all commands
    /// have their share.
    pub fn since(&self, begin: Mark) -> f64 {
        let busy = (self.busy_ns - begin.busy_ns) as f64;
        let changing = (self.changing_ns - begin.changing_ns) as f64;
        let all = changing + (self.read_ns - begin.read_ns) as f64;
        if all > 0.0 { busy * changing / all } else { busy }
    }

    /// How many commands overlap on average.
    pub fn overlap(&self) -> f64 {
        ((self.changing_ns + self.read_ns) as f64 / self.busy_ns.max(1) as f64).max(1.0)
    }
}

/// Watches over how long writes take, a stretch of them after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// When the present stretch began.
    from: Mark,
    /// What a write took in the first one, in nanoseconds.
    usual_ns: Option<f64>,
    /// The interval ends with the first one.
    short: bool,
}

impl Watch {
    /// For an interval of one stretch.
    pub fn short() -> Watch {
        Watch { short: true, ..Watch::default() }
    }

    /// True if so many writes since the interval began make the present stretch long enough, with
    /// so many blocks stored.
    pub fn is_long(&self, writes: u64, stored: u64) -> bool {
        writes - self.from.writes >= LEAST.max(stored / SHARE)
    }

    /// A stretch ends; true if its writes took about as long as those of the first one.
    pub fn is_steady(&mut self, mark: Mark) -> bool {
        let ns = mark.since(self.from) / (mark.writes - self.from.writes) as f64;
        let usual_ns = *self.usual_ns.get_or_insert(ns);
        self.from = mark;
        ns <= UNSTEADY * usual_ns && usual_ns <= UNSTEADY * ns
    }

    /// True if a short interval ends now.
    pub fn is_over(&self) -> bool {
        self.short && self.usual_ns.is_some()
    }

    /// The next interval is as long as ever, and what was usual still is.
    pub fn go_on(&mut self) {
        self.short = false;
    }

    /// An interval begins.
    pub fn begin(&mut self) {
        self.from = Mark::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stretch after another, each write of which takes so long, half of the time for reads.
    fn after(mark: Mark, ns: u64) -> Mark {
        let took = LEAST * ns;
        Mark {
            writes: mark.writes + LEAST,
            busy_ns: mark.busy_ns + 2 * took,
            read_ns: mark.read_ns + 3 * took,
            changing_ns: mark.changing_ns + 3 * took,
        }
    }

    #[test]
    fn writes_that_take_longer_are_noticed() {
        let mut watch = Watch::default();
        let first = after(Mark::default(), 1000);
        assert!((first.since(Mark::default()) - (LEAST * 1000) as f64).abs() < 1.0);
        assert!((first.overlap() - 3.0).abs() < 1e-9);
        assert!(!watch.is_long(LEAST - 1, 10) && watch.is_long(LEAST, 10));
        assert!(watch.is_steady(first) && !watch.is_over());
        let second = after(first, 1400);
        assert!(watch.is_steady(second));
        assert!(!watch.is_steady(after(second, 1600)));
        let mut watch = Watch::short();
        assert!(watch.is_steady(first) && watch.is_over());
        watch.go_on();
        assert!(!watch.is_over() && !watch.is_steady(after(first, 600)));
    }
}
