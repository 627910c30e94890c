//! FFS in virtual time: programs over layouts on a simulated disk.

use bytes::Bytes;
use seekless_disk::{Disk, specs};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::{FormatOptions, MountOptions as VolumeMount};
use seekless_engine::node::Node;
use seekless_engine::units::{MILLIS, Time};
use seekless_formats::ffs::{self, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::call::{Answer, Credentials, Handle, Ino, New, ROOT, Reply, Request};
use seekless_lab::files::driver::{FilesDriver, Next, Program};
use seekless_layouts::Kind;

/// Bytes of an append.
const APPEND: usize = 5000;

/// Makes a file and appends to it, each append durable before the next.
struct Writer {
    user: usize,
    appends: u32,
    file: Option<(Ino, Handle)>,
    is_written: bool,
}

impl Program for Writer {
    fn next(&mut self, reply: Option<Reply>, _now: Time) -> Next {
        if let Some(Answer::Object(attr, Some(handle))) =
            reply.map(|reply| reply.result.expect("it works"))
        {
            self.file = Some((attr.ino, handle));
        }
        let request = match self.file {
            None => {
                let name = Bytes::from(format!("user{}", self.user));
                Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: true }
            }
            Some((_, handle)) if self.appends == 0 => {
                if !std::mem::take(&mut self.is_written) {
                    return Next::End;
                }
                Request::Release { handle }
            }
            Some((ino, _)) if self.is_written => {
                (self.is_written, self.appends) = (self.appends == 1, self.appends - 1);
                Request::Fsync { ino, data_only: false }
            }
            Some((_, handle)) => {
                self.is_written = true;
                let data = Bytes::from(vec![self.appends as u8; APPEND]);
                Request::Write { handle, at: 0, data, append: true }
            }
        };
        Next::Call(Credentials::default(), request)
    }
}

fn node(kind: Kind) -> Node {
    let spec = specs::find("st19101").expect("built in");
    let mut cells = Cells::new(spec.capacity_blocks()).with_labels();
    let options = FormatOptions::new(kind, 2000, 1);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).expect("fits");
    let (layer, _, _) =
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &VolumeMount::default())
            .expect("just formatted");
    let medium: Box<dyn Medium> = Box::new(cells);
    Node::new(layer, vec![Box::new(Disk::new(&spec, medium).expect("fits"))], 1)
}

/// Virtual time that two users need on this layout.
fn run(kind: Kind) -> Time {
    let mut driver = FilesDriver::mount(node(kind), |disk: &mut NodeDisk<'_>| {
        mkfs(disk, &MkfsOptions::default())?;
        ffs::mount(disk, &MountOptions::default())
    })
    .expect("fits");
    let start = driver.now();
    let writer = |user| Writer { user, appends: 20, file: None, is_written: false };
    let (mut a, mut b) = (writer(0), writer(1));
    let mut replies = 0;
    driver
        .run(&mut [&mut a, &mut b], |answered| {
            assert!(answered.submitted <= answered.answered);
            replies += 1;
        })
        .expect("it comes to its end");
    assert_eq!(replies, 2 * (20 * 2 + 2));
    let elapsed = driver.now() - start;
    let mut now = driver.now() + 3_600_000 * MILLIS;
    let mut node = driver.unmount().expect("nothing fails");
    let findings = check(&mut NodeDisk::new(&mut node, &mut now)).expect("readable");
    assert!(findings.is_clean(), "{findings:?}");
    elapsed
}

#[test]
fn durable_appends_cost_less_where_blocks_go_near_the_head() {
    let (in_place, vlog) = (run(Kind::INPLACE), run(Kind::VLOG));
    assert!(in_place > 40 * MILLIS, "{in_place} ns: the disk turns");
    assert!(vlog < in_place, "{vlog} ns on vlog, {in_place} ns in place");
}

#[test]
fn a_run_is_a_function_of_its_programs() {
    assert_eq!(run(Kind::LFS), run(Kind::LFS));
}
