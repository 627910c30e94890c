//! Flags for what Loge does while no client waits.

use seekless_engine::layout::Tuning;

/// What Loge does while no client waits, on a simulated disk.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct IdlingArgs {
    /// `loge` puts neighbouring blocks of the volume back beside each other while no client
    /// waits.
    #[arg(long)]
    sort: bool,
    /// `loge` puts blocks that were read in succession beside each other while no client waits.
    #[arg(long)]
    clusters: bool,
    /// `loge` keeps the arm on its way to the next free block while no client waits, on disks of
    /// one zone without a cache.
    #[arg(long)]
    anticipate: bool,
}

impl IdlingArgs {
    /// The same choices with these.
    pub fn onto(self, tuning: Tuning) -> Tuning {
        let IdlingArgs { sort, clusters, anticipate } = self;
        Tuning { sort, clusters, anticipate, ..tuning }
    }
}
