//! Little-endian fields at fixed offsets of a structure on disk.
//!
//! All encoders and decoders of file systems and logs use these functions. An offset outside the
//! bytes is a mistake of the caller; the structures have fixed sizes, so data on disk cannot cause
//! it.

/// The number of two bytes at `at`.
#[inline(always)]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// The number of four bytes at `at`.
#[inline(always)]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// The number of eight bytes at `at`.
#[inline(always)]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// The signed number of eight bytes at `at`.
#[inline(always)]
pub fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(array_at(bytes, at))
}

/// `N` bytes at `at`.
#[inline(always)]
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Stores bytes at `at`.
#[inline(always)]
pub fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}
