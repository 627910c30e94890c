//! HyLog: blocks that are written often go to the log, the others are overwritten where they lie.
//! (Wang, Zhao and Bunt, "HyLog: a high performance approach to managing disk layout", FAST 2004;
//! equations and claims are numbered as there and in the tests.)
//!
//! Each block has a counter of its writes in the present interval, and a score of those before. At
//! the end of an interval the blocks are ranked by their scores, and the counters say which share
//! *w* of the writes went to each share *h* of the ranks; the *h* that costs the least by equation
//! (8) becomes the share of hot blocks. The paper ranks by the counters themselves: then a few
//! writes that fell anywhere look like blocks that are written often.
//!
//! What is hot stays as it is until a change pays: it must be cheaper by a margin, and save more
//! than the blocks that change sides cost. What the log costs is measured ([`cost`]).

pub mod cost;
mod counts;
mod watch;

use super::map::Map;
use cost::{Found, Prices};
use counts::Counts;
use seekless_engine::units::{SECONDS, Time};
use watch::{Mark, Watch};

/// Length of an interval, at most.
pub const INTERVAL: Time = 20 * 60 * SECONDS;
/// Of the stored blocks, one in so many written on average ends an interval sooner.
const WRITES_SHARE: u64 = 2;
/// Of the stored blocks, one in so many written on average says what cleaning costs.
const SURE_SHARE: u64 = 16;
/// Writes that say anything at all.
const LEAST_WRITES: u64 = 1024;
/// Intervals in which a change must have paid.
const HORIZON: f64 = 3.0;
/// How much cheaper it must be to make part of the blocks hot, and all or none: those two are known
/// better.
const MARGIN: f64 = 0.87;
const MARGIN_OF_EXTREMES: f64 = 0.97;
/// The same where it is not known what cleaning costs.
const MARGIN_OF_GUESSES: f64 = 0.5;
/// Writes for each stored block after which scores are halved.
const MEMORY: u64 = 4;
/// Of so many writes one must ask for durability for them to count as forced; half of that keeps
/// them so.
const FORCED: u64 = 8;
/// Writes after which it is looked at whether they are forced.
const RECENT: u64 = 128;
/// Writes that say what it takes to write out alone, where that was never measured.
const FIRST_WRITES: u64 = 128;
/// Writes after which a log that was not used goes as it will: the cleaner had nothing to do.
const PASSED: u64 = 2 * LEAST_WRITES;
/// What part of the expected time of a page is believed where it was never measured: too much would
/// keep it from being tried.
const BELIEVED: f64 = 0.7;
/// The score of a block, and whether it is hot.
const SCORE: u8 = 0x7f;
const HOT: u8 = 0x80;

/// What the device did in an interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    /// How long it was busy with the log and with cleaning, and for how many blocks of clients.
    pub log_ns: u64,
    pub log_blocks: u64,
    /// Parts that did not fill a segment, and how long they took beyond their transfer.
    pub small_parts: u64,
    pub append_ns: u64,
    /// Blocks of segments that were left empty.
    pub left_empty: u64,
    /// How long flushes took, how many blocks were overwritten in place, and how long that took.
    pub flush_ns: u64,
    pub page_blocks: u64,
    pub page_ns: u64,
    /// How long it was busy with what clients read.
    pub read_ns: u64,
    writes: u64,
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    /// The map.
    pub map: &'a Map,
    /// Blocks that are stored, and as many as the log can hold.
    pub stored: u64,
    pub space: u64,
    /// As many as it can hold where it has two heads; `None` if it has no room for them.
    pub mixed_space: Option<u64>,
    /// What was measured; `None` before anything was.
    pub prices: Option<Prices>,
    /// How long a block of a segment takes, in nanoseconds.
    pub block_ns: f64,
    /// Blocks were written or read alone; else their price is what is expected.
    pub knows_pages: bool,
    /// By the mechanics of the device; else by what it takes to write at the end of the log.
    pub mechanical: bool,
}

/// How well it is known what the log costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// What it takes to write out.
    Append,
    /// With cleaning.
    All,
}

/// A share of hot blocks, and what a write costs then.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Choice {
    hot: f64,
    cost: f64,
}

/// What tells hot blocks from cold ones.
#[derive(Clone, Debug)]
pub struct Hylog {
    counters: Counts,
    scores: Counts,
    interval: Time,
    began: Time,
    /// Writes since scores were last halved.
    remembered: u64,
    /// Share of hot blocks that was asked for, in percent.
    fixed: Option<u32>,
    /// Share of the stored blocks that is hot.
    pub hot_share: f64,
    /// Times that other blocks became hot.
    pub changes: u64,
    /// What was found where writes are not forced to the medium, and where they are; how well it
    /// is known.
    found: [(Found, Known); 2],
    /// What a block took where all were overwritten in place, in nanoseconds.
    page_ns: [Option<f64>; 2],
    /// Whether they are now, and how many of the recent ones were.
    forced: bool,
    recent: (u64, u64),
    /// They have begun to be, or ceased.
    turned: bool,
    /// The present choice was made in the interval before: what is measured is not yet its own.
    unsettled: bool,
    /// Blocks have become cold and the map does not say so yet.
    pub converting: bool,
    /// The map that says so is being written.
    pub settling: bool,
    watch: Watch,
    pub meter: Meter,
    idle_ns: Time,
    idle_since: Option<Time>,
}

impl Hylog {
    /// All blocks are hot at first. With `fixed`, so many percent of the blocks are hot from the
    /// second interval on, whatever that costs.
    pub fn new(blocks: u64, interval: Time, fixed: Option<u32>) -> Hylog {
        Hylog {
            counters: Counts::new(blocks, 0),
            scores: Counts::new(blocks, HOT),
            interval,
            began: 0,
            remembered: 0,
            fixed,
            hot_share: 1.0,
            changes: 0,
            found: [(Found::UNKNOWN, Known::Nothing); 2],
            page_ns: [None; 2],
            forced: false,
            recent: (0, 0),
            turned: false,
            unsettled: false,
            converting: false,
            settling: false,
            watch: Watch::default(),
            meter: Meter::default(),
            idle_ns: 0,
            idle_since: None,
        }
    }

    /// After a mount: cold is what may have been overwritten in place.
    pub fn restore(&mut self, map: &Map) {
        let stored = map.stored();
        let found = map.all().filter(|(_, entry)| entry.mark().unchecked).count() as u64;
        let most = 2 * found > stored;
        if most {
            self.scores.fill(0);
        }
        for (block, entry) in map.all() {
            self.scores.set(block, if entry.mark().unchecked { 0 } else { HOT });
        }
        self.hot_share = 1.0 - found as f64 / stored.max(1) as f64;
    }

    /// A block is written; true if it is cold.
    pub fn is_cold_write(&mut self, block: u64) -> bool {
        self.counters.set(block, self.counters.get(block).saturating_add(1));
        self.meter.writes += 1;
        self.recent.0 += 1;
        if self.recent.0 >= RECENT {
            let (writes, forced) = std::mem::take(&mut self.recent);
            let share = if self.forced { 2 * FORCED } else { FORCED };
            let forced = forced * share >= writes;
            self.turned |= forced != self.forced;
            self.forced = forced;
        }
        self.is_cold(block)
    }

    /// A block will be read or written soon: fetches what is counted of it from memory.
    pub fn expect(&self, block: u64) {
        std::hint::black_box((self.counters.get(block), self.scores.get(block)));
    }

    /// True if a block is cold.
    pub fn is_cold(&self, block: u64) -> bool {
        self.scores.get(block) & HOT == 0
    }

    /// A request asks for durability.
    pub fn force(&mut self) {
        self.recent.1 += 1;
    }

    /// True if no block is hot.
    pub fn is_cold_all_over(&self) -> bool {
        self.hot_share <= 0.0
    }

    /// True if there are hot blocks and cold ones.
    pub fn is_mixed(&self) -> bool {
        self.hot_share > 0.0 && self.hot_share < 1.0
    }

    /// True if writes have begun to be forced to the medium, or ceased, since the last choice.
    pub fn has_turned(&self) -> bool {
        self.turned
    }

    /// What has become cold may be overwritten from now on: what was measured since the choice was
    /// made says nothing about it.
    pub fn settled(&mut self, now: Time) {
        if std::mem::take(&mut self.settling) && self.fixed.is_none() {
            self.begin(now);
        }
    }

    /// An interval begins.
    fn begin(&mut self, now: Time) {
        self.began = now;
        self.meter = Meter::default();
        self.idle_ns = 0;
        self.idle_since = self.idle_since.map(|_| now);
        self.watch.begin();
    }

    /// Looks whether writes take as long as they did. Where they do not an interval begins, a short
    /// one: what was measured before says nothing about what is now.
    fn watch(&mut self, stored: u64, now: Time) {
        let is_tried = self.unsettled && self.hot_share >= 1.0 && self.fixed.is_none();
        if is_tried && self.meter.writes >= PASSED {
            self.unsettled = false;
            self.begin(now);
            self.watch = Watch::short();
        }
        let moves = self.unsettled || self.converting || self.settling || self.fixed.is_some();
        if !moves && self.watch.is_long(self.meter.writes, stored) {
            let mark = self.mark(now);
            if !self.watch.is_steady(mark) {
                self.begin(now);
                self.watch = Watch::short();
            }
        }
    }

    /// What was measured up to now.
    fn mark(&self, now: Time) -> Mark {
        let idle = self.idle_ns + self.idle_since.map_or(0, |since| now - since);
        let Meter { log_ns, page_ns, flush_ns, read_ns, writes, .. } = self.meter;
        Mark {
            writes,
            busy_ns: (now - self.began).saturating_sub(idle),
            changing_ns: log_ns + page_ns + flush_ns,
            read_ns,
        }
    }

    /// Whether the device has anything to do from now on, while so many blocks are stored.
    pub fn note(&mut self, idle: bool, stored: u64, now: Time) {
        self.watch(stored, now);
        match (idle, self.idle_since) {
            (true, None) => self.idle_since = Some(now),
            (false, Some(since)) => {
                self.idle_ns += now - since;
                self.idle_since = None;
            }
            _ => {}
        }
    }

    /// True if an interval ends now.
    pub fn is_due(&self, stored: u64, now: Time) -> bool {
        let writes = self.meter.writes;
        if self.fixed.is_some() {
            return now - self.began >= self.interval;
        }
        if self.turned || self.watch.is_over() {
            return true;
        }
        let (found, known) = self.found[usize::from(self.forced)];
        let enough = match known {
            Known::Nothing if self.hot_share > 0.0 => return writes >= FIRST_WRITES,
            Known::Append if self.hot_share > 0.0 => return writes >= LEAST_WRITES / 2,
            // A trial is short, once it has begun.
            _ if self.converting || self.settling => stored / WRITES_SHARE,
            _ if self.unsettled && self.is_cold_all_over() => 0,
            _ if found.is_borrowed() && self.hot_share > 0.0 => sure(stored),
            _ => stored / WRITES_SHARE,
        };
        let many = writes >= LEAST_WRITES && writes >= enough;
        many || now - self.began >= self.interval && writes >= LEAST_WRITES.min(stored)
    }

    /// What blocks one by one cost more if the device is idle at times (section 4.2).
    fn busy_prices(&self, prices: Prices, now: Time) -> Prices {
        let span = (now - self.began).max(1) as f64;
        let busy = 1.0 - (self.idle_ns as f64 / span).min(0.99);
        Prices { page: prices.page / busy, hole: prices.hole.map(|hole| hole / busy) }
    }

    /// At the end of an interval, chooses anew which blocks are hot.
    pub fn turn(&mut self, outlook: &Outlook<'_>, now: Time) {
        self.learn_pages(now);
        let prices = outlook.prices.map(|prices| self.all_in_all(outlook, prices, now));
        if let Some(prices) = prices {
            self.learn(outlook, prices, now);
        }
        let wanted = match self.fixed {
            Some(percent) => Some(f64::from(percent) / 100.0),
            // Before it is tried it is unknown what it costs to write blocks out alone.
            None if self.turned && self.hot_share > 0.0 => None,
            None => prices.and_then(|prices| self.better(outlook, prices, now)),
        };
        self.unsettled = false;
        self.turned = false;
        self.remember(outlook.stored);
        if let Some(hot) = wanted {
            self.separate(outlook, hot);
        }
        match wanted {
            Some(_) => self.watch = Watch::default(),
            None => self.watch.go_on(),
        }
        self.begin(now);
    }

    fn utilisation(&self, outlook: &Outlook<'_>, hot: f64) -> f64 {
        let mixed = hot > 0.0 && hot < 1.0;
        let space = if mixed { outlook.mixed_space } else { Some(outlook.space) };
        (outlook.stored as f64 / space.unwrap_or(outlook.space).max(1) as f64).min(0.999)
    }

    /// What a flush takes for each block that was written.
    fn flush_cost(&self, outlook: &Outlook<'_>) -> f64 {
        let blocks = (self.meter.log_blocks + self.meter.page_blocks).max(1);
        let block_ns = if outlook.block_ns > 0.0 { outlook.block_ns } else { f64::INFINITY };
        self.meter.flush_ns as f64 / blocks as f64 / block_ns
    }

    /// What the device takes, all in all.
    fn all_in_all(&self, outlook: &Outlook<'_>, prices: Prices, now: Time) -> Prices {
        let Prices { page, hole } = self.busy_prices(prices, now);
        if let Some(ns) = self.page_ns[usize::from(self.forced)].filter(|_| outlook.block_ns > 0.0)
        {
            return Prices { page: ns / outlook.block_ns, hole };
        }
        let page = match outlook.knows_pages {
            // Mostly from reads: several are under way at once, and a cache may make writes faster.
            true => page / self.mark(now).overlap() + self.flush_cost(outlook),
            false if outlook.mechanical => page,
            false => page + self.flush_cost(outlook),
        };
        let page = BELIEVED * page;
        Prices { page, hole }
    }

    /// How long the device was busy but for reads, by the clock.
    fn busy_ns(&self, now: Time) -> f64 {
        self.mark(now).since(Mark::default())
    }

    /// What pages have cost, where there was little else.
    fn learn_pages(&mut self, now: Time) {
        let Meter { page_blocks, writes, .. } = self.meter;
        if !self.turned && page_blocks > 0 && page_blocks * 10 >= writes * 9 {
            let ns = self.busy_ns(now) / page_blocks as f64;
            self.page_ns[usize::from(self.forced)] = Some(ns);
        }
    }

    /// What the log has cost.
    fn learn(&mut self, outlook: &Outlook<'_>, prices: Prices, now: Time) {
        let (regime, Meter { log_ns, log_blocks, .. }) = (usize::from(self.forced), self.meter);
        if self.forced && self.found[1].1 == Known::Nothing {
            let append = prices.hole.unwrap_or(prices.page);
            self.found[1].0 = Found::forced(append, self.found[0].0);
        }
        let cold = self.is_cold_all_over();
        if cold && !self.turned {
            self.found[regime].0.fade();
        }
        // What few writes cost is chance.
        let few = log_blocks * 20 < self.meter.writes || log_blocks < FIRST_WRITES / 2;
        if self.turned || few || cold || outlook.block_ns <= 0.0 {
            return;
        }
        let utilisation = self.utilisation(outlook, self.hot_share);
        let (blocks, flush) = (log_blocks as f64, self.flush_cost(outlook));
        let (busy_ns, all_hot) = (self.busy_ns(now), self.hot_share >= 1.0);
        let (found, known) = &mut self.found[regime];
        found.append = self.meter.append_ns as f64 / blocks / outlook.block_ns + flush;
        found.room = 1.0 + (self.meter.small_parts + self.meter.left_empty) as f64 / blocks;
        if *known == Known::Nothing {
            *known = Known::Append;
        }
        // Cleaning goes by fits and starts.
        if !self.unsettled && log_blocks >= LEAST_WRITES / 2 {
            *known = Known::All;
            let cost = match all_hot {
                true => busy_ns / blocks / outlook.block_ns,
                false => log_ns as f64 / blocks / outlook.block_ns + flush,
            };
            let weight = blocks / sure(outlook.stored) as f64;
            found.learn(self.hot_share, utilisation, cost, prices, weight);
        }
    }

    /// The share of hot blocks that pays beside the present one.
    fn better(&self, outlook: &Outlook<'_>, prices: Prices, now: Time) -> Option<f64> {
        let (found, known) = self.found[usize::from(self.forced)];
        let cost =
            |writes, hot| found.write_cost(writes, hot, self.utilisation(outlook, hot), prices);
        let (kept, choices) = self.choices(outlook, cost)?;
        let elapsed = (now - self.began).max(1) as f64;
        let rate = self.meter.writes as f64 * self.interval as f64 / elapsed;
        let saves = |choice: &Choice| {
            let extreme = choice.hot <= 0.0 || choice.hot >= 1.0;
            let margin = match known {
                Known::Append => MARGIN_OF_GUESSES,
                _ if extreme => MARGIN_OF_EXTREMES,
                _ => MARGIN,
            };
            // Where both kinds lie in the same segments they are told apart by copying them.
            let moved = if extreme { 0.0 } else { (choice.hot - self.hot_share).abs() };
            let purified =
                found.log_cost(choice.hot, self.utilisation(outlook, choice.hot), prices);
            let price = moved * outlook.stored as f64 * purified;
            let saved = (kept - choice.cost) * rate * HORIZON;
            let has_room = extreme || outlook.mixed_space.is_some();
            has_room && choice.cost < margin * kept && saved > price
        };
        let least = |a: &Choice, b: &Choice| a.cost.total_cmp(&b.cost);
        choices.into_iter().filter(saves).min_by(least).map(|choice| choice.hot)
    }

    /// What a write costs as it is, and what it would cost if the blocks of certain scores were
    /// hot. `None` if nothing was written.
    fn choices(
        &self,
        outlook: &Outlook<'_>,
        cost: impl Fn(f64, f64) -> f64,
    ) -> Option<(f64, Vec<Choice>)> {
        let mut tally = [(0_u64, 0_u64); 128];
        let mut hot = (0, 0);
        for (block, _) in outlook.map.all() {
            let (score, count) = (self.scores.get(block), u64::from(self.counters.get(block)));
            let one = &mut tally[usize::from(score & SCORE)];
            *one = (one.0 + 1, one.1 + count);
            if score & HOT != 0 {
                hot = (hot.0 + 1, hot.1 + count);
            }
        }
        let (blocks, writes) = tally.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        if blocks == 0 || writes == 0 {
            return None;
        }
        let share =
            |part: (u64, u64)| (part.0 as f64 / blocks as f64, part.1 as f64 / writes as f64);
        let (now_hot, now_written) = share(hot);
        let kept = cost(now_written, now_hot);
        let mut choices = vec![Choice { hot: 0.0, cost: cost(0.0, 0.0) }];
        let mut above = (0, 0);
        for one in tally.into_iter().rev().filter(|one| one.0 > 0) {
            above = (above.0 + one.0, above.1 + one.1);
            let (hot, written) = share(above);
            choices.push(Choice { hot, cost: cost(written, hot) });
        }
        Some((kept, choices))
    }

    /// The writes of the interval count for the scores.
    fn remember(&mut self, stored: u64) {
        self.remembered += self.meter.writes;
        let fades = self.remembered > MEMORY * stored;
        if fades {
            self.remembered /= 2;
        }
        self.scores.change_with(&self.counters, |score, counter| {
            let old = if fades { (score & SCORE) >> 1 } else { score & SCORE };
            score & HOT | old.saturating_add(counter).min(SCORE)
        });
        self.counters.fill(0);
    }

    /// Makes about that share of the stored blocks hot: those with the highest scores.
    fn separate(&mut self, outlook: &Outlook<'_>, hot: f64) {
        let mut tally = [0_u64; 128];
        for (block, _) in outlook.map.all() {
            tally[usize::from(self.scores.get(block) & SCORE)] += 1;
        }
        let least = threshold(&tally, hot);
        let is_hot = |score: u8| score & SCORE >= least;
        self.converting |= self.scores.any(|score| !is_hot(score) && score & HOT != 0);
        self.scores.change(|score| score & SCORE | if is_hot(score) { HOT } else { 0 });
        let mut count = 0;
        for (block, _) in outlook.map.all() {
            count += u64::from(!self.is_cold(block));
        }
        self.changes += 1;
        self.hot_share = count as f64 / outlook.stored.max(1) as f64;
        self.unsettled = true;
    }
}

/// Writes that say as much of what cleaning costs as what was found elsewhere.
fn sure(stored: u64) -> u64 {
    LEAST_WRITES.max(stored / SURE_SHARE)
}

/// The score of the block at that share of the ranks; above all scores if there is none.
fn threshold(tally: &[u64; 128], share: f64) -> u8 {
    if share <= 0.0 {
        return SCORE + 1;
    }
    if share >= 1.0 {
        return 0;
    }
    let blocks: u64 = tally.iter().sum();
    let hot = (blocks as f64 * share).round() as u64;
    let mut above = 0;
    for score in (1..=SCORE).rev() {
        let with = above + tally[usize::from(score)];
        if with >= hot {
            // Whichever comes nearer to what was asked for.
            return if above > 0 && hot - above < with - hot { score + 1 } else { score };
        }
        above = with;
    }
    1
}

#[cfg(test)]
impl Hylog {
    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.counters.bytes() + self.scores.bytes()
    }
}

#[cfg(test)]
mod tests;
