//! How a disk caching disk is to work, as the command line says it.

use crate::size::Size;
use seekless_engine::layout::dcd::{Caching, Mode, Order, Report};

/// Each argument says it: a heading for all that follow would go on behind them.
const HEADING: &str = "Disk caching disk";

/// Arguments that several subcommands share.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CachingArgs {
    /// Where `dcd` writes first: write-back, write-through or write-around.
    #[arg(help_heading = HEADING)]
    #[arg(long, value_name = "MODE", default_value_t = Mode::Back)]
    cache: Mode,
    /// When `dcd` acknowledges a write that asks for nothing special: immediate (from memory) or
    /// logged.
    #[arg(help_heading = HEADING)]
    #[arg(long, value_name = "WHEN", default_value_t = Report::Immediate)]
    report: Report,
    /// What `dcd` writes home first while nobody waits: last-first, least-valid or location.
    #[arg(help_heading = HEADING)]
    #[arg(long, value_name = "ORDER", default_value_t = Order::LastFirst)]
    destage: Order,
    /// Requests from this size on go past the log of `dcd`; `off` for none.
    #[arg(help_heading = HEADING)]
    #[arg(long, value_name = "SIZE", default_value = "64k", value_parser = limit)]
    bypass: u32,
    /// Streams of adjoining writes without a flush go past the log after this much; `off` for
    /// never.
    #[arg(help_heading = HEADING)]
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = limit)]
    sequential: u32,
}

impl CachingArgs {
    /// What they say.
    pub fn caching(&self) -> Caching {
        Caching {
            mode: self.cache,
            report: self.report,
            order: self.destage,
            bypass_blocks: self.bypass,
            sequential_blocks: self.sequential,
            ..Caching::default()
        }
    }
}

/// A size in blocks, or 0 for `off`.
fn limit(text: &str) -> Result<u32, String> {
    if text == "off" {
        return Ok(0);
    }
    let size: Size = text.parse()?;
    u32::try_from(size.blocks()).map_err(|_| format!("{size} is too much; `off` is for never"))
}
