//! What is written down comes back, and damage is noticed.

use super::*;
use crate::vlog::format::{Pointer, decode_header};
use seekless_engine::checksum::Sums;

fn id(number: u128) -> Identity {
    Identity::new(number, Sums::NEWEST)
}

fn content() -> Content {
    let mut content = Content::default();
    content.groups[3] = Entry::new(77, true, 5);
    content.patches.place(9, 4, Entry::new(12, false, 6));
    content.patches.edit(9, 5, 100, b"edited");
    content.patches.written(Entry::new(13, false, 7));
    content
}

fn header(fresh_groups: u8) -> Header {
    Header {
        sequence: 5,
        commit: 4,
        previous: 3,
        durable: 2,
        digest: 9,
        slice: 1,
        index: 0,
        members: 1,
        changed: changed(fresh_groups, false),
        pointers: std::iter::once(Pointer { place: 8, sequence: 4 }).collect(),
    }
}

#[test]
fn map_blocks_come_back() {
    let block = encode_map(id(5), 99, &header(1 << 3), &content());
    assert_eq!(decode_header(id(5), 99, &block), Some(header(1 << 3)));
    assert_eq!(decode_content(&block), Some(content()));
    let places = |header: &Header| -> Vec<u32> {
        written(header, &content()).iter().map(|one| one.place()).collect()
    };
    assert_eq!(places(&header(1 << 3)), [77, 12, 13]);
    assert_eq!(places(&header(0)), [12, 13]);
}

#[test]
fn as_many_patches_as_there_is_room_for_fit() {
    let mut content = Content::default();
    while content.patches.encoded_bytes() + 15 <= PATCH_ROOM {
        let count = content.patches.fresh().count() as u32;
        content.patches.place(0, 2 * count, Entry::new(100 + 3 * count, false, count));
    }
    let block = encode_map(id(5), 99, &header(0), &content);
    assert_eq!(decode_content(&block), Some(content));
}

#[test]
fn inodes_come_back_to_their_own_object_only() {
    let mut inode = Inode::EMPTY;
    inode.attributes[7] = 9;
    inode.pointers[14] = Entry::new(5, false, 6);
    let mut bytes = [0xff; INODE_BYTES];
    inode.encode(id(5), 300, &mut bytes);
    assert_eq!(Inode::decode(id(5), 300, &bytes), Some(inode));
    assert_eq!(Inode::decode(id(5), 301, &bytes), None, "another object's");
    assert_eq!(Inode::decode(id(6), 300, &bytes), None, "another volume's");
    for at in 0..INODE_BYTES {
        let mut bad = bytes;
        bad[at] ^= 1;
        // Bytes that are kept for later are summed, too.
        assert_eq!(Inode::decode(id(5), 300, &bad), None, "byte {at}");
    }
    Inode::EMPTY.encode(id(5), 300, &mut bytes);
    assert_eq!(bytes, [0; INODE_BYTES]);
    assert_eq!(Inode::decode(id(5), 300, &bytes), Some(Inode::EMPTY));
}
