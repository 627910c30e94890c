//! The cleaner: reclaims space.

use super::super::hylog::{cleaning_value, plugging_value};
use super::{NONE, Policy, State, Tiny};
use std::cmp::Reverse;

impl Tiny {
    /// One pass: takes candidates, and moves their live pages.
    pub(super) fn clean(&mut self) {
        match self.setup.policy {
            Policy::Overwrite => unreachable!("nothing is ever cleaned"),
            Policy::Fifo | Policy::Greedy => {
                let victims = self.candidates(self.setup.policy, 1);
                self.copy(&victims);
            }
            Policy::CostAge => {
                let victims = self.candidates(Policy::CostAge, self.setup.pass_segments);
                self.copy(&victims);
            }
            Policy::Plugging => {
                let victims = self.candidates(Policy::Plugging, self.setup.pass_segments);
                self.plug(&victims);
            }
            Policy::Adaptive => {
                let copied = self.candidates(Policy::CostAge, self.setup.pass_segments);
                let plugged = self.candidates(Policy::Plugging, self.setup.pass_segments);
                let eta = self.setup.efficiency;
                let copying = cleaning_value(&self.utilisations(&copied));
                if copying <= plugging_value(&self.utilisations(&plugged), eta) {
                    self.copy(&copied);
                } else {
                    self.plug(&plugged);
                }
            }
        }
    }

    fn utilisations(&self, segments: &[u32]) -> Vec<f64> {
        let pages = f64::from(self.setup.pages_per_segment);
        segments.iter().map(|&one| f64::from(self.segments[one as usize].live) / pages).collect()
    }

    /// The best segments to clean, the best first. At least one, and no more than the cleaner has
    /// free space for their live pages.
    fn candidates(&self, policy: Policy, most: u32) -> Vec<u32> {
        let pages = f64::from(self.setup.pages_per_segment);
        let closed = (0_u32..).zip(&self.segments).filter(|one| one.1.state == State::Closed);
        // The larger the better; the number of the segment decides between equal ones.
        let mut ranked: Vec<(f64, u32)> = closed
            .map(|(index, segment)| {
                let u = f64::from(segment.live) / pages;
                let worth = match policy {
                    Policy::Fifo => -(segment.closed as f64),
                    Policy::CostAge => {
                        (1.0 - u) * (self.clock - segment.youngest) as f64 / (1.0 + u)
                    }
                    _ => -u,
                };
                (worth, index)
            })
            .collect();
        let most = (most as usize).min(ranked.len());
        let order = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if most < ranked.len() {
            ranked.select_nth_unstable_by(most, order);
            ranked.truncate(most);
        }
        ranked.sort_unstable_by(order);
        ranked.into_iter().map(|(_, index)| index).collect()
    }

    /// Reads a segment: its live pages, which it no longer holds.
    fn take(&mut self, victim: u32) -> Vec<u32> {
        self.counts.cleaner_segments += 1;
        let pages = self.setup.pages_per_segment;
        let slots = victim * pages..(victim + 1) * pages;
        let owners = slots.map(|slot| self.owners[slot as usize]);
        let live: Vec<u32> = owners.filter(|&page| page != NONE).collect();
        live.iter().for_each(|&page| self.invalidate(page));
        live
    }

    fn release(&mut self, victim: u32) {
        self.segments[victim as usize].state = State::Free;
        self.free.push(victim);
    }

    /// Writes the live pages of the victims to new segments. Each victim is free again before the
    /// next one is read: its pages are in memory.
    fn copy(&mut self, victims: &[u32]) {
        self.counts.passes.0 += 1;
        for &victim in victims {
            let live = self.take(victim);
            self.counts.copied_pages += live.len() as u64;
            self.release(victim);
            live.into_iter().for_each(|page| self.append(page, true));
        }
    }

    /// Writes the live pages of the victims to holes of other segments, the fullest first: these
    /// would be cleaned last.
    fn plug(&mut self, victims: &[u32]) {
        self.counts.passes.1 += 1;
        let mut live = Vec::new();
        for &victim in victims {
            live.extend(self.take(victim));
            self.release(victim);
        }
        let pages = self.setup.pages_per_segment;
        let mut hosts: Vec<u32> = (0..self.setup.segments)
            .filter(|&index| {
                let segment = &self.segments[index as usize];
                segment.state == State::Closed && segment.live < pages
            })
            .collect();
        hosts.sort_unstable_by_key(|&host| (Reverse(self.segments[host as usize].live), host));
        for host in hosts {
            for slot in host * pages..(host + 1) * pages {
                if self.owners[slot as usize] == NONE {
                    let Some(page) = live.pop() else { return };
                    self.counts.plugged_pages += 1;
                    self.occupy(page, slot);
                }
            }
        }
        // No hole left: the rest begins new segments.
        self.counts.copied_pages += live.len() as u64;
        live.into_iter().for_each(|page| self.append(page, true));
    }
}
