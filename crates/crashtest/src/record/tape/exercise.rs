//! Any bytes as a recording: the body of the fuzz target `tape`, and of a test.

use super::{HEADER_BYTES, RECORD_BYTES, Recording, What, check_mark};
use seekless_engine::checksum::crc32c;

/// Reads the input as a recording. The first byte chooses whether checksums are corrected first, so
/// that the input reaches the code behind them.
///
/// # Panics
/// If the reader returns an invalid event.
pub fn exercise(input: &[u8]) {
    let [setup, rest @ ..] = input else { return };
    let mut bytes = rest.to_vec();
    if setup & 1 != 0 {
        mend(&mut bytes);
    }
    let Ok(mut recording) = Recording::open(bytes.as_slice()) else { return };
    let size = recording.header().size_bytes;
    let (mut asked, mut open, mut marks) = (0, 0_u64, 0);
    // Reads from memory do not fail.
    while let Ok(Some(event)) = recording.next_event() {
        let range = match event.what {
            What::Write { offset, length, .. }
            | What::Zeros { offset, length, .. }
            | What::Trim { offset, length, .. } => Some((offset, length)),
            What::Flush => None,
            What::Answer { .. } => {
                assert!(event.number <= asked, "{event:?} answers nothing");
                open = open.checked_sub(1).expect("no more answers than requests");
                continue;
            }
            What::Begin => {
                assert_eq!((event.connection, event.number), (0, 0));
                continue;
            }
            What::Mark { length, .. } => {
                marks += 1;
                assert_eq!((event.connection, event.number), (0, marks));
                assert!(check_mark(recording.mark().as_bytes()).is_ok(), "{event:?}");
                assert_eq!(recording.mark().len(), length as usize);
                continue;
            }
        };
        asked += 1;
        open += 1;
        assert_eq!(event.number, asked);
        let inside = |(offset, length): (u64, u32)| offset + u64::from(length) <= size;
        assert!(range.is_none_or(inside), "{event:?} leaves {size} bytes");
    }
    assert!(recording.end().is_some(), "it ended without saying how");
    assert!(matches!(recording.next_event(), Ok(None)), "something follows the end");
}

/// Corrects the checksums of the header and of the records.
fn mend(bytes: &mut [u8]) {
    let Some((header, mut rest)) = bytes.split_at_mut_checked(HEADER_BYTES) else { return };
    header[..8].copy_from_slice(&super::MAGIC);
    header[8..12].copy_from_slice(&super::VERSION.to_le_bytes());
    correct_checksum(header);
    while let Some((record, after)) = rest.split_at_mut_checked(RECORD_BYTES) {
        record[2..4].fill(0);
        // Short payloads, so that others follow.
        record[25..28].fill(0);
        let payload = super::payload_bytes(record[0], record[1], record[24].into()) as usize;
        if payload > after.len() {
            return;
        }
        let (payload, after) = after.split_at_mut(payload);
        record[32..36].copy_from_slice(&crc32c(payload).to_le_bytes());
        correct_checksum(record);
        rest = after;
    }
}

fn correct_checksum(part: &mut [u8]) {
    let (body, sum) = part.split_at_mut(part.len() - 4);
    sum.copy_from_slice(&crc32c(body).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::{MARK, payload_bytes};
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn seeded_recordings_hold() {
        for seed in 0..3000 {
            let mut rng = Rng::stream(seed, "tape");
            let mut input = vec![1; 1 + HEADER_BYTES];
            let mut marks = 0;
            for number in 1..=rng.below(12) {
                let mut record = [0; RECORD_BYTES];
                record[0] = 1 + rng.below(8) as u8;
                record[1] = (rng.next() & rng.next() & 7) as u8;
                record[4] = 1;
                record[8] = if rng.below(4) == 0 { rng.below(9) as u8 } else { number as u8 };
                record[16] = rng.next() as u8;
                record[24] = rng.below(30) as u8;
                if record[0] == MARK && rng.below(8) > 0 {
                    marks += 1;
                    (record[1], record[4], record[8]) = (0, 0, marks);
                }
                input.extend(record);
                let follow = match rng.below(4) {
                    0 => rng.below(30),
                    _ => payload_bytes(record[0], record[1], record[24].into()).into(),
                };
                // Mostly text, for marks.
                let letters = if rng.below(4) == 0 { 256 } else { 128 };
                input.extend((0..follow).map(|_| 1 + rng.below(letters - 1) as u8));
            }
            exercise(&input);
            let at = rng.below(input.len() as u64) as usize;
            input[at] ^= 1 << rng.below(8);
            exercise(&input);
        }
    }
}
