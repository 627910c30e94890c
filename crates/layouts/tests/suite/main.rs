//! Tests of the layouts in one program, so that the name of a layout runs its tests and no others:
//! `cargo test -p seekless-layouts lfs`.
#![allow(
    missing_docs,
    dead_code,
    clippy::disallowed_types,
    clippy::duplicate_mod,
    clippy::unwrap_used
)]

/// Makes a test of each function for each layout.
macro_rules! each_layout {
    ($($name:ident),+ $(,)?) => {
        each_layout!(@ inplace INPLACE [$($name),+]);
        each_layout!(@ vlog VLOG [$($name),+]);
        each_layout!(@ loge LOGE [$($name),+]);
        each_layout!(@ dcd DCD [$($name),+]);
        each_layout!(@ lfs LFS [$($name),+]);
        each_layout!(@ wolf WOLF [$($name),+]);
        each_layout!(@ hylog HYLOG [$($name),+]);
        each_layout!(@ lld LLD [$($name),+]);
    };
    (@ $module:ident $kind:ident [$($name:ident),+]) => {
        mod $module {
            $(#[test] fn $name() { super::$name(seekless_layouts::Kind::$kind); })+
        }
    };
}

mod damage;
#[path = "support/seen.rs"]
mod seen;
#[path = "support/striped.rs"]
mod striped;
mod support;
#[path = "support/worked.rs"]
mod worked;

mod at_rest;
mod contract;
mod damage_in_turn;
mod damaged_images;
mod dcd_attached;
mod dcd_attached_copies;
mod dcd_caching_modes;
mod dcd_first_blocks;
mod dcd_progress;
mod example_layout;
mod full_volumes;
mod killed;
mod large_volumes;
mod lfs;
mod lld;
mod model;
mod old_images;
mod recovery_steps;
mod runs;
mod salvage;
mod superblocks;
mod torn_metadata;
mod transactions;
