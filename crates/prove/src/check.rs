//! Recovers the states of a moment and has the oracle judge each. States that hold the same are
//! recovered once, and contents that are the same are judged once until the client has done or
//! heard something else.
//!
//! The invariant between calls: everything known here is about one epoch and one set of devices;
//! [`Checker::begin`] forgets it.

mod blocks;
mod second_cuts;

use crate::ProveReport;
use crate::block_damage::{Damage, Strike, any_place};
use crate::crash_states::{choose, count};
use crate::mounting::{join, mount, mount_recovered};
use crate::oracle::{Allowance, Oracle};
use crate::read_only_mount::read_only;
use crate::recovery_cuts::Found;
use crate::rules::{Rule, on_behalf};
use crate::subject::{ContentOf, Subject};
use crate::violation::{Sort, Wrong, verdict};
use crate::volume::Mounted as _;
use blocks::Blocks;
use seekless_crash::fate::Fate;
use seekless_crash::moment::Moment;
use seekless_crash::shrink::simplify;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::layout::MountOptions;
use seekless_engine::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// One in so many recovered states is worked on.
const WORKED_ON: u64 = 8;
/// One in so many is mounted read-only before.
const LOOKED_AT: u64 = 16;
/// One in so many has its recovery cut off after each of its writes.
const CUT_AGAIN: u64 = 24;
/// One in so many of the states that are looked at without a mount is mounted, too.
const MOUNTED: u64 = 16;
/// A look costs this part of what a mount does.
const LOOK_SHARE: u64 = 4;
/// And one in so many is damaged before it is recovered.
const DAMAGED: u64 = 24;
/// Of the states that a killed process leaves, one in so many meets a power cut while it recovers.
const KILLED: u64 = 6;
/// So many times as often in a thorough search.
const THOROUGH: u64 = 6;

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
struct Recovered<C> {
    /// `None` if the volume refused to be mounted, with a reason.
    content: Option<C>,
    /// The revision of the oracle for which it was found good: with all devices, and without one,
    /// which allows more.
    good_at: [u64; 2],
}

/// What is known about the states of an epoch.
#[derive(Debug)]
pub struct Checker<S: Subject> {
    subject: S,
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
    /// Which content a state was recovered to, all devices there or without one of them.
    recovered: BTreeMap<(u128, Option<usize>), usize>,
    contents: Vec<Recovered<ContentOf<S>>>,
    by_print: BTreeMap<u64, usize>,
    /// Blocks of the states built so far.
    blocks: Blocks,
    /// What is remembered of media, for the whole case.
    looks: S::Looks,
    /// A recovery before was cut off.
    again: bool,
}

impl<S: Subject> Checker<S> {
    /// Knows nothing yet.
    pub fn new(subject: S, volatile: bool) -> Checker<S> {
        Checker {
            subject,
            volatile,
            damage: Damage::None,
            failing: BTreeSet::new(),
            thorough: false,
            work: 0,
            recovered: BTreeMap::new(),
            contents: Vec::new(),
            by_print: BTreeMap::new(),
            blocks: Blocks::default(),
            looks: S::Looks::default(),
            again: false,
        }
    }

    /// A new epoch: the prints of states mean something else.
    pub fn begin(&mut self) {
        self.recovered.clear();
        self.contents.clear();
        self.by_print.clear();
        self.blocks.clear();
        self.damage = Damage::None;
        self.failing.clear();
    }

    /// What media hold after a mount, if the oracle allows it; `None` if damage keeps them from
    /// being mounted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn content_of(
        &mut self,
        media: Vec<Cells>,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Result<Option<ContentOf<S>>, Wrong> {
        if oracle.judges_ends()
            && let Some(seen) = self.subject.inspect(&media, &mut self.looks, self.again)
        {
            let index = self.intern(Some(seen?));
            if let Some(wrong) = self.judge(index, false, oracle) {
                return Err(wrong);
            }
        }
        let index = self.recover_with(true, media, oracle, rng, report)?;
        match self.judge(index, false, oracle) {
            None => Ok(self.contents[index].content.clone()),
            Some(wrong) => Err(wrong),
        }
    }

    /// Tries states of a moment; says what is wrong with the first bad one.
    pub fn moment(
        &mut self,
        moment: &Moment,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        let dispensable = self.dispensable(moment);
        for fates in choose(moment, self.thorough, rng) {
            // What is drawn for a state depends on the state alone, not on those before it.
            let print = moment.print_of(&fates);
            let mut rng = Rng::stream(print as u64 ^ moment.pending.len() as u64, "state");
            let state = State { moment, fates: &fates, print, dispensable: &dispensable };
            let wrong = self.state(&state, oracle, &mut rng, report);
            if let Some(wrong) = wrong.filter(|wrong| wrong.rule.applies()) {
                return Some(self.blame(moment, fates, wrong, oracle, report));
            }
        }
        None
    }

    fn state(
        &mut self,
        state: &State<'_>,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        let &State { moment, fates, print, dispensable } = state;
        if !dispensable.is_empty() && rng.chance(0.5) {
            let lost = dispensable[rng.below(dispensable.len() as u64) as usize];
            return self.state_without(lost, state, oracle, rng, report);
        }
        if let Some(&index) = self.recovered.get(&(print, None)) {
            if self.contents[index].good_at[0] != oracle.revision() {
                report.states += 1;
                count(fates, &mut report.faults);
                return self.judge(index, false, oracle);
            }
            // The same state once more, and the client has heard of nothing since.
            return None;
        }
        let media = self.blocks.build(moment, fates);
        report.states += 1;
        report.recovered += 1;
        count(fates, &mut report.faults);
        let often = if self.thorough { THOROUGH } else { 1 };
        if rng.below(CUT_AGAIN) < often
            && let Some(wrong) =
                self.cut_again(state, Found::after_a_cut(media.clone()), oracle, rng, report)
        {
            return Some(wrong);
        }
        if self.is_kill(state)
            && rng.below(KILLED) < often
            && let Some(mut wrong) =
                self.cut_again(state, Found::after_a_kill(moment), oracle, rng, report)
        {
            let kill = "the process is killed here, and the caches keep what they have";
            wrong.story.insert(0, kill.to_owned());
            return Some(wrong);
        }
        if self.subject.damages()
            && rng.below(DAMAGED) < often
            && let Some(wrong) = self.strike(state, media.clone(), oracle, rng, report)
        {
            return Some(wrong);
        }
        let index = match self.recover(media, oracle, rng, report) {
            Ok(index) => index,
            Err(wrong) => return Some(wrong),
        };
        self.recovered.insert((print, None), index);
        self.judge(index, false, oracle)
    }

    /// True if the caches of the devices lose nothing: what a killed process leaves.
    fn is_kill(&self, state: &State<'_>) -> bool {
        let State { moment, fates, .. } = state;
        self.volatile
            && self.failing.is_empty()
            && !moment.pending.is_empty()
            && moment.pending.iter().all(|one| one.pending.completed.is_some())
            && fates.iter().all(|fate| *fate == Fate::Kept)
    }

    /// A state that one of its devices is lost with.
    fn state_without(
        &mut self,
        lost: usize,
        state: &State<'_>,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        let known = self.recovered.get(&(state.print, Some(lost))).copied();
        if known.is_some_and(|index| self.contents[index].good_at[1] == oracle.revision()) {
            return None;
        }
        report.states += 1;
        count(state.fates, &mut report.faults);
        report.faults.lost_devices += 1;
        let wrong = match known {
            Some(index) => self.judge(index, true, oracle),
            None => {
                report.recovered += 1;
                match self.without(lost, state.moment.build(state.fates), oracle, rng, report) {
                    Ok(None) => None,
                    Ok(Some(index)) => {
                        self.recovered.insert((state.print, Some(lost)), index);
                        self.judge(index, true, oracle)
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

    /// Compares a content with what the oracle allows, without a device or with all of them.
    fn judge(&mut self, index: usize, without: bool, oracle: &mut S::Oracle) -> Option<Wrong> {
        let allowance = self.allowance(without);
        let Recovered { content, good_at } = &mut self.contents[index];
        debug_assert!(content.is_some() || self.damage == Damage::Open, "damage alone refuses");
        let good_at = &mut good_at[usize::from(without)];
        if *good_at == oracle.revision() {
            return None;
        }
        let story = content.as_ref().map(|one| oracle.judge(one, allowance)).unwrap_or_default();
        let wrong = verdict(Sort::Content, story);
        if wrong.is_none() {
            *good_at = oracle.revision();
        }
        wrong
    }

    /// Mounts media and reads everything back, or looks at them where that is enough.
    fn recover(
        &mut self,
        media: Vec<Cells>,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Result<usize, Wrong> {
        self.recover_with(false, media, oracle, rng, report)
    }

    fn recover_with(
        &mut self,
        mounts: bool,
        mut media: Vec<Cells>,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Result<usize, Wrong> {
        let inspected = self.subject.inspect(&media, &mut self.looks, self.again);
        // A look costs a fraction of a mount.
        self.work += blocks(&media) / if inspected.is_some() { LOOK_SHARE } else { 1 };
        let inspected = inspected.transpose()?;
        if let Some(content) = &inspected
            && !mounts
            && rng.below(MOUNTED) > 0
        {
            return Ok(self.intern(Some(content.clone())));
        }
        let looks = inspected.is_none() && self.damage == Damage::None;
        let looked_at = looks && rng.below(LOOKED_AT) == 0;
        let before = looked_at.then(|| media.clone());
        let options = MountOptions { volatile: self.volatile, ..MountOptions::default() };
        let recovery = match self.damage {
            Damage::None => self.subject.recovery(&media, &mut self.looks),
            Damage::Covered(_) | Damage::Open => None,
        };
        let recovered = recovery.as_ref().map_or(0, |recovery| recovery.blocks_read);
        let mounted = match recovery {
            Some(known) => mount_recovered(self.subject, &mut media, &known, &options)
                .map(|mounted| (None, mounted)),
            None => self.mount(&mut media, &options),
        };
        let (lost, mounted) = match mounted {
            Ok(mounted) => mounted,
            Err(_) if self.damage == Damage::Open => {
                report.faults.refused_mounts += 1;
                return Ok(self.intern(None));
            }
            Err(error) => return Err(unmountable(&error)),
        };
        report.faults.members_left_out += u64::from(lost.is_some());
        let blocks_read = recovered + mounted.blocks_read();
        report.most_blocks_read = report.most_blocks_read.max(blocks_read);
        if self.damage == Damage::None
            && let Some(what) = self.subject.disagreement(&mut media)
        {
            return Err(Rule::MembersAgree.wrong(Sort::Parity, what));
        }
        let mut volume = join::<S>(mounted, media, lost, self.volatile);
        let content = match oracle.read(&mut volume) {
            Ok(content) => content,
            Err(_) if self.damage == Damage::Open => oracle.read_what_can_be(&mut volume),
            Err(error) => return Err(unreadable(&error)),
        };
        if let Some(before) = before {
            self.look(&before, None, &content, oracle)?;
        }
        if let Some(what) = inspected.and_then(|seen| oracle.differs(&content, &seen, false)) {
            return Err(Rule::MountShows.wrong(Sort::Read, what));
        }
        if rng.below(WORKED_ON) == 0
            && self.damage != Damage::Open
            && let Some(wrong) = verdict(Sort::Dead, oracle.exercise(&mut volume, rng))
        {
            return Err(wrong);
        }
        Ok(self.intern(Some(content)))
    }

    /// Compares what a read-only mount shows with what is there after a recovery. Where an array
    /// would have to bring members into step first it may say that it cannot compute a block.
    fn look(
        &mut self,
        media: &[Cells],
        lost: Option<usize>,
        content: &ContentOf<S>,
        oracle: &mut S::Oracle,
    ) -> Result<(), Wrong> {
        self.work += blocks(media);
        let wrong = |what: String| Rule::ReadOnlyShows.wrong(Sort::Look, what);
        let read = |volume: &mut _| oracle.read_what_can_be(volume);
        let seen = read_only(self.subject, media, lost, self.volatile, read).map_err(wrong)?;
        match oracle.differs(&seen, content, self.subject.spare() > 0) {
            Some(what) => Err(wrong(format!("read-only, {what}"))),
            None => Ok(()),
        }
    }

    /// Mounts media. Where damage on one device keeps an array from being assembled, the message
    /// asks to do without that device, and so it is.
    pub fn mount(
        &self,
        media: &mut Vec<Cells>,
        options: &MountOptions<'_>,
    ) -> Result<(Option<usize>, S::Mounted), String> {
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

    /// The number of a content; each is kept once.
    fn intern(&mut self, content: Option<ContentOf<S>>) -> usize {
        let print = content.as_ref().map_or(1, S::Oracle::print);
        let next = self.contents.len();
        let index = *self.by_print.entry(print).or_insert(next);
        if index < next && self.contents[index].content == content {
            return index;
        }
        self.contents.push(Recovered { content, good_at: [0; 2] });
        next
    }

    /// Damages a state and recovers it. Where other devices make up for the damage nothing may come
    /// of it; else every block is an error or something it once held.
    fn strike(
        &mut self,
        state: &State<'_>,
        mut media: Vec<Cells>,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        if self.damage != Damage::None {
            return None;
        }
        let place = any_place(&media, rng);
        let strike = Strike::draw(self.subject.checks(), place, &media, rng);
        let covered = state.dispensable.contains(&place.0);
        let makes_up = self.subject.makes_up(&media, strike.place(), false);
        let damage = strike.damage(covered, makes_up);
        // A subject without checksums promises nothing about damage together with a power cut.
        if damage == Damage::Open && !self.subject.checks() {
            return None;
        }
        strike.hit(&mut media, &mut report.faults);
        report.states += 1;
        report.recovered += 1;
        self.damage = damage;
        let result = on_behalf(Rule::DamageNoticed, || {
            let index = self.recover(media, oracle, rng, report)?;
            let content = self.contents[index].content.as_ref();
            let judged = content.map(|one| oracle.judge(one, damage.allowance()));
            Ok::<_, Wrong>(judged.and_then(|complaints| verdict(Sort::Damage, complaints)))
        });
        self.damage = Damage::None;
        let mut story = result.unwrap_or_else(Some)?.story;
        story.insert(0, format!("then {strike}"));
        Some(Wrong { rule: Rule::DamageNoticed, sort: Sort::Damage, story })
    }

    /// Recovers a state without one of its devices; no content if damage keeps it from being read.
    fn without(
        &mut self,
        lost: usize,
        mut media: Vec<Cells>,
        oracle: &mut S::Oracle,
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
            Err(error) => return Err(unmountable(&error)),
        };
        report.most_blocks_read = report.most_blocks_read.max(mounted.blocks_read());
        let mut volume = join::<S>(mounted, media, Some(lost), self.volatile);
        let content = match oracle.read(&mut volume) {
            Ok(content) => content,
            Err(_) if self.damage == Damage::Open => return Ok(None),
            Err(error) => return Err(unreadable(&error)),
        };
        if let Some(before) = before {
            self.look(&before, Some(lost), &content, oracle)?;
        }
        if rng.below(WORKED_ON) == 0
            && self.damage != Damage::Open
            && let Some(wrong) = verdict(Sort::Dead, oracle.exercise(&mut volume, rng))
        {
            return Err(wrong);
        }
        Ok(Some(self.intern(Some(content))))
    }

    /// Tells a bad state with as few of its writes lost or torn as it takes.
    fn blame(
        &mut self,
        moment: &Moment,
        fates: Vec<Fate>,
        mut wrong: Wrong,
        oracle: &mut S::Oracle,
        report: &ProveReport,
    ) -> Wrong {
        let mut scratch = report.clone();
        let fails = |tried: &[Fate]| {
            let mut rng = Rng::stream(0, "blame");
            let found = self.plain_state(moment, tried, oracle, &mut rng, &mut scratch);
            let same = found.filter(|found| found.sort == wrong.sort);
            let fails = same.is_some();
            same.into_iter().for_each(|found| wrong = found);
            fails
        };
        let odd = |fate: &Fate| *fate != Fate::Kept;
        let fates = simplify(fates, odd, &[Fate::Kept, Fate::Lost], fails);
        let mut story = moment.describe(&fates);
        for (sentence, placed) in story.iter_mut().zip(&moment.pending) {
            if let Some(area) = self.subject.area(&moment.durable, &placed.pending.write) {
                *sentence = format!("{area}: {sentence}");
            }
        }
        story.append(&mut wrong.story);
        Wrong { story, ..wrong }
    }

    /// A state without further faults.
    fn plain_state(
        &mut self,
        moment: &Moment,
        fates: &[Fate],
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        match self.recover(moment.build(fates), oracle, rng, report) {
            Ok(index) => self.judge(index, false, oracle),
            Err(wrong) => Some(wrong),
        }
    }
}

fn blocks(media: &[Cells]) -> u64 {
    media.iter().map(Medium::blocks).sum()
}

fn unmountable(error: &str) -> Wrong {
    Rule::Mounts.wrong(Sort::Dead, format!("the volume cannot be mounted: {error}"))
}

fn unreadable(error: &str) -> Wrong {
    let story = format!("the volume cannot be read after the crash: {error}");
    Rule::CanBeRead.wrong(Sort::Dead, story)
}
