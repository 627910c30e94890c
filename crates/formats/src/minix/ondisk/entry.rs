//! An entry of a directory: 64 bytes, the number of an inode and a name of 60 bytes at most. A
//! shorter name is filled with zeros. Number 0 marks a free entry, whatever its name.

use seekless_fs::fields::{put, u32_at};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 64;
/// Bytes of the number in front of the name.
pub const NUMBER_BYTES: usize = 4;
/// Bytes of a name at most.
pub const NAME_BYTES: usize = ENTRY_BYTES - NUMBER_BYTES;

/// The number of an entry.
pub fn number(entry: &[u8]) -> u32 {
    u32_at(entry, 0)
}

/// The name of an entry, up to its first zero byte.
pub fn name(entry: &[u8]) -> &[u8] {
    let name = &entry[NUMBER_BYTES..ENTRY_BYTES];
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
    &name[..length]
}

/// An entry. The name has at most [`NAME_BYTES`] bytes.
pub fn encode(number: u32, name: &[u8]) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    put(&mut entry, 0, &number.to_le_bytes());
    put(&mut entry, NUMBER_BYTES, name);
    entry
}

/// True for the two entries that each directory begins with.
pub fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_up_to_sixty_bytes_come_back() {
        for length in [1, 59, 60] {
            let text = vec![b'x'; length];
            let entry = encode(7, &text);
            assert_eq!((number(&entry), name(&entry)), (7, &text[..]));
        }
        assert!(name(&encode(7, b"")).is_empty());
        assert!(is_dots(b"..") && !is_dots(b"..."));
    }
}
