//! The volume that a command reads: in one image, or on the members of an array.

use crate::clock::host_clock;
use crate::failure::{Failure, Outcome};
use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::{AssembleOptions, Assembled};
use seekless_engine::disk::Disk;
use seekless_engine::layout::{CheckReport, Clock, LayoutError, MountReport};
use seekless_engine::size::Size;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::dcd;
use seekless_serve::image::array::{Members, is_member, open_members};
use seekless_serve::image::{self, Image, blame_half};
use serde_json::{Value, json};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// An open volume; nothing is written to it.
#[derive(Debug)]
pub enum Volume {
    /// In one image.
    Plain(Box<Image>),
    /// On an array.
    Array(Box<Members>, Box<Assembled>),
    /// An origin and its log.
    Attached(Box<[Image; 2]>),
}

impl Volume {
    /// Opens an image, or all members of an array, or an origin with its log.
    ///
    /// # Errors
    /// If they are unusable, in use, or do not belong together.
    pub fn open(paths: &[PathBuf], degraded: bool, log: Option<&Path>) -> Result<Volume, Failure> {
        if let Some(log) = log {
            let [origin] = paths else {
                let problem = "--log: only a volume in one image has a log of its own";
                return Err(Failure::usage(problem).hint("give the origin alone, and its log"));
            };
            let images = [image::open(origin, true)?, image::open_log(log, true)?];
            return Ok(Volume::Attached(Box::new(images)));
        }
        if let [path] = paths
            && !degraded
            && !is_member(path)?
        {
            return Ok(Volume::Plain(Box::new(image::open(path, true)?)));
        }
        let mut members = open_members(paths, true, degraded)?;
        let options = AssembleOptions {
            volatile: true,
            read_only: true,
            degraded,
            ..AssembleOptions::default()
        };
        let found = members.assemble(&options)?;
        Ok(Volume::Array(Box::new(members), Box::new(found)))
    }

    /// Calls `with` on the volume as one disk; for an origin and its log, on both as one.
    ///
    /// # Errors
    /// Those of the call, with the name of the image.
    pub fn with<T>(
        &mut self,
        act: impl FnOnce(&mut dyn Disk) -> Result<T, LayoutError>,
    ) -> Result<T, Failure> {
        match self {
            Volume::Plain(image) => act(image.as_mut()).map_err(|error| image.blame(error).into()),
            Volume::Array(members, found) => {
                let result = members.with_disk(found, act);
                result.map_err(|error| members.blame(error).into())
            }
            Volume::Attached(images) => {
                let [origin, _] = images.as_mut();
                act(origin).map_err(|error| origin.blame(error).into())
            }
        }
    }

    /// Reads and verifies everything.
    ///
    /// # Errors
    /// If it cannot be mounted.
    pub fn check(&mut self) -> Result<(Superblock, MountReport, CheckReport), Failure> {
        let clock: Option<Clock> = Some(host_clock);
        let Volume::Attached(images) = self else {
            return self.with(|disk| seekless_layouts::check_timed(disk, clock));
        };
        let [origin, log] = images.as_mut();
        let found = dcd::check(origin, log, clock);
        found.map_err(|error| blame_half(origin, Some(log), error).into())
    }

    /// Prints the on-disk structures.
    ///
    /// # Errors
    /// If they cannot be read, or the output cannot be written.
    pub fn dump(&mut self, out: &mut dyn fmt::Write) -> Result<(), Failure> {
        let Volume::Attached(images) = self else {
            return self.with(|disk| seekless_layouts::dump(disk, out));
        };
        let [origin, log] = images.as_mut();
        let dumped = dcd::dump(origin, log, out);
        dumped.map_err(|error| blame_half(origin, Some(log), error).into())
    }

    /// The redundancy that an array lacks, as text, and the missing members.
    pub fn lacking(&self) -> (Option<String>, Vec<usize>) {
        let Volume::Array(_, found) = self else { return (None, Vec::new()) };
        let missing = found.missing.clone();
        let each = |member: &usize| format!("member {member} is missing or out of date");
        let mut all: Vec<String> = missing.iter().map(each).collect();
        all.extend(found.array.rebuilding().map(|(done, stripes)| {
            format!("a member is being filled ({} % done)", 100 * done / stripes.max(1))
        }));
        ((!all.is_empty()).then(|| all.join(", ")), missing)
    }

    /// Prints what the array is, if it is one.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn print_array(&self, out: &mut dyn Write) -> Outcome {
        match self {
            Volume::Plain(_) | Volume::Attached(_) => Ok(()),
            Volume::Array(members, _) => print_members(members, out),
        }
    }
}

/// Prints what the members know of their array.
///
/// # Errors
/// If the output cannot be written.
pub fn print_members(members: &Members, out: &mut dyn Write) -> Outcome {
    let superblock = members.superblock();
    let geometry = &superblock.geometry;
    writeln!(out, "array    {} of {} members", geometry.level, geometry.members)?;
    writeln!(out, "chunk    {}", Size::from_blocks(u64::from(geometry.chunk)))?;
    writeln!(out, "array id {:032x}, {} events", superblock.id, superblock.events)?;
    writeln!(out, "ended    {}", if superblock.clean { "cleanly" } else { "not cleanly" })?;
    for (member, image) in members.images().iter().enumerate() {
        let place = image.as_ref().map(|image| image.path().display().to_string());
        let place = place.unwrap_or_else(|| "not given".to_owned());
        writeln!(out, "member {member} {place}: {}", state(superblock, member))?;
    }
    for (path, reason) in members.rejected() {
        writeln!(out, "left out {}: {reason}", path.display())?;
    }
    Ok(())
}

fn state(superblock: &MemberSuperblock, member: usize) -> String {
    match superblock.states[member] {
        MemberState::Active => "active".to_owned(),
        MemberState::Out => "out of date".to_owned(),
        MemberState::Rebuilding => {
            let share = 100 * superblock.rebuilt / superblock.geometry.stripes;
            format!("rebuilding, {share} % done")
        }
    }
}

/// The same as JSON.
pub fn json_members(members: &Members) -> Value {
    let superblock = members.superblock();
    let member = |(member, image): (usize, &Option<Image>)| {
        json!({
            "image": image.as_ref().map(|image| image.path()),
            "state": state(superblock, member),
        })
    };
    json!({
        "level": superblock.geometry.level.number(),
        "stripe_bytes": u64::from(superblock.geometry.chunk) * BLOCK_BYTES as u64,
        "id": format!("{:032x}", superblock.id),
        "events": superblock.events,
        "clean": superblock.clean,
        "members": members.images().iter().enumerate().map(member).collect::<Vec<_>>(),
    })
}

/// The steps of a mount as JSON.
pub fn json_recovery(mount: &MountReport) -> Value {
    let steps = mount.steps.iter().map(|step| {
        let mut fields = json!({
            "name": step.name,
            "blocks_read": step.blocks_read,
            "ns": step.elapsed_ns,
        });
        if let Some((count, unit)) = step.items {
            fields["items"] = json!(count);
            fields["unit"] = json!(unit);
        }
        fields
    });
    steps.collect()
}

/// The images as JSON: one name, or a list of them.
pub fn json_names(paths: &[PathBuf]) -> Value {
    match paths {
        [path] => json!(path),
        paths => json!(paths),
    }
}
