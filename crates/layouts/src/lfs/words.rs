//! Numbers that mostly follow one another: where the blocks of a slice of the map lie, or which
//! blocks lie in a segment. What was written in order is a few runs; what was written in any order
//! is kept one by one. Zero stands for nothing, and takes no memory where all is nothing.

/// So many numbers for each run before they are kept one by one: an eighth of what those take.
const SHARE: usize = 16;

/// Numbers that go up by one from place to place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    start: u16,
    count: u16,
    first: u32,
}

impl Run {
    fn one(index: u16, word: u32) -> Run {
        Run { start: index, count: 1, first: word }
    }

    fn end(self) -> u16 {
        self.start + self.count
    }

    fn word(self, index: u16) -> u32 {
        self.first.wrapping_add(u32::from(index - self.start))
    }

    fn has(self, index: u16) -> bool {
        (self.start..self.end()).contains(&index)
    }

    /// True if the number at a place goes on where it ends.
    fn leads_to(self, index: u16, word: u32) -> bool {
        self.count > 0 && self.end() == index && self.word(index) == word
    }
}

/// A list of numbers of fixed length.
#[derive(Clone, Debug)]
pub(super) enum Words {
    /// Nothing elsewhere. It may be empty.
    One(Run),
    /// In order of their places, none beside another one that it continues.
    Runs(Vec<Run>),
    Each(Box<[u32]>),
}

impl Default for Words {
    /// Nothing anywhere.
    fn default() -> Words {
        Words::One(Run::default())
    }
}

impl Words {
    /// These numbers.
    pub fn of(words: &[u32]) -> Words {
        let mut runs: Vec<Run> = Vec::new();
        for (index, &word) in (0..).zip(words).filter(|&(_, &word)| word != 0) {
            if let Some(run) = runs.last_mut().filter(|run| run.leads_to(index, word)) {
                run.count += 1;
            } else if runs.len() > words.len() / SHARE {
                return Words::Each(words.into());
            } else {
                runs.push(Run::one(index, word));
            }
        }
        runs.shrink_to_fit();
        Words::of_runs(runs)
    }

    fn of_runs(runs: Vec<Run>) -> Words {
        match runs[..] {
            [] => Words::default(),
            [run] => Words::One(run),
            _ => Words::Runs(runs),
        }
    }

    /// The number at a place.
    pub fn get(&self, index: usize) -> u32 {
        let at = index as u16;
        match self {
            Words::Each(words) => words[index],
            Words::One(run) if run.has(at) => run.word(at),
            Words::One(_) => 0,
            Words::Runs(runs) => {
                let behind = runs.partition_point(|run| run.start <= at);
                let run = runs[..behind].last().filter(|run| run.has(at));
                run.map_or(0, |run| run.word(at))
            }
        }
    }

    /// Copies all of them out.
    pub fn copy_to(&self, out: &mut [u32]) {
        let runs: &[Run] = match self {
            Words::Each(words) => return out.copy_from_slice(words),
            Words::One(run) => std::slice::from_ref(run),
            Words::Runs(runs) => runs,
        };
        out.fill(0);
        for run in runs {
            for index in run.start..run.end() {
                out[usize::from(index)] = run.word(index);
            }
        }
    }

    /// Replaces the number at a place of a list of so many.
    pub fn set(&mut self, index: usize, word: u32, length: usize) {
        debug_assert!(index < length && length <= 1 << 15, "place {index} of {length}");
        let at = index as u16;
        match self {
            Words::Each(words) => words[index] = word,
            Words::One(run) if run.leads_to(at, word) && word != 0 => run.count += 1,
            Words::One(run) if run.count == 0 && word != 0 => *run = Run::one(at, word),
            Words::One(run) if word == 0 && !run.has(at) => {}
            Words::One(run) => {
                let mut runs = vec![*run];
                change(&mut runs, at, word);
                *self = Words::of_runs(runs);
            }
            Words::Runs(runs) => {
                change(runs, at, word);
                if runs.len() < 2 {
                    *self = Words::of_runs(std::mem::take(runs));
                } else if runs.len() > length / SHARE {
                    let mut words = vec![0; length];
                    self.copy_to(&mut words);
                    *self = Words::Each(words.into());
                }
            }
        }
    }

    /// Memory of its own, in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        match self {
            Words::Each(words) => size_of_val(&**words),
            Words::Runs(runs) => runs.capacity() * size_of::<Run>(),
            Words::One(_) => 0,
        }
    }
}

/// Replaces the number at a place.
fn change(runs: &mut Vec<Run>, index: u16, word: u32) {
    clear(runs, index);
    if word != 0 {
        add(runs, index, word);
    }
}

/// Takes a place out of the run that it is in.
fn clear(runs: &mut Vec<Run>, index: u16) {
    let behind = runs.partition_point(|run| run.start <= index);
    let Some(at) = behind.checked_sub(1).filter(|&at| runs[at].has(index)) else { return };
    let run = runs[at];
    let before = Run { count: index - run.start, ..run };
    let after = Run { start: index + 1, count: run.end() - index - 1, first: run.word(index + 1) };
    match (before.count > 0, after.count > 0) {
        (true, true) => {
            runs[at] = before;
            runs.insert(behind, after);
        }
        (true, false) => runs[at] = before,
        (false, true) => runs[at] = after,
        (false, false) => {
            runs.remove(at);
        }
    }
}

/// Puts a number at a place that no run has.
fn add(runs: &mut Vec<Run>, index: u16, word: u32) {
    let behind = runs.partition_point(|run| run.start <= index);
    let before = behind.checked_sub(1).filter(|&at| runs[at].leads_to(index, word));
    let one = Run::one(index, word);
    let after = runs.get(behind).copied().filter(|next| one.leads_to(next.start, next.first));
    match (before, after) {
        (Some(at), Some(after)) => {
            runs[at].count += 1 + after.count;
            runs.remove(behind);
        }
        (Some(at), None) => runs[at].count += 1,
        (None, Some(after)) => {
            runs[behind] = Run { start: index, count: after.count + 1, first: word };
        }
        (None, None) => runs.insert(behind, one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn agrees_with_a_plain_list() {
        let mut rng = Rng::stream(9, "words");
        for length in [8, 256, 512] {
            let (mut words, mut plain) = (Words::default(), vec![0; length]);
            for round in 0..4000 {
                let at = rng.below(length as u64) as usize;
                let count = (rng.below(40) as usize + 1).min(length - at);
                let first = if rng.chance(0.3) { 0 } else { rng.below(900) as u32 + 1 };
                for (index, word) in (at..at + count).zip(first..) {
                    let word = if first == 0 { 0 } else { word };
                    words.set(index, word, length);
                    plain[index] = word;
                }
                let index = rng.below(length as u64) as usize;
                assert_eq!(words.get(index), plain[index]);
                let mut copy = vec![7; length];
                words.copy_to(&mut copy);
                assert_eq!(copy, plain, "length {length}, round {round}");
                if round % 50 == 0 {
                    words = Words::of(&plain);
                }
            }
        }
    }

    #[test]
    fn what_follows_one_another_takes_one_run() {
        let mut words = Words::default();
        // As the write buffer gives way to the log, block by block.
        for (first, last) in [(70_000, true), (300, false)] {
            for index in 0..256 {
                words.set(index, first + index as u32, 256);
            }
            assert_eq!(words.bytes(), 0, "{last}: one run is left");
        }
        for index in (0..256).rev() {
            assert_eq!(words.get(index), 300 + index as u32);
        }
        let all: Vec<u32> = (300..556).collect();
        assert_eq!(Words::of(&all).bytes(), 0);
    }
}
