//! `seekless disks`: the built-in disks, or one in full.

use crate::failure::Outcome;
use crate::spec;
use seekless_disk::{Spec, specs};
use seekless_engine::size::Size;
use serde_json::{Value, json};
use std::io::Write;

/// Arguments of `seekless disks`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disks
  seekless disks st19101 > my-disk.toml        # a specification to start from
  seekless disks my-disk.toml --json

A specification is a TOML file; every option named --disk takes a built-in name or a path.")]
pub struct Args {
    /// A built-in disk or the path of a TOML file.
    name: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the list, or the specification.
///
/// # Errors
/// If there is no such disk or its specification is invalid.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.name {
        Some(name) => one(name, args.json, out),
        None => all(args.json, out),
    }
}

fn one(name: &str, as_json: bool, out: &mut dyn Write) -> Outcome {
    let spec = spec::find(name)?;
    if as_json {
        writeln!(out, "{}", facts(&spec))?;
        return Ok(());
    }
    match specs::builtin().iter().find(|builtin| builtin.name == name) {
        // Print the file itself: its comments give the source of each number.
        Some(builtin) => write!(out, "{}", builtin.text)?,
        None => line(&spec, out)?,
    }
    Ok(())
}

fn all(as_json: bool, out: &mut dyn Write) -> Outcome {
    let found = specs::builtin().iter().filter_map(|builtin| specs::find(builtin.name));
    if as_json {
        let disks: Vec<Value> = found.map(|spec| facts(&spec)).collect();
        writeln!(out, "{}", json!({ "disks": disks }))?;
        return Ok(());
    }
    for spec in found {
        line(&spec, out)?;
    }
    Ok(())
}

fn line(spec: &Spec, out: &mut dyn Write) -> Outcome {
    let size = Size::from_blocks(spec.capacity_blocks()).to_string();
    writeln!(out, "{:<13} {size:>9} {:>6} rpm  {}", spec.name, spec.rpm, spec.summary)?;
    Ok(())
}

fn facts(spec: &Spec) -> Value {
    let furthest = spec.cylinders - 1;
    let seek_ms = |distance: u32| spec.seek.ns(distance, spec.cylinders) as f64 / 1e6;
    json!({
        "name": spec.name,
        "summary": spec.summary,
        "capacity_blocks": spec.capacity_blocks(),
        "capacity_bytes": Size::from_blocks(spec.capacity_blocks()).bytes(),
        "rpm": spec.rpm,
        "revolution_ms": 60_000.0 / spec.rpm,
        "heads": spec.heads,
        "cylinders": spec.cylinders,
        "overhead_ms": spec.overhead_ms,
        "head_switch_ms": spec.head_switch_ms,
        "seek_ms": {
            "one_cylinder": seek_ms(1.min(furthest)),
            "third_of_stroke": seek_ms(furthest / 3),
            "full_stroke": seek_ms(furthest),
        },
    })
}
