//! Transcripts of one function of an image, found by what the image holds.
//!
//! They form a tree. A node names the block that is read next, which depends only on what was read
//! before; what the image holds there leads to the next node, and at last to an end.

use super::contents::Content;
use seekless_engine::units::BlockNr;

/// A block that was read, and what was in it.
pub type Step = (BlockNr, Content);

/// What a function does with a disk besides reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It writes blocks from this one on.
    Write(BlockNr, Vec<Content>),
    /// It flushes.
    Flush,
}

impl Event {
    /// Does the same to an image.
    pub fn apply(&self, image: &mut [Content]) {
        if let Event::Write(at, contents) = self {
            image[*at as usize..][..contents.len()].copy_from_slice(contents);
        }
    }
}

/// What a function has done and said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<T> {
    /// What it wrote and when it flushed.
    pub events: Vec<Event>,
    /// Blocks that it read, one that was read twice counted twice.
    pub blocks_read: u64,
    /// What was said.
    pub said: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Node(u32),
    End(u32),
}

#[derive(Debug)]
struct Node {
    block: BlockNr,
    /// In order of the contents.
    links: Vec<(Content, Link)>,
}

/// The transcripts of a function.
#[derive(Debug)]
pub struct Transcripts<T> {
    nodes: Vec<Node>,
    ends: Vec<End<T>>,
    root: Option<Link>,
    /// A step that is left out, to show that this is noticed.
    #[cfg(test)]
    omitted: Option<usize>,
}

impl<T> Default for Transcripts<T> {
    fn default() -> Transcripts<T> {
        Transcripts {
            nodes: Vec::new(),
            ends: Vec::new(),
            root: None,
            #[cfg(test)]
            omitted: None,
        }
    }
}

impl<T> Transcripts<T> {
    /// Where the function ends with this image, if that is known.
    pub fn find(&self, image: &[Content]) -> Option<&End<T>> {
        let mut link = self.root?;
        loop {
            let node = match link {
                Link::End(end) => return Some(&self.ends[end as usize]),
                Link::Node(node) => &self.nodes[node as usize],
            };
            link = node.link(image[node.block as usize]).ok().map(|at| node.links[at].1)?;
        }
    }

    /// Adds a transcript, unless it is known.
    ///
    /// # Panics
    /// If the function read another block after the same ones had held the same: then its end
    /// depends on something else.
    pub fn add(&mut self, steps: &[Step], end: End<T>) {
        const UNSET: Link = Link::End(u32::MAX);
        #[cfg(test)]
        let steps = &self.without_omitted(steps)[..];
        let mut from: Option<(u32, usize)> = None;
        let mut link = self.root;
        let mut steps = steps.iter();
        while let Some(Link::Node(number)) = link {
            let &(block, content) = steps.next().expect("a function reads on where it did before");
            let node = &mut self.nodes[number as usize];
            assert_eq!(node.block, block, "a function reads what it did before");
            let (at, next) = match node.link(content) {
                Ok(at) => (at, Some(node.links[at].1)),
                Err(at) => {
                    node.links.insert(at, (content, UNSET));
                    (at, None)
                }
            };
            (from, link) = (Some((number, at)), next);
        }
        if link.is_some() {
            assert!(steps.next().is_none(), "a function ends where it did before");
            return;
        }
        for &(block, content) in steps {
            let node = self.nodes.len() as u32;
            self.nodes.push(Node { block, links: vec![(content, UNSET)] });
            self.set(from, Link::Node(node));
            from = Some((node, 0));
        }
        self.ends.push(end);
        self.set(from, Link::End(self.ends.len() as u32 - 1));
    }

    fn set(&mut self, from: Option<(u32, usize)>, link: Link) {
        match from {
            None => self.root = Some(link),
            Some((node, at)) => self.nodes[node as usize].links[at].1 = link,
        }
    }

    /// Leaves a step of each transcript out from now on.
    #[cfg(test)]
    pub fn leave_out(&mut self, step: usize) {
        self.omitted = Some(step);
    }

    #[cfg(test)]
    fn without_omitted(&self, steps: &[Step]) -> Vec<Step> {
        let stays = |(number, _): &(usize, &Step)| Some(*number) != self.omitted;
        steps.iter().enumerate().filter(stays).map(|(_, step)| *step).collect()
    }

    /// Number of transcripts.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.ends.len()
    }
}

impl Node {
    fn link(&self, content: Content) -> Result<usize, usize> {
        self.links.binary_search_by_key(&content, |(content, _)| *content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memo::Contents;
    use bytes::Bytes;
    use seekless_engine::data::{Body, Data};
    use seekless_engine::disk::Disk;
    use seekless_engine::io::IoError;
    use seekless_engine::rng::Rng;
    use seekless_engine::units::BLOCK_BYTES;

    fn block(fill: u8) -> Body {
        Body::Bytes(Bytes::from(vec![fill; BLOCK_BYTES]))
    }

    /// Goes from block to block as each one says, and adds up what it finds. At a block of zeros it
    /// writes something and begins anew.
    fn walk(disk: &mut dyn Disk) -> Result<u32, IoError> {
        loop {
            let (mut at, mut sum, mut stopped) = (0, 0, false);
            for _ in 0..4 {
                let first = disk.read(at, 1)?.to_bytes()[0];
                if first == 0 {
                    stopped = true;
                    break;
                }
                sum += u32::from(first);
                at = (at + 5 * u64::from(first)) % disk.blocks();
            }
            if !stopped {
                return Ok(sum);
            }
            disk.write(at, Data::block_of(block(1 + sum as u8 % 4)))?;
            disk.flush()?;
        }
    }

    #[test]
    fn a_transcript_says_what_a_run_says() {
        let mut rng = Rng::stream(1, "transcripts");
        let (mut contents, mut plain) = (Contents::default(), Contents::default());
        let mut walks = Transcripts::default();
        let runs = std::cell::Cell::new(0);
        for _ in 0..3000 {
            let image: Vec<u8> = (0..12).map(|_| rng.below(3) as u8).collect();
            let number = |contents: &mut Contents| -> Vec<Content> {
                image.iter().map(|&fill| contents.number_of(&block(fill))).collect()
            };
            let (mut played, mut run) = (number(&mut contents), number(&mut plain));
            let said = walks.play(&mut contents, &mut played, |disk| {
                runs.set(runs.get() + 1);
                walk(disk)
            });
            assert_eq!(said, Transcripts::default().play(&mut plain, &mut run, walk), "{image:?}");
            for (one, other) in played.iter().zip(&run) {
                assert_eq!(contents.bytes(*one), plain.bytes(*other), "{image:?}");
            }
        }
        let (runs, count) = (runs.get(), walks.count());
        assert!(runs < 100 && count > 40, "{runs} runs, {count} transcripts");
    }
}
