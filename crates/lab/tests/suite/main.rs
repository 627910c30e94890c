//! Tests in virtual time in one program.
#![allow(clippy::disallowed_types, missing_docs)]

/// True in a nightly run, which sets `SEEKLESS_FULL=1`: figures that take long are measured at all
/// their points.
fn is_full() -> bool {
    std::env::var_os("SEEKLESS_FULL").is_some_and(|value| value == "1")
}

mod counting;
#[path = "../../../layouts/tests/suite/support/mod.rs"]
mod support;
mod users;
mod vlfs_costs;

mod arrays;
mod clients;
mod compaction;
mod disk_caching;
mod files;
mod hylog;
mod hylog_counting;
mod hylog_shapes;
mod loge_figures;
mod loge_recovery;
mod loge_tables;
mod long_tracks;
mod nearly_full;
mod nvram;
mod reorganiser;
mod vlog_claims;
mod zoned_disks;
