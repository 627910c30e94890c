//! What it takes to add a layout: this file is a whole one. It keeps block `b` of the volume as the
//! `b`th block from the end of the device, and works through its [`Descriptor`] alone. A layout of
//! the product has this in a folder of its own, and one line in `registry.rs`.

use seekless_engine::checksum::Sums;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Done, Io, IoError, Op};
use seekless_engine::layer::{Cx, Layer, Port, Status};
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, RecoverySteps,
};
use seekless_engine::node::Node;
use seekless_engine::options::{Choice, Options};
use seekless_engine::request_table::RequestTable;
use seekless_engine::superblock::{LayoutNumber, Superblock};
use seekless_engine::units::Time;
use seekless_layouts::Descriptor;
use std::fmt;

static LOUD: Choice<bool> = Choice::switch("loud", "`backwards` prints more");

const DESCRIPTOR: Descriptor = Descriptor {
    number: 99,
    name: "backwards",
    summary: "an example: the first block of the volume is the last one of the device",
    mount_options: &[&LOUD],
    ..Descriptor::of::<Backwards>()
};

#[derive(Debug)]
struct Backwards {
    blocks: u64,
    requests: RequestTable,
}

impl Layer for Backwards {
    fn blocks(&self) -> u64 {
        self.blocks
    }
    fn submit(&mut self, mut io: Io, cx: &mut Cx<'_>) {
        assert!(io.count <= 1, "the example takes requests of a block");
        let Some(request) = self.requests.accept_whole(&io, cx) else { return };
        io.tag = request as u64;
        if io.op != Op::Flush {
            io.at = self.blocks - io.at;
        }
        cx.send(0, io);
    }
    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        self.requests.answer_whole(done.tag as usize, done.outcome, cx);
    }
    fn pump(&mut self, _cx: &mut Cx<'_>) {
        if self.requests.must_leave_clean() {
            self.requests.end_shutdown();
        }
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.requests.ask_shutdown();
    }
    fn stopped(&self) -> bool {
        self.requests.is_shut_down()
    }
    fn failed(&self) -> Option<IoError> {
        self.requests.failed()
    }
    fn status(&self) -> &dyn Status {
        self
    }
}

impl Status for Backwards {}

impl Layout for Backwards {
    const MOST_DEVICE_BLOCKS: u64 = 1 << 40;

    fn device_blocks(logical: u64, _options: &Options) -> u64 {
        logical + 2
    }
    fn largest_volume(device: u64) -> u64 {
        device.saturating_sub(2)
    }
    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        let superblock = Superblock {
            layout: LayoutNumber(DESCRIPTOR.number),
            version: Superblock::version_for(Sums::Crc, 1),
            id: options.id,
            blocks: options.blocks,
            device_blocks: disk.blocks(),
            options: 0,
            sums: Sums::Crc,
        };
        Ok(superblock.write(disk)?)
    }
    fn mount(
        _disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        _steps: &mut RecoverySteps,
    ) -> Result<Backwards, LayoutError> {
        let requests = RequestTable::new(options.read_only);
        Ok(Backwards { blocks: superblock.blocks, requests })
    }
    fn check(&self, _disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        Ok(CheckReport::default())
    }
    fn dump(&self, _disk: &mut dyn Disk, _out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        Ok(())
    }
}

#[test]
fn a_layout_is_its_descriptor() {
    let mut cells = Cells::new(102);
    let options = FormatOptions::new(LayoutNumber(DESCRIPTOR.number), 100, 7);
    (DESCRIPTOR.check_size)(DESCRIPTOR.name, 102, &options).expect("it fits");
    (DESCRIPTOR.format)(&mut MediumDisk(&mut cells), &options).expect("formats");
    let superblock = Superblock::read(&mut MediumDisk(&mut cells), &Ok).expect("it was written");
    let mount =
        MountOptions { options: Options::default().with(&LOUD, true), ..Default::default() };
    let mut steps = RecoverySteps::new(None);
    let mounted = (DESCRIPTOR.mount)(&mut MediumDisk(&mut cells), &superblock, &mount, &mut steps);
    let mut node =
        Node::new(mounted.expect("mounts"), vec![Box::new(Ram::new(Box::new(cells)))], 1);
    let mut now = 0;
    node.run(&mut now, Io::write(0, 3, Data::stamp(1, 3, 5))).expect("writes");
    assert_eq!(node.run(&mut now, Io::read(0, 3, 1)), Ok(Data::stamp(1, 3, 5)));
    assert_eq!(node.run(&mut now, Io::read(0, 4, 1)).expect("reads").to_bytes()[..], [0; 4096]);
    node.finish(&mut now);
    assert!(DESCRIPTOR.obeys("loud") && !DESCRIPTOR.obeys("segment"));
}
