//! Metadata of which one byte is wrong: its checksum says which one it was.
//!
//! A checksum of 32 bits agrees by chance with one in four thousand million versions, and some
//! thousands are tried. So the caller looks at more than the checksum before it accepts one.

/// The only version of some bytes that differs from them in one byte and is accepted; `None` if
/// there is none, or more than one.
pub fn one_byte(bytes: &[u8], mut accepts: impl FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut tried = bytes.to_vec();
    let mut found = None;
    for at in 0..bytes.len() {
        for change in 1..=u8::MAX {
            tried[at] = bytes[at] ^ change;
            if accepts(&tried) {
                if found.is_some() {
                    return None;
                }
                found = Some(tried.clone());
            }
        }
        tried[at] = bytes[at];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::checksum::crc32c;

    fn is_whole(bytes: &[u8]) -> bool {
        let (content, sum) = bytes.split_at(bytes.len() - 4);
        crc32c(content).to_le_bytes() == sum
    }

    #[test]
    fn one_wrong_byte_is_found_and_two_are_not() {
        let mut whole: Vec<u8> = (0..60).collect();
        whole.extend(crc32c(&whole).to_le_bytes());
        for (at, change) in [(0, 1), (17, 0xff), (59, 0x80), (63, 4)] {
            let mut bad = whole.clone();
            bad[at] ^= change;
            assert_eq!(one_byte(&bad, is_whole), Some(whole.clone()), "byte {at}");
        }
        let mut bad = whole.clone();
        bad[3] ^= 1;
        bad[40] ^= 1;
        assert_eq!(one_byte(&bad, is_whole), None);
        assert_eq!(one_byte(&[1, 2], |_| true), None, "two versions are none");
    }
}
