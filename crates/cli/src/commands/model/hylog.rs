//! `seekless model hylog`: what logs cost, and which layout the cost model picks.

use super::print;
use crate::failure::{Exit, Failure};
use crate::spec;
use clap::ValueEnum;
use seekless_engine::size::Size;
use seekless_lab::distribution::Distribution;
use seekless_lab::model::Table;
use seekless_lab::model::hylog::explain::{Explanation, explain};
use seekless_lab::model::hylog::{self, ALPHA, Disk, MeasureError, UTILISATIONS};
use seekless_lab::model::report::Dice;
use serde_json::json;

/// For `--help`.
pub(super) const EXAMPLES: &str = "\
Examples:
  seekless model hylog                                      # the paper's disks, 1991 to 2008
  seekless model hylog --table distribution --utilisation 0.9,0.95,0.98
  seekless model hylog --disk desktop7200 --distribution knuth:80,20 --plot
  seekless model hylog --positioning 5.6 --bandwidth 61 --page 8k --segment 1M --simulate 5
  seekless model hylog --explain --disk atlas10k --utilisation 0.95 --distribution hotcold:90,10";

/// Arguments of `seekless model hylog`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file; several separated
    /// by commas. Positioning time and bandwidth are measured on it. Without it, the paper's disks.
    #[arg(long, short, value_name = "SPEC", value_delimiter = ',')]
    disk: Vec<String>,
    /// In place of a disk: mean seek and half a turn, in milliseconds.
    #[arg(long, value_name = "MS", requires = "bandwidth", conflicts_with = "disk")]
    positioning: Option<f64>,
    /// In place of a disk: bandwidth in 10⁶ bytes per second.
    #[arg(long, value_name = "MB/S", requires = "positioning")]
    bandwidth: Option<f64>,
    /// Size of a page. [default: 4k]
    #[arg(long, value_name = "SIZE")]
    page: Option<Size>,
    /// Size of a segment. [default: what equation (6) asks for, rounded to 2^n pages]
    #[arg(long, value_name = "SIZE", conflicts_with = "alpha")]
    segment: Option<Size>,
    /// Share of the limit of eta that the segment size must reach: equation (6) has 0.8.
    #[arg(long, value_name = "SHARE")]
    alpha: Option<f64>,
    /// Shares of the disk in use, at least 0 and below 1. [default: 0.5 to 0.98; --explain: 0.9]
    #[arg(long, value_name = "SHARES", value_delimiter = ',')]
    utilisation: Vec<f64>,
    /// How often each page is written: uniform, hotcold:90,10, knuth:80,20 or hill:105,.528,.546.
    #[arg(long, value_name = "NAME", default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// Subject of the tables.
    #[arg(long, value_enum, default_value_t = About::Utilisation, conflicts_with = "explain")]
    table: About,
    /// Say which layout the model picks, and why.
    #[arg(long, conflicts_with = "plot")]
    explain: bool,
    /// Simulate a log as well: so many overwrites of each page for each row.
    #[arg(long, value_name = "N", conflicts_with = "explain")]
    simulate: Option<u32>,
    /// Seed of the simulation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw curves in place of tables.
    #[arg(long, conflicts_with = "json")]
    plot: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Subject of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum About {
    /// Costs by the share of the disk in use.
    Utilisation,
    /// Eta by the size of segments: figure 1.
    Segment,
    /// Costs by the live share of cleaned segments: figure 3.
    Cleaning,
    /// HyLog under five distributions.
    Distribution,
    /// HyLog by the share of hot pages: figure 4.
    Hot,
    /// The worked examples of section 6.2.
    Examples,
}

/// Live shares of figure 3.
const LIVE: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// The complete output.
pub(super) fn text(args: &Args) -> Result<String, Failure> {
    if args.simulate.is_some() && args.table != About::Utilisation {
        return Err(Failure::usage("--simulate: only costs by utilisation are simulated")
            .hint("leave --table out"));
    }
    let disks = disks(args)?;
    if args.explain {
        return explained(args, &disks);
    }
    Ok(print(&tables(args, &disks)?, args.plot, args.json))
}

fn disks(args: &Args) -> Result<Vec<Disk>, Failure> {
    let alpha = args.alpha.unwrap_or(ALPHA);
    if !(alpha > 0.0 && alpha < 1.0) {
        return Err(Failure::usage(format!("--alpha {alpha}: must lie between 0 and 1")));
    }
    let page = args.page.map_or(4096, Size::bytes);
    let segment = args.segment.map(Size::bytes);
    let fitted = |disk: Disk| {
        let bytes = disk.recommended_bytes(alpha);
        if segment.is_some() { Ok(disk) } else { disk.with_segment(bytes) }
    };
    if let (Some(ms), Some(rate)) = (args.positioning, args.bandwidth) {
        let (page, segment) = (page as f64, segment.map(|bytes| bytes as f64));
        return Ok(vec![fitted(Disk::new("the disk", ms, rate, page, segment)?)?]);
    }
    if args.disk.is_empty() {
        if args.page.is_some() || args.segment.is_some() || args.alpha.is_some() {
            return Err(Failure::usage("the numbers of the paper's disks are fixed")
                .hint("name a disk (--disk), or give --positioning and --bandwidth"));
        }
        return Ok(Disk::of_the_paper());
    }
    let one = |name: &String| {
        let disk = Disk::measured(&spec::find(name)?, page, segment, name);
        Ok(fitted(disk.map_err(|error| blame(name, error))?)?)
    };
    args.disk.iter().map(one).collect()
}

fn blame(name: &str, error: MeasureError) -> Failure {
    Failure::from_message(Exit::Usage, &format!("{name}: {error}"))
}

fn tables(args: &Args, disks: &[Disk]) -> Result<Vec<Table>, Failure> {
    let utilisations: &[f64] =
        if args.utilisation.is_empty() { &UTILISATIONS } else { &args.utilisation };
    let dice = args.simulate.map(|trials| Dice { trials, seed: args.seed });
    let mut tables = Vec::new();
    if args.table == About::Examples {
        return Ok(vec![hylog::examples()]);
    }
    for disk in disks {
        match args.table {
            About::Utilisation => {
                tables.extend(hylog::by_utilisation(disk, utilisations, args.distribution, dice)?)
            }
            About::Segment => tables.push(hylog::by_segment(disk)?),
            About::Cleaning => tables.push(hylog::by_cleaning(disk, &LIVE)?),
            About::Distribution => tables.extend(hylog::by_distribution(disk, utilisations)?),
            About::Hot => tables.extend(hylog::by_hot_share(disk, utilisations)?),
            About::Examples => {}
        }
    }
    Ok(tables)
}

fn explained(args: &Args, disks: &[Disk]) -> Result<String, Failure> {
    let utilisations = if args.utilisation.is_empty() { &[0.9] } else { &*args.utilisation };
    let mut all = Vec::new();
    for disk in disks {
        for &utilisation in utilisations {
            all.push(explain(disk, utilisation, args.distribution)?);
        }
    }
    if args.json {
        return Ok(format!("{:#}\n", json!({ "explanations": all })));
    }
    Ok(all.iter().map(Explanation::to_text).collect::<Vec<_>>().join("\n"))
}
