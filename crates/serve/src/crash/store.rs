//! Where the blocks rest, and what it takes to take a write back.
//!
//! A write goes to the medium at once; what it replaces is kept until a flush has made it last. A
//! power cut puts that back and then decides. So reads need not look anywhere else, and a block in
//! memory only changes hands: a disk that can crash copies no more than one that cannot.

use super::memory::{Buffer, Memory};
use bytes::Bytes;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::medium::Medium;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use smallvec::SmallVec;

/// Content of consecutive blocks: new or replaced.
#[derive(Debug)]
pub(super) enum Content {
    /// Zeros.
    Zeros(u32),
    /// Blocks that belong to the memory they came from or go to; none for zeros.
    Buffers(SmallVec<[Option<Buffer>; 1]>),
    /// Anything else.
    Data(Data),
}

impl Content {
    /// As a payload.
    pub fn data(&self) -> Data {
        match self {
            Content::Zeros(count) => Data::zeros(*count),
            Content::Data(data) => data.clone(),
            Content::Buffers(buffers) => {
                let mut data = Data::none();
                for buffer in buffers {
                    let body = match buffer {
                        None => Body::Zeros,
                        Some(buffer) => Body::Bytes(Bytes::copy_from_slice(&**buffer)),
                    };
                    data.push(Piece::block(body));
                }
                data
            }
        }
    }
}

/// Where the blocks rest.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(Memory),
    /// Anywhere else.
    Medium(Box<dyn Medium>),
}

impl Store {
    /// As a medium.
    pub fn medium(&mut self) -> &mut dyn Medium {
        match self {
            Store::Memory(memory) => memory,
            Store::Medium(medium) => medium.as_mut(),
        }
    }

    /// Size in blocks.
    pub fn blocks(&self) -> u64 {
        match self {
            Store::Memory(memory) => memory.blocks(),
            Store::Medium(medium) => medium.blocks(),
        }
    }

    /// A payload in the form in which this store exchanges it.
    pub(super) fn take_in(&mut self, data: Data) -> Content {
        match self {
            Store::Memory(memory) => Content::Buffers(memory.take_in(&data)),
            _ => Content::Data(data),
        }
    }

    /// Replaces blocks from `at` on and returns what was there.
    ///
    /// # Errors
    /// What the medium reports; memory never fails.
    pub(super) fn exchange(
        &mut self,
        at: BlockNr,
        count: u32,
        new: Content,
    ) -> Result<Content, IoError> {
        match (self, new) {
            (Store::Memory(memory), Content::Buffers(mut buffers)) => {
                for (at, buffer) in (at..).zip(&mut buffers) {
                    *buffer = memory.exchange(at, buffer.take());
                }
                Ok(Content::Buffers(buffers))
            }
            (Store::Memory(memory), Content::Zeros(_)) => {
                let blocks = at..at + u64::from(count);
                Ok(Content::Buffers(blocks.map(|at| memory.exchange(at, None)).collect()))
            }
            (store, new) => {
                let medium = store.medium();
                let old = medium.read(at, count)?;
                match new {
                    Content::Zeros(_) => medium.trim(at, count)?,
                    new => medium.write(at, &new.data())?,
                }
                Ok(Content::Data(old))
            }
        }
    }

    /// Makes the next write cheaper.
    pub(super) fn warm_up(&self) {
        if let Store::Memory(memory) = self {
            memory.warm_up();
        }
    }

    /// Takes back the memory of content that was exchanged.
    pub(super) fn discard(&mut self, content: Content) {
        if let (Store::Memory(memory), Content::Buffers(buffers)) = (self, content) {
            buffers.into_iter().flatten().for_each(|buffer| memory.give_back(buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::units::BLOCK_BYTES;

    fn payload(fill: u8, blocks: usize) -> Data {
        Data::bytes(Bytes::from(vec![fill; blocks * BLOCK_BYTES]))
    }

    #[test]
    fn a_block_in_memory_is_copied_once_and_its_memory_is_used_again() {
        let mut store = Store::Memory(Memory::new(8));
        let place = |content: &Content| match content {
            Content::Buffers(buffers) => {
                buffers.iter().flatten().map(|one| one.as_ptr()).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        let first = store.take_in(payload(1, 2));
        let at = place(&first);
        let zeros = store.exchange(3, 2, first).expect("memory does not fail");
        assert_eq!(zeros.data(), Data::zeros(2));
        let second = store.take_in(payload(2, 2));
        let replaced = store.exchange(3, 2, second).expect("memory does not fail");
        assert_eq!(place(&replaced), at);
        store.discard(replaced);
        let third = store.take_in(payload(3, 2));
        assert_eq!(place(&third), [at[1], at[0]]);
        assert_eq!(store.medium().read(3, 2), Ok(payload(2, 2)));
    }

    #[test]
    fn what_was_exchanged_can_be_exchanged_back_in_every_store() {
        let stores =
            [Store::Memory(Memory::new(64)), Store::Medium(Box::new(Memory::new(64)) as Box<_>)];
        for mut store in stores {
            let mut rope = payload(1, 1);
            rope.append(Data::zeros(1));
            rope.append(Data::stamp(1, 7, 1));
            let mut before = Data::zeros(64);
            for data in [payload(9, 4), rope, Data::zeros(3), payload(5, 40)] {
                let count = data.blocks();
                let new = store.take_in(data.clone());
                let old = store.exchange(6, count, new).expect("memory does not fail");
                assert_eq!(old.data().to_bytes(), before.slice(6, count).to_bytes());
                assert_eq!(
                    store.medium().read(6, count).map(|d| d.to_bytes()),
                    Ok(data.to_bytes())
                );
                let new = store.exchange(6, count, old).expect("memory does not fail");
                assert_eq!(new.data().to_bytes(), data.to_bytes());
                assert_eq!(store.medium().read(0, 64).map(|d| d.to_bytes()), Ok(before.to_bytes()));
                store.exchange(6, count, new).expect("memory does not fail");
                before = store.medium().read(0, 64).expect("memory does not fail");
            }
            let old = store.exchange(7, 2, Content::Zeros(2)).expect("memory does not fail");
            assert_eq!(old.data().to_bytes(), payload(5, 2).to_bytes());
            let found = store.medium().read(6, 4).expect("reads").to_bytes();
            let blocks: Vec<u8> = found.chunks(BLOCK_BYTES).map(|block| block[0]).collect();
            assert_eq!(blocks, [5, 0, 0, 5]);
        }
    }
}
