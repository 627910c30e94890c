//! A disk that crashes on demand, under whatever is served.

use super::backing::{self, Backing};
use super::{
    CrashOptions, MountMessages, Mounted, RAW, ServeError, ServeOptions, Source, log_mount,
    mount_options, open_raw,
};
use crate::crash::disk::Hub;
use crate::crash::memory::Memory;
use crate::crash::store::Store;
use crate::device::medium::FileMedium;
use crate::driver::Power;
use crate::image;
use seekless_engine::disk::{Disk as _, MediumDisk};
use seekless_engine::layer::Layer;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::superblock::Superblock;
use seekless_fs::block::plain::Plain;
use std::io;
use std::time::Instant;

/// Mounts what is served over a disk that can crash.
pub(super) fn mount(options: &ServeOptions, crash: &CrashOptions) -> Result<Mounted, ServeError> {
    if options.log.is_some() {
        return Err(ServeError::LogApart);
    }
    let (store, files) = store(options)?;
    let mut hub = Hub::new(store);
    hub.arm(&crash.faults)?;
    let is_raw = matches!(options.source, Source::Raw(_));
    let mount = MountOptions { volatile: true, ..mount_options(options) };
    let messages = options.messages;
    let again = move |hub: &mut Hub| again(hub, is_raw, &mount, messages);
    let (layer, superblock) = again(&mut hub)?;
    let node = Node::new(layer, vec![hub.device()], 1);
    let remount = Box::new(move |hub: &mut Hub| again(hub).map(|mounted| mounted.0));
    let power = Some(Power { hub, remount, on_cut: crash.on_cut });
    let images = match &options.source {
        Source::Image(path) | Source::Raw(path) => vec![Some(path.clone())],
        Source::Array { .. } | Source::Memory { .. } => Vec::new(),
    };
    let mounted = match superblock {
        Some(superblock) => Mounted::of_layout(node, &superblock),
        None => Mounted::new(node, RAW.to_owned()),
    };
    Ok(Mounted { files, images, power, ..mounted })
}

/// Mounts what the disk holds.
fn again(
    hub: &mut Hub,
    is_raw: bool,
    options: &MountOptions<'_>,
    messages: MountMessages,
) -> Result<(Box<dyn Layer>, Option<Superblock>), LayoutError> {
    if is_raw {
        return Ok((Box::new(Plain::new(hub.blocks())), None));
    }
    let started = Instant::now();
    let (layer, superblock, report) = seekless_layouts::mount(hub, options)?;
    log_mount(&report, started.elapsed(), messages);
    Ok((layer, Some(superblock)))
}

/// Where the bytes are, and the handles that keep files locked.
fn store(options: &ServeOptions) -> Result<(Store, Vec<Backing>), ServeError> {
    let image = match &options.source {
        Source::Memory { kind, blocks } => {
            let mut medium = Memory::new(kind.device_blocks(*blocks));
            let id = image::fresh_id().map_err(io::Error::from)?;
            let format = FormatOptions::new(*kind, *blocks, id);
            seekless_layouts::format(&mut MediumDisk(&mut medium), &format)?;
            return Ok((Store::Memory(medium), Vec::new()));
        }
        Source::Image(path) => image::open(path, options.read_only)?,
        Source::Raw(path) => open_raw(path, options.read_only)?,
        Source::Array { .. } => return Err(ServeError::ManyDisks),
    };
    if image.headers().is_some() {
        return Err(ServeError::NoHeaders(image.path().to_owned()));
    }
    // Every handle shares the lock.
    let medium = FileMedium::new(image.handle()?, image.blocks());
    Ok((Store::Medium(Box::new(medium)), backing::of(&image, None)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::file::IoMode;
    use crate::server::{Listen, MountMessages};
    use seekless_engine::options::Options;
    use seekless_layouts::Kind;

    /// Else it would be left out in silence.
    #[test]
    fn a_log_apart_does_not_crash_on_demand() {
        let options = ServeOptions {
            source: Source::Memory { kind: Kind::INPLACE, blocks: 16 },
            listen: Listen::Unix("/nonexistent/socket".into()),
            log: Some("/nonexistent/log".into()),
            disk: None,
            log_disk: None,
            messages: MountMessages::Line,
            read_only: false,
            io: IoMode::default(),
            direct: false,
            options: Options::default(),
            most_connections: 1,
            crash: Some(CrashOptions::default()),
            metrics: None,
            rebuild_rate: None,
        };
        let refused = crate::server::mount(&options);
        assert!(matches!(refused, Err(ServeError::LogApart)));
    }
}
