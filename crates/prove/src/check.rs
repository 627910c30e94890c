//! Recovers the states of a moment and compares each with the history. States that hold the same
//! are recovered once, and contents that are the same are judged once until the client has done or
//! heard something else.

mod again;

use super::damage::{Damage, Strike, any_place};
use super::history::{Allowance, History};
use super::judge::{mount, node, read_all, read_what_can_be, works_on};
use super::look::look;
use super::names::{Name, Names, UNREADABLE};
use super::states::{choose, count};
use super::subject::{Mounted, Subject};
use super::{ProveReport, Sort};
use seekless_crash::fate::Fate;
use seekless_crash::moment::Moment;
use seekless_crash::shrink::simplify;
use seekless_engine::checksum::mix;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::layout::{LayoutError, MountOptions};
use seekless_engine::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// One in so many recovered states is worked on.
const WORKED_ON: u64 = 8;
/// One in so many is mounted read-only before.
const LOOKED_AT: u64 = 16;
/// One in so many has its recovery cut off after each of its writes.
const CUT_AGAIN: u64 = 24;
/// And one in so many is damaged before it is recovered.
const DAMAGED: u64 = 24;
/// So many times as often in a thorough search.
const THOROUGH: u64 = 6;

/// What is wrong with a state.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// Which promise it is about.
    pub sort: Sort,
    /// Sentences.
    pub story: Vec<String>,
}

/// One of the states of a moment.
#[derive(Clone, Copy, Debug)]
struct State<'m> {
    moment: &'m Moment,
    /// What became of each pending write.
    fates: &'m [Fate],
    /// What it is known by.
    print: u128,
    /// Devices one of which may be lost as well.
    dispensable: &'m [usize],
}

/// A content that some state was recovered to.
#[derive(Debug)]
struct Content {
    names: Rc<[Name]>,
    /// The revision of the history for which it was found good: with all devices, and without one,
    /// which allows more.
    good_at: [u64; 2],
}

/// What is known about the states of an epoch.
#[derive(Debug)]
pub struct Checker {
    subject: Subject,
    /// The devices forget what was not flushed.
    pub volatile: bool,
    /// What has been damaged in this epoch.
    pub damage: Damage,
    /// Devices that have failed a request in this epoch.
    pub failing: BTreeSet<usize>,
    /// Tries more states than usual.
    pub thorough: bool,
    /// Blocks of the devices of all states recovered so far: what a recovery costs grows with
    /// them, and they are counted the same everywhere.
    pub work: u64,
    /// Names of contents.
    pub names: Names,
    /// Which content a state was recovered to, all devices there or without one of them.
    recovered: BTreeMap<(u128, Option<usize>), usize>,
    contents: Vec<Content>,
    by_hash: BTreeMap<u64, usize>,
}

impl Checker {
    /// Knows nothing yet.
    pub fn new(subject: Subject, volatile: bool) -> Checker {
        Checker {
            subject,
            volatile,
            damage: Damage::None,
            failing: BTreeSet::new(),
            thorough: false,
            work: 0,
            names: Names::default(),
            recovered: BTreeMap::new(),
            contents: Vec::new(),
            by_hash: BTreeMap::new(),
        }
    }

    /// A new epoch: the prints of states mean something else.
    pub fn begin(&mut self) {
        self.recovered.clear();
        self.contents.clear();
        self.by_hash.clear();
        self.damage = Damage::None;
        self.failing.clear();
    }

    /// What media hold after a mount, if the history allows it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn content_of(
        &mut self,
        media: Vec<Cells>,
        history: &History,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Result<Rc<[Name]>, Wrong> {
        let index = self.recover(media, rng, report)?;
        match self.judge(index, false, history) {
            None => Ok(Rc::clone(&self.contents[index].names)),
            Some(wrong) => Err(wrong),
        }
    }

    /// Tries states of a moment; says what is wrong with the first bad one.
    pub fn moment(
        &mut self,
        moment: &Moment,
        history: &History,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        let dispensable = self.dispensable(moment);
        for fates in choose(moment, self.thorough, rng) {
            // What is drawn for a state depends on the state alone, not on those before it.
            let print = moment.print_of(&fates);
            let mut rng = Rng::stream(print as u64 ^ moment.pending.len() as u64, "state");
            let state = State { moment, fates: &fates, print, dispensable: &dispensable };
            if let Some(wrong) = self.state(&state, history, &mut rng, report) {
                return Some(self.blame(moment, fates, wrong, history, report));
            }
        }
        None
    }

    fn state(
        &mut self,
        state: &State<'_>,
        history: &History,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        let &State { moment, fates, print, dispensable } = state;
        if !dispensable.is_empty() && rng.chance(0.5) {
            let lost = dispensable[rng.below(dispensable.len() as u64) as usize];
            return self.state_without(lost, state, history, rng, report);
        }
        if let Some(&index) = self.recovered.get(&(print, None)) {
            if self.contents[index].good_at[0] != history.revision() {
                report.states += 1;
                count(fates, &mut report.faults);
                return self.judge(index, false, history);
            }
            // The same state once more, and nobody knows more than before.
            return None;
        }
        let media = moment.build(fates);
        report.states += 1;
        report.recovered += 1;
        count(fates, &mut report.faults);
        let often = if self.thorough { THOROUGH } else { 1 };
        if rng.below(CUT_AGAIN) < often
            && let Some(wrong) = self.cut_again(state, &media, history, rng, report)
        {
            return Some(wrong);
        }
        if rng.below(DAMAGED) < often
            && let Some(wrong) = self.strike(state, media.clone(), history, rng, report)
        {
            return Some(wrong);
        }
        let index = match self.recover(media, rng, report) {
            Ok(index) => index,
            Err(wrong) => return Some(wrong),
        };
        self.recovered.insert((print, None), index);
        self.judge(index, false, history)
    }

    /// A state that one of its devices is lost with.
    fn state_without(
        &mut self,
        lost: usize,
        state: &State<'_>,
        history: &History,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        let known = self.recovered.get(&(state.print, Some(lost))).copied();
        if known.is_some_and(|index| self.contents[index].good_at[1] == history.revision()) {
            return None;
        }
        report.states += 1;
        count(state.fates, &mut report.faults);
        report.faults.lost_devices += 1;
        let wrong = match known {
            Some(index) => self.judge(index, true, history),
            None => {
                report.recovered += 1;
                match self.without(lost, state.moment.build(state.fates), rng, report) {
                    Ok(None) => None,
                    Ok(Some(index)) => {
                        self.recovered.insert((state.print, Some(lost)), index);
                        self.judge(index, true, history)
                    }
                    Err(wrong) => Some(wrong),
                }
            }
        };
        wrong.map(|mut wrong| {
            wrong.story.insert(0, format!("device {lost} is lost with the power"));
            wrong
        })
    }

    /// Compares a content with the history; whether it was recovered without a device matters.
    fn judge(&mut self, index: usize, without: bool, history: &History) -> Option<Wrong> {
        let allowance = self.allowance(without);
        let content = &mut self.contents[index];
        let good_at = &mut content.good_at[usize::from(without)];
        if *good_at == history.revision() {
            return None;
        }
        let story = history.judge(&content.names, &self.names, allowance);
        if story.is_empty() {
            *good_at = history.revision();
            return None;
        }
        Some(Wrong { sort: Sort::Content, story })
    }

    /// Mounts media and reads everything back.
    fn recover(
        &mut self,
        mut media: Vec<Cells>,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Result<usize, Wrong> {
        self.work += blocks(&media);
        let looked_at = self.damage == Damage::None && rng.below(LOOKED_AT) == 0;
        let before = looked_at.then(|| media.clone());
        let options = MountOptions { volatile: self.volatile, ..MountOptions::default() };
        let (lost, mounted) = match self.mount(&mut media, &options) {
            Ok(mounted) => mounted,
            Err(_) if self.damage == Damage::Open => {
                report.faults.refused_mounts += 1;
                return Ok(self.content(Vec::new()));
            }
            Err(error) => return Err(unmountable(&error.to_string())),
        };
        report.faults.put_out += u64::from(lost.is_some());
        report.most_blocks_read = report.most_blocks_read.max(mounted.blocks_read);
        if self.damage == Damage::None && self.subject.spare() > 0 {
            agree(self.subject, &mut media)?;
        }
        let mut node = node(mounted, media, lost, self.volatile);
        let names = match read_all(&mut node) {
            Ok(data) => self.names.of(0, &data),
            Err(_) if self.damage == Damage::Open => self.read_damaged(&mut node),
            Err(error) => return Err(unreadable(&error.to_string())),
        };
        if let Some(before) = before {
            self.look(&before, None, &names)?;
        }
        if rng.below(WORKED_ON) == 0 && self.damage != Damage::Open {
            let story = works_on(&mut node, rng);
            if !story.is_empty() {
                return Err(Wrong { sort: Sort::Dead, story });
            }
        }
        Ok(self.content(names))
    }

    /// Compares what a read-only mount shows with what is there after a recovery. Where an array
    /// would have to bring members into step first it may say that it cannot compute a block.
    fn look(&mut self, media: &[Cells], lost: Option<usize>, names: &[Name]) -> Result<(), Wrong> {
        self.work += blocks(media);
        let wrong = |what: String| Err(Wrong { sort: Sort::Look, story: vec![what] });
        let seen = match look(self.subject, media, lost, self.volatile) {
            Ok(seen) => seen,
            Err(what) => return wrong(what),
        };
        let mut at = 0;
        for (count, data) in seen {
            let here = at..at + count as usize;
            at = here.end;
            match data {
                Some(data) if self.names.of(here.start as u64, &data) == names[here.clone()] => {}
                None if self.subject.spare() > 0 => {}
                Some(data) => {
                    let found = self.names.of(here.start as u64, &data);
                    let other = |(name, right): (&u64, &u64)| name != right;
                    let at = found.iter().zip(&names[here.clone()]).position(other);
                    let at = here.start + at.expect("some block is not the same");
                    let (found, right) = (data.block((at - here.start) as u32), names[at]);
                    return wrong(format!("read-only, block {at} holds {found:?}, not {right}"));
                }
                None => return wrong(format!("read-only, blocks {here:?} cannot be read")),
            }
        }
        Ok(())
    }

    /// Mounts media. Where damage on one device keeps an array from being assembled, the message
    /// asks to do without that device, and so it is.
    pub fn mount(
        &self,
        media: &mut Vec<Cells>,
        options: &MountOptions<'_>,
    ) -> Result<(Option<usize>, Mounted), LayoutError> {
        let Damage::Covered(device) = self.damage else {
            return mount(self.subject, media, None, options).map(|mounted| (None, mounted));
        };
        let before = media.clone();
        if let Ok(mounted) = mount(self.subject, media, None, options) {
            return Ok((None, mounted));
        }
        *media = before;
        mount(self.subject, media, Some(device), options).map(|mounted| (Some(device), mounted))
    }

    /// Devices one of which may be lost together with the power.
    fn dispensable(&self, moment: &Moment) -> Vec<usize> {
        match self.damage {
            Damage::Covered(device) => vec![device],
            Damage::None | Damage::Open => self.subject.dispensable(&moment.durable, &self.failing),
        }
    }

    /// What a content may be, recovered without a device or not. A member that has just failed may
    /// be out of the array after the power cut, which comes to losing it with the power.
    fn allowance(&self, without: bool) -> Allowance {
        let out = self.subject.spare() > 0 && !self.failing.is_empty();
        let least = if without || out { Allowance::Lost } else { Allowance::None };
        self.damage.allowance().and(least)
    }

    fn read_damaged(&mut self, node: &mut seekless_engine::node::Node) -> Vec<Name> {
        let mut names = Vec::new();
        for (count, data) in read_what_can_be(node) {
            match data {
                Some(data) => names.extend(self.names.of(names.len() as u64, &data)),
                None => names.extend((0..count).map(|_| UNREADABLE)),
            }
        }
        names
    }

    /// The number of a content; each is kept once.
    fn content(&mut self, names: Vec<Name>) -> usize {
        let hash = names.iter().fold(1, |sum, &name| mix(sum ^ name));
        let next = self.contents.len();
        let index = *self.by_hash.entry(hash).or_insert(next);
        if index < next && *self.contents[index].names == *names {
            return index;
        }
        self.contents.push(Content { names: names.into(), good_at: [0; 2] });
        next
    }

    /// Damages a state and recovers it. Where other devices make up for the damage nothing may come
    /// of it; else every block is an error or something it once held.
    fn strike(
        &mut self,
        state: &State<'_>,
        mut media: Vec<Cells>,
        history: &History,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        if self.damage != Damage::None {
            return None;
        }
        let place = any_place(&media, rng);
        let strike = Strike::draw(self.subject, place, &media, rng);
        let covered = state.dispensable.contains(&place.0);
        let damage = strike.damage(covered);
        // Whoever keeps no checksums promises nothing about damage together with a power cut.
        if damage == Damage::Open && !self.subject.checks() {
            return None;
        }
        strike.hit(&mut media, &mut report.faults);
        report.states += 1;
        report.recovered += 1;
        self.damage = damage;
        let result = self.recover(media, rng, report).map(|index| {
            let names = Rc::clone(&self.contents[index].names);
            history.judge(&names, &self.names, damage.allowance())
        });
        self.damage = Damage::None;
        let story = result.unwrap_or_else(|wrong| wrong.story);
        if story.is_empty() {
            return None;
        }
        let mut whole = vec![format!("then {strike}")];
        whole.extend(story);
        Some(Wrong { sort: Sort::Damage, story: whole })
    }

    /// Recovers a state without one of its devices; no content if damage keeps it from being read.
    fn without(
        &mut self,
        lost: usize,
        mut media: Vec<Cells>,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Result<Option<usize>, Wrong> {
        self.work += blocks(&media);
        let looked_at = self.damage == Damage::None && rng.below(LOOKED_AT) == 0;
        let before = looked_at.then(|| media.clone());
        let options = MountOptions { volatile: self.volatile, ..MountOptions::default() };
        let mounted = match mount(self.subject, &mut media, Some(lost), &options) {
            Ok(mounted) => mounted,
            Err(_) if self.damage == Damage::Open => return Ok(None),
            Err(error) => return Err(unmountable(&error.to_string())),
        };
        report.most_blocks_read = report.most_blocks_read.max(mounted.blocks_read);
        let mut node = node(mounted, media, Some(lost), self.volatile);
        let data = match read_all(&mut node) {
            Ok(data) => data,
            Err(_) if self.damage == Damage::Open => return Ok(None),
            Err(error) => return Err(unreadable(&error.to_string())),
        };
        let names = self.names.of(0, &data);
        if let Some(before) = before {
            self.look(&before, Some(lost), &names)?;
        }
        if rng.below(WORKED_ON) == 0 && self.damage != Damage::Open {
            let story = works_on(&mut node, rng);
            if !story.is_empty() {
                return Err(Wrong { sort: Sort::Dead, story });
            }
        }
        Ok(Some(self.content(names)))
    }

    /// Tells a bad state with as few of its writes lost or torn as it takes.
    fn blame(
        &mut self,
        moment: &Moment,
        fates: Vec<Fate>,
        mut wrong: Wrong,
        history: &History,
        report: &ProveReport,
    ) -> Wrong {
        let mut scratch = report.clone();
        let fails = |tried: &[Fate]| {
            let mut rng = Rng::stream(0, "blame");
            let found = self.plain_state(moment, tried, history, &mut rng, &mut scratch);
            let same = found.filter(|found| found.sort == wrong.sort);
            let fails = same.is_some();
            same.into_iter().for_each(|found| wrong = found);
            fails
        };
        let odd = |fate: &Fate| *fate != Fate::Kept;
        let fates = simplify(fates, odd, &[Fate::Kept, Fate::Lost], fails);
        let mut story = moment.describe(&fates);
        story.append(&mut wrong.story);
        Wrong { story, ..wrong }
    }

    /// A state without further faults.
    fn plain_state(
        &mut self,
        moment: &Moment,
        fates: &[Fate],
        history: &History,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        match self.recover(moment.build(fates), rng, report) {
            Ok(index) => self.judge(index, false, history),
            Err(wrong) => Some(wrong),
        }
    }
}

fn blocks(media: &[Cells]) -> u64 {
    media.iter().map(Medium::blocks).sum()
}

/// A recovered array must agree with itself: what its parity would stand in for could come back
/// wrong at any time later.
fn agree(subject: Subject, media: &mut [Cells]) -> Result<(), Wrong> {
    let Some(stripe) = subject.disagreement(media) else { return Ok(()) };
    let story =
        vec![format!("the members of the recovered array do not agree about stripe {stripe}")];
    Err(Wrong { sort: Sort::Parity, story })
}

fn unmountable(error: &str) -> Wrong {
    Wrong { sort: Sort::Dead, story: vec![format!("the volume cannot be mounted: {error}")] }
}

fn unreadable(error: &str) -> Wrong {
    let story = vec![format!("the volume cannot be read after the crash: {error}")];
    Wrong { sort: Sort::Dead, story }
}
