//! The clock of the host, as commands hand it to the other crates.

/// Nanoseconds of host time after the first call. For figures about the host itself.
pub fn host_clock() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
