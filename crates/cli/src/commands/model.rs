//! `seekless model`: what the analytic models predict for a disk.

mod hylog;

use crate::failure::{Exit, Failure, Outcome};
use crate::spec;
use crate::term::Progress;
use seekless_lab::model::loge::Drive;
use seekless_lab::model::report::{self, Dice, FREE, RESERVES, UTILISATIONS};
use seekless_lab::model::{ModelError, Overrides, Params, Table};
use serde_json::json;
use std::io::Write;

/// Arguments of `seekless model`.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  seekless model cylinder                        # figure 1 of the virtual log paper, both disks
  seekless model fill --disk st19101 --plot      # figure 2
  seekless model loge --simulate 20000           # Loge's section 5.2, formulas and simulation
  seekless model hylog --explain --disk desktop7200 --utilisation 0.95 --distribution knuth:80,20
  seekless model track --disk desktop7200 --slot-sectors 8 --utilisation 0.8 --json

Models say what a layout may hope for before anything is simulated; `seekless sim` says what it
comes to."
)]
pub struct Args {
    #[command(subcommand)]
    model: Model,
}

/// Every model.
#[derive(Debug, clap::Subcommand)]
enum Model {
    /// Time until a free slot passes on one track: equations (1) to (3).
    #[command(after_help = "\
Examples:
  seekless model track --disk st19101
  seekless model track --utilisation 0.5,0.8,0.9 --simulate 100000")]
    Track(Usage),
    /// Time until a free slot passes in a cylinder, and on the whole disk: equations (4) to (6).
    #[command(after_help = "\
Examples:
  seekless model cylinder --plot
  seekless model cylinder --disk st19101 --utilisation 0.8,0.9 --simulate 5000")]
    Cylinder(Usage),
    /// Cost of a write if empty tracks are filled up to a threshold: equations (7) to (10).
    #[command(after_help = "\
Examples:
  seekless model fill --disk hp97560,st19101 --plot
  seekless model fill --slot-sectors 8 --reserve 0.25     # as the virtual log does")]
    Fill(Filling),
    /// Sectors that pass while a logical block is placed, by physical block size: equation (11).
    #[command(after_help = "\
Examples:
  seekless model block --utilisation 0.8
  seekless model block --disk st19101 --logical 16 --plot")]
    Block(Block),
    /// Cost of Loge: section 5.2 of its paper.
    #[command(after_help = "\
Examples:
  seekless model loge                                      # the paper's idealised disk
  seekless model loge --disk hp97560 --settle-ms 3.24      # its section 7.1.1
  seekless model loge --simulate 20000 --plot")]
    Loge(Loge),
    /// Cost of logs compared with writing in place, and HyLog between them: its equations (1) to
    /// (8).
    #[command(after_help = hylog::EXAMPLES)]
    Hylog(hylog::Args),
}

/// Arguments of all models.
#[derive(Debug, clap::Args)]
struct Common {
    /// Sectors of 512 bytes in a slot, the unit of placement. [default: 1; loge: 8]
    #[arg(long, value_name = "N")]
    slot_sectors: Option<u32>,
    /// Sectors on a track, in place of the disk's.
    #[arg(long, value_name = "N")]
    sectors: Option<u32>,
    /// Tracks in a cylinder, in place of the disk's.
    #[arg(long, value_name = "N")]
    heads: Option<u32>,
    /// Cylinders, in place of the disk's.
    #[arg(long, value_name = "N")]
    cylinders: Option<u32>,
    /// Revolutions per minute, in place of the disk's.
    #[arg(long, value_name = "N")]
    rpm: Option<f64>,
    /// Time of a head switch, in place of the disk's.
    #[arg(long, value_name = "MS")]
    head_switch_ms: Option<f64>,
    /// Also simulate with random numbers: so many trials for each row.
    #[arg(long, value_name = "TRIALS")]
    simulate: Option<u32>,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw curves in place of tables.
    #[arg(long, conflicts_with = "json")]
    plot: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Usage {
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file; several separated
    /// by commas.
    #[arg(long, short, value_name = "SPEC", value_delimiter = ',')]
    #[arg(default_value = "hp97560,st19101")]
    disk: Vec<String>,
    /// Shares of the disk in use, at least 0 and below 1.
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = UTILISATIONS)]
    #[arg(hide_default_value = true)]
    utilisation: Vec<f64>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Filling {
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file; several separated
    /// by commas.
    #[arg(long, short, value_name = "SPEC", value_delimiter = ',')]
    #[arg(default_value = "hp97560,st19101")]
    disk: Vec<String>,
    /// Shares of a track kept free before the head switches, at least 0 and below 1.
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = RESERVES)]
    #[arg(hide_default_value = true)]
    reserve: Vec<f64>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Block {
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file; several separated
    /// by commas.
    #[arg(long, short, value_name = "SPEC", value_delimiter = ',')]
    #[arg(default_value = "hp97560,st19101")]
    disk: Vec<String>,
    /// Shares of the track in use, at least 0 and below 1: a table for each.
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_value = "0.8")]
    utilisation: Vec<f64>,
    /// Sectors in a logical block.
    #[arg(long, value_name = "N", default_value_t = 8)]
    logical: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Loge {
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file; several separated
    /// by commas. Without it, the idealised disk of the paper.
    #[arg(long, short, value_name = "SPEC", value_delimiter = ',')]
    disk: Vec<String>,
    /// Shares of segments that are free, above 0 and below 1.
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = FREE)]
    #[arg(hide_default_value = true)]
    free: Vec<f64>,
    /// Time until the head has settled on another track, in place of the disk's head switch.
    #[arg(long, value_name = "MS", requires = "disk")]
    settle_ms: Option<f64>,
    #[command(flatten)]
    common: Common,
}

impl Common {
    fn overrides(&self) -> Overrides {
        Overrides {
            sectors: self.sectors,
            tracks: self.heads,
            cylinders: self.cylinders,
            rpm: self.rpm,
            switch_ms: self.head_switch_ms,
        }
    }

    fn dice(&self) -> Option<Dice> {
        self.simulate.map(|trials| Dice { trials, seed: self.seed })
    }

    /// Each of the disks with what replaces its numbers.
    fn params(&self, disks: &[String], slot_sectors: u32) -> Result<Vec<Params>, Failure> {
        let slot = self.slot_sectors.unwrap_or(slot_sectors);
        let one = |disk: &String| Ok(Params::new(&spec::find(disk)?, slot, &self.overrides())?);
        disks.iter().map(one).collect()
    }
}

/// Evaluates a model and prints it.
///
/// # Errors
/// If there is no such disk, or a number is outside the range of the model.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut progress = Progress::new();
    progress.show(|| "evaluating…".to_owned());
    let (tables, common) = match &args.model {
        Model::Track(usage) => {
            (each(usage, |p, dice| report::track(p, &usage.utilisation, dice))?, &usage.common)
        }
        Model::Cylinder(usage) => {
            (each(usage, |p, dice| report::cylinder(p, &usage.utilisation, dice))?, &usage.common)
        }
        Model::Fill(filling) => (fill(filling)?, &filling.common),
        Model::Block(one) => (block(one)?, &one.common),
        Model::Loge(one) => (loge(one)?, &one.common),
        Model::Hylog(one) => {
            let text = hylog::text(one)?;
            drop(progress);
            out.write_all(text.as_bytes())?;
            return Ok(());
        }
    };
    drop(progress);
    out.write_all(print(&tables, common.plot, common.json).as_bytes())?;
    Ok(())
}

/// Tables, or plots of them, or JSON.
fn print(tables: &[Table], plot: bool, as_json: bool) -> String {
    if as_json {
        let tables: Vec<_> = tables.iter().map(Table::to_json).collect();
        return format!("{:#}\n", json!({ "tables": tables }));
    }
    let one = |table: &Table| if plot { table.to_plot() } else { table.to_text() };
    tables.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn each(
    usage: &Usage,
    table: impl Fn(&Params, Option<Dice>) -> Result<Table, ModelError>,
) -> Result<Vec<Table>, Failure> {
    let disks = usage.common.params(&usage.disk, 1)?;
    disks.iter().map(|params| Ok(table(params, usage.common.dice())?)).collect()
}

fn fill(args: &Filling) -> Result<Vec<Table>, Failure> {
    let (common, mut tables) = (&args.common, Vec::new());
    for params in common.params(&args.disk, 1)? {
        tables.push(report::filling(&params, &args.reserve, common.dice())?);
    }
    Ok(tables)
}

fn block(args: &Block) -> Result<Vec<Table>, Failure> {
    let (common, mut tables) = (&args.common, Vec::new());
    if common.slot_sectors.is_some() {
        return Err(Failure::usage("--slot-sectors: this model compares all sizes of slots")
            .hint("say how large logical blocks are: --logical"));
    }
    for params in common.params(&args.disk, 1)? {
        tables.extend(report::block(&params, &args.utilisation, args.logical, common.dice())?);
    }
    Ok(tables)
}

fn loge(args: &Loge) -> Result<Vec<Table>, Failure> {
    let common = &args.common;
    if args.disk.is_empty() {
        if common.slot_sectors.is_some() || common.overrides() != Overrides::default() {
            return Err(Failure::usage("the numbers of the idealised disk are fixed")
                .hint("name a disk whose numbers to replace: --disk"));
        }
        return Ok(vec![report::loge(&Drive::ideal(), &args.free, common.dice())?]);
    }
    let mut tables = Vec::new();
    for params in common.params(&args.disk, 8)? {
        let drive = Drive::new(&params, args.settle_ms)?;
        tables.push(report::loge(&drive, &args.free, common.dice())?);
    }
    Ok(tables)
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Failure {
        Failure::from_message(Exit::Usage, &error.to_string())
    }
}
