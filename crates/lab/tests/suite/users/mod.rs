//! Synthetic users of the HyLog study: streams of page references before the buffer pool (section
//! 5.2; claim H22 has the ratios of reads to writes).

use seekless_engine::rng::Rng;
use seekless_lab::distribution::{Distribution, Permutation, Sampler};
use seekless_lab::trace::{Action, Record};
use std::collections::VecDeque;

/// True with this probability.
fn chance(rng: &mut Rng, share: f64) -> bool {
    rng.unit() < share
}

/// Like the Financial trace: 78 % writes, popularity by Zipf's law with an exponent of 1.1,
/// requests of 512 bytes to 8 KiB that become one page of 4 KiB or two, a fifth of them in
/// sequential runs.
pub fn financial(blocks: u64, seed: u64) -> impl Iterator<Item = Record> {
    let mut rng = Rng::stream(seed, "financial");
    let scatter = Permutation::new(blocks, seed);
    let mut next = 0;
    std::iter::from_fn(move || {
        if !chance(&mut rng, 0.2) {
            let s: f64 = -0.1;
            let rank = (1.0 + rng.unit() * ((blocks as f64).powf(s) - 1.0)).powf(1.0 / s);
            next = scatter.at((rank as u64).clamp(1, blocks) - 1);
        }
        let action = if chance(&mut rng, 0.78) { Action::Write } else { Action::Read };
        let count = 1 + rng.below(2);
        let at = next.min(blocks - count);
        next = at + count;
        Some(Record::of_blocks(action, at, count))
    })
}

/// Random single pages, with popularity by Knuth's 80–20 rule, two fifths of them written. Behind
/// the pool they have as many reads for each write as TPC-C, and related pages are not adjacent.
pub fn scattered(blocks: u64, seed: u64) -> impl Iterator<Item = Record> {
    let mut rng = Rng::stream(seed, "scattered");
    let pages = Sampler::new(Distribution::knuth(80.0, 20.0), blocks, seed);
    std::iter::from_fn(move || {
        let action = if chance(&mut rng, 0.4) { Action::Write } else { Action::Read };
        Some(Record::of_blocks(action, pages.draw(&mut rng), 1))
    })
}

/// Blocks of a page of the Campus trace: 8 KiB.
const PAGE: u64 = 2;
/// Pages of a mailbox: 1 MiB on average.
const MAILBOX: u64 = 128;

/// Clients whose sessions interleave.
const CLIENTS: usize = 32;

/// Like the Campus trace: mailboxes that are read as a whole, and after some sessions rewritten as
/// a whole or from a random page on. To others mail is appended.
pub fn campus(blocks: u64, seed: u64) -> impl Iterator<Item = Record> {
    let mut rng = Rng::stream(seed, "campus");
    let boxes = (blocks / (MAILBOX * PAGE)).max(1);
    // The page of the mailbox for the next mail.
    let mut ends: Vec<u64> = (0..boxes).map(|_| rng.below(MAILBOX)).collect();
    let mut clients: Vec<VecDeque<Record>> = vec![VecDeque::new(); CLIENTS];
    std::iter::from_fn(move || {
        let client = &mut clients[rng.below(CLIENTS as u64) as usize];
        if client.is_empty() {
            session(client, &mut ends, &mut rng);
        }
        client.pop_front()
    })
}

/// The next reference of one client.
fn session(queue: &mut VecDeque<Record>, ends: &mut [u64], rng: &mut Rng) {
    let home = Distribution::knuth(70.0, 30.0).rank(ends.len() as u64, rng);
    let end = ends[home as usize];
    let place = |page: u64| (home * MAILBOX + page % MAILBOX) * PAGE;
    if chance(rng, 0.6) {
        let count = 1 + rng.below(2);
        queue.extend(
            (0..count).map(|page| Record::of_blocks(Action::Write, place(end + page), PAGE)),
        );
        ends[home as usize] = (end + count) % MAILBOX;
        return;
    }
    queue.extend((0..=end).map(|page| Record::of_blocks(Action::Read, place(page), PAGE)));
    if chance(rng, 0.45) {
        let from = if chance(rng, 0.5) { 0 } else { rng.below(end + 1) };
        queue.extend((from..=end).map(|page| Record::of_blocks(Action::Write, place(page), PAGE)));
    }
}
