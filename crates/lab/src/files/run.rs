//! Runs a program over a new file system on a simulated volume, phase by phase.

use super::driver::{Answered, FilesDriver, FilesError, Program};
use super::host::Host;
use super::lock::lock;
use super::programs::{Amount, Phase, ProgramKind, burst, phases};
use super::report::{Counters, FilesReport, JournalReport, PhaseReport, Tally, Times, Updates};
use super::steps::Step;
use super::trust::trust;
use super::user::{User, Wrong};
use super::watch::{self, Seen, SharedSeen};
use crate::sim::{Clock, DEFAULT_UTILISATION, Target};
use seekless_engine::account::Account;
use seekless_engine::layout::LayoutError;
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES, Time};
use seekless_formats::{FsError, MkfsOptions, MountOptions};
use seekless_formats::{Kind as FsKind, MountedFs};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::call::{Request, Timestamp};
use seekless_fs::core::nvram::Nvram;
use seekless_fs::core::{CoreOptions, Ordering};
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::JournalOptions;
use seekless_fs::system::FileSystem;
use seekless_layouts::Kind;
use std::collections::BTreeMap;

/// Users at most.
pub const MOST_USERS: usize = 1024;
/// Bytes of a log on a disk of its own, unless given or the disk is smaller: the partition of
/// paper 001 (claim J4).
const JOURNAL_BYTES: u64 = 128 << 20;

/// Bytes of a cache that survives a power cut at least: one operation fits.
const LEAST_NVRAM: u64 = 1 << 20;
/// The policies under which a cache may survive a power cut: those that wait for nothing.
pub const NVRAM_POLICIES: [PolicyKind; 3] =
    [PolicyKind::Async, PolicyKind::Atomic, PolicyKind::Unit];

/// What to run.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The program.
    pub program: ProgramKind,
    /// How much of it.
    pub amount: Amount,
    /// The layout below.
    pub kind: Kind,
    /// Options of the layout.
    pub options: Options,
    /// The format of the file system.
    pub file_system: FsKind,
    /// Sizes of the file system.
    pub mkfs: MkfsOptions,
    /// Blocks of the volume; [`DEFAULT_UTILISATION`] of the disk if not given, so that layouts can
    /// be compared.
    pub volume_blocks: Option<u64>,
    /// Bytes of cache; those of the host if not given.
    pub cache_bytes: Option<u64>,
    /// The CPU.
    pub host: Host,
    /// How the file system orders its writes.
    pub policy: PolicyKind,
    /// How it writes its log, if the policy keeps one. Its size is one of those in `mkfs`.
    pub journal: JournalOptions,
    /// The file system takes a completed write for durable, on volumes that report early, too. The
    /// papers of 1999 did so; a power cut then breaks what was promised.
    pub trust_completions: bool,
    /// The volume carries out one request at a time, as the driver of paper 002 does.
    pub one_lock: bool,
    /// As [`CoreOptions::data_order`].
    pub data_order: bool,
    /// As [`CoreOptions::write_age_s`].
    pub write_age_s: u64,
    /// As [`CoreOptions::nvram`].
    pub nvram: Option<Nvram>,
}

impl FilesOptions {
    /// One user runs this program on a file system of default sizes, with no host.
    pub fn new(program: ProgramKind, kind: Kind) -> FilesOptions {
        FilesOptions {
            program,
            amount: Amount::default(),
            kind,
            options: Options::default(),
            file_system: FsKind::default(),
            mkfs: MkfsOptions::default(),
            volume_blocks: None,
            cache_bytes: None,
            host: Host::none(),
            policy: PolicyKind::default(),
            journal: JournalOptions::default(),
            trust_completions: false,
            one_lock: false,
            data_order: true,
            write_age_s: CoreOptions::default().write_age_s,
            nvram: None,
        }
    }
}

impl FilesOptions {
    /// Bytes of cached blocks. What survives a power cut is not less than its size, with room for
    /// what is read.
    pub(super) fn cache_bytes(&self) -> u64 {
        let asked = self.cache_bytes.unwrap_or(self.host.cache_bytes);
        asked.max(self.nvram.map_or(0, |nvram| 2 * nvram.bytes))
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum FilesRunError {
    /// The number of users is out of range.
    #[error("{0} users: must be 1 to {MOST_USERS}")]
    Users(usize),
    /// The program does nothing.
    #[error("{0} does nothing: it needs at least one file or update")]
    Nothing(ProgramKind),
    /// The policy orders writes, or answers when they are on the disk.
    #[error(
        "a cache that survives a power cut: the policy {0} waits for the disk; choose async, \
         atomic or unit"
    )]
    Nvram(&'static str),
    /// It holds too little.
    #[error("a cache of {0} bytes that survives a power cut: it must hold {LEAST_NVRAM}")]
    SmallNvram(u64),
    /// The file system lies on a drive of its own, or cannot lie on one.
    #[error("{title} does not lie on a volume of {kind}")]
    Objects {
        /// The layout.
        kind: Kind,
        /// The name of the format.
        title: &'static str,
    },
    /// The volume does not fit.
    #[error(
        "a volume of {asked} blocks of 4 KiB: layout {kind} has room for {largest} on this disk"
    )]
    TooLarge {
        /// Blocks asked for.
        asked: u64,
        /// The layout.
        kind: Kind,
        /// Blocks that fit.
        largest: u64,
    },
    /// The log does not fit its disk.
    #[error("a log of {asked} bytes: the disk {disk} has {largest}; make it smaller")]
    JournalTooLarge {
        /// Bytes asked for.
        asked: u64,
        /// The disk of the log.
        disk: String,
        /// Bytes of the disk.
        largest: u64,
    },
    /// The volume cannot be made.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The file system cannot be made or mounted.
    #[error(transparent)]
    FileSystem(#[from] FsError),
    /// The run came to a halt.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A call failed, or a read brought wrong bytes.
    #[error("{phase}: {wrong}")]
    Wrong {
        /// In which phase.
        phase: String,
        /// What.
        wrong: Wrong,
    },
    /// The file system is not as it should be afterwards.
    #[error("after the run the file system does not check clean: {0}; this is a defect")]
    Unclean(String),
}

/// Runs a program and reports.
///
/// # Errors
/// Options out of range, and every defect that the run finds.
pub fn run(
    target: &Target,
    options: &FilesOptions,
    clock: Clock,
) -> Result<FilesReport, FilesRunError> {
    let users = options.amount.users;
    if users == 0 || users > MOST_USERS {
        return Err(FilesRunError::Users(users));
    }
    if options.kind.has_objects() != options.file_system.needs_objects {
        let (kind, title) = (options.kind, options.file_system.title);
        return Err(FilesRunError::Objects { kind, title });
    }
    if options.nvram.is_some() && !NVRAM_POLICIES.contains(&options.policy) {
        return Err(FilesRunError::Nvram(options.policy.name()));
    }
    if let Some(nvram) = options.nvram.filter(|one| one.bytes < LEAST_NVRAM) {
        return Err(FilesRunError::SmallNvram(nvram.bytes));
    }
    let mut world = World::new(target, options)?;
    let mut reports = Vec::new();
    for phase in phases(options.program, &options.amount) {
        reports.extend(world.phase(phase, clock)?);
    }
    if reports.iter().all(PhaseReport::is_empty) {
        return Err(FilesRunError::Nothing(options.program));
    }
    let log_bytes = world.log_bytes();
    world.check()?;
    let mut report = FilesReport::new(target, options, reports);
    report.journal = log_bytes.map(|bytes| JournalReport::new(options.journal, bytes));
    Ok(report)
}

/// A mounted file system with its users.
struct World<'o> {
    options: &'o FilesOptions,
    /// Taken while it is mounted anew.
    driver: Option<FilesDriver<Box<dyn MountedFs>>>,
    users: Vec<User>,
    volume_bytes: u64,
    /// The requests to the volume.
    seen: SharedSeen,
}

/// Counters before a phase.
struct Before {
    now: Time,
    host: u64,
    cpu: Time,
    accounts: Vec<Account>,
    stats: Vec<(&'static str, f64)>,
    volume: Vec<(&'static str, f64)>,
}

impl<'o> World<'o> {
    fn new(target: &Target, options: &'o FilesOptions) -> Result<World<'o>, FilesRunError> {
        if target.is_zoned(options.kind) {
            return Err(target.refuse_in_order("a file system").into());
        }
        let largest = target.largest_volume(options.kind);
        let share = (target.blocks() as f64 * DEFAULT_UTILISATION) as u64;
        let blocks = match options.kind.has_objects() {
            // As many addresses as go with all of the disk.
            true => largest,
            false => options.volume_blocks.unwrap_or(share.min(largest)),
        };
        if blocks > largest {
            let kind = options.kind;
            return Err(FilesRunError::TooLarge { asked: blocks, kind, largest });
        }
        let seed = options.amount.seed;
        let node = target.volume(options.kind, &options.options, blocks, seed)?;
        let mkfs = mkfs_options(options);
        let (node, mkfs) = match options.policy.has_own_log_volume() {
            true => join_journal(target, node, mkfs)?,
            false => (node, mkfs),
        };
        let node = if options.one_lock { lock(node) } else { node };
        let node = if options.trust_completions { trust(node) } else { node };
        let volume_bytes = node.layer.blocks().saturating_mul(BLOCK_BYTES as u64);
        let (node, seen) = watch::watch(node);
        let mount = mount_options(options, &node, 0);
        let driver = FilesDriver::mount(node, |disk: &mut NodeDisk<'_>| {
            (options.file_system.mkfs)(disk, &mkfs)?;
            (options.file_system.mount)(disk, &mount)
        })?;
        let users = (0..options.amount.users).map(User::new).collect();
        let mut world = World { options, driver: Some(driver), users, volume_bytes, seen };
        world.driver().set_host(&options.host.under(options.policy));
        Ok(world)
    }

    fn driver(&mut self) -> &mut FilesDriver<Box<dyn MountedFs>> {
        self.driver.as_mut().expect("it is mounted between phases")
    }

    /// Bytes of the log, if there is one, and of the volume.
    fn log_bytes(&mut self) -> Option<(u64, u64)> {
        let stats = self.driver().fs().stats();
        let sectors = stats.into_iter().find(|(name, _)| *name == "log sectors")?.1;
        Some((sectors as u64 * SECTOR_BYTES as u64, self.volume_bytes))
    }

    fn unmount(&mut self) -> Result<(Node, Time), FilesRunError> {
        let driver = self.driver.take().expect("it is mounted between phases");
        Ok(driver.unmount_at()?)
    }

    /// Unmounts and mounts, so that the cache is empty.
    fn remount(&mut self) -> Result<(), FilesRunError> {
        let (node, now) = self.unmount()?;
        let mount = mount_options(self.options, &node, now);
        let mounted = FilesDriver::mount_at(node, now, |disk: &mut NodeDisk<'_>| {
            (self.options.file_system.mount)(disk, &mount)
        });
        let mut driver = mounted?;
        driver.set_host(&self.options.host.under(self.options.policy));
        self.driver = Some(driver);
        self.users.iter_mut().for_each(User::remounted);
        Ok(())
    }

    /// Runs a phase; the report if it is measured.
    fn phase(&mut self, phase: Phase, clock: Clock) -> Result<Option<PhaseReport>, FilesRunError> {
        if phase.cold {
            self.remount()?;
        }
        for (user, steps) in self.users.iter_mut().zip(phase.users) {
            user.begin(steps);
        }
        let before = self.before(clock);
        watch::take(&self.seen);
        let updates = (phase.name == burst::NAME).then(Updates::default);
        let mut tally = Tally { updates, ..Tally::default() };
        self.play(&phase.name, &mut tally)?;
        let answered = self.driver().now() - before.now;
        let busy = self.driver().cpu_ns() - before.cpu;
        let seen = watch::take(&self.seen);
        self.settle()?;
        let settled = self.driver().now() - before.now;
        if !phase.measured {
            return Ok(None);
        }
        tally.bytes = self.users.iter().map(|user| user.bytes).sum();
        tally.steps = self.users.iter().map(|user| user.done).sum();
        let times = Times { answered, settled, busy, ..Times::default() };
        Ok(Some(self.report(phase.name, &tally, &seen, times, &before, clock)))
    }

    fn before(&mut self, clock: Clock) -> Before {
        let driver = self.driver();
        Before {
            now: driver.now(),
            host: clock(),
            cpu: driver.cpu_ns(),
            accounts: driver.node().accounts(),
            stats: driver.fs().stats(),
            volume: driver.node().stats(),
        }
    }

    /// Runs the programs of all users to their ends.
    fn play(&mut self, phase: &str, tally: &mut Tally) -> Result<(), FilesRunError> {
        let driver = self.driver.as_mut().expect("it is mounted between phases");
        let mut users: Vec<&mut dyn Program> = Vec::new();
        users.extend(self.users.iter_mut().map(|user| user as &mut dyn Program));
        driver.run(&mut users, |answered| tally.record(&answered))?;
        match self.users.iter_mut().find_map(|user| user.wrong.take()) {
            Some(wrong) => Err(FilesRunError::Wrong { phase: phase.to_owned(), wrong }),
            None => Ok(()),
        }
    }

    /// Lets everything reach the disk.
    fn settle(&mut self) -> Result<(), FilesRunError> {
        let mut one = User::new(0);
        one.begin(Box::new([Step::Sync].into_iter()));
        self.driver().run(&mut [&mut one], |_| {})?;
        match one.wrong {
            Some(wrong) => Err(FilesRunError::Wrong { phase: "sync".to_owned(), wrong }),
            None => Ok(()),
        }
    }

    fn report(
        &mut self,
        name: String,
        tally: &Tally,
        seen: &Seen,
        times: Times,
        before: &Before,
        clock: Clock,
    ) -> PhaseReport {
        let driver = self.driver.as_ref().expect("it is mounted between phases");
        let accounts = driver.node().accounts().into_iter().zip(&before.accounts);
        let accounts: Vec<Account> = accounts.map(|(after, before)| after.since(before)).collect();
        let counters = Counters {
            file_system: grown(&driver.fs().stats(), &before.stats),
            volume: grown(&driver.node().stats(), &before.volume),
        };
        let host_ns = clock().saturating_sub(before.host);
        let cpu_ns = driver.cpu_ns() - before.cpu;
        let times = Times { cpu_ns, host_ns, ..times };
        PhaseReport::new(name, tally, times, &accounts, counters, seen.report())
    }

    /// Unmounts and checks.
    fn check(&mut self) -> Result<(), FilesRunError> {
        let (mut node, mut now) = self.unmount()?;
        let findings = (self.options.file_system.check)(&mut NodeDisk::new(&mut node, &mut now))?;
        match findings.is_clean() {
            true => Ok(()),
            false => {
                Err(FilesRunError::Unclean(format!("{findings:?}").chars().take(300).collect()))
            }
        }
    }
}

/// By how much each counter has grown. Counters of one name, as of several disks, add up.
fn grown(
    after: &[(&'static str, f64)],
    before: &[(&'static str, f64)],
) -> BTreeMap<&'static str, f64> {
    let mut grown = BTreeMap::new();
    for (after, before) in after.iter().zip(before) {
        *grown.entry(after.0).or_default() += after.1 - before.1;
    }
    grown
}

/// What is made: the log of a policy that keeps one belongs to the file system.
fn mkfs_options(options: &FilesOptions) -> MkfsOptions {
    let mkfs = MkfsOptions { id: u128::from(options.amount.seed), ..options.mkfs.clone() };
    match options.policy.is_logged() {
        true => MkfsOptions { policy: options.policy, ..mkfs },
        false => mkfs,
    }
}

/// The volume with the disk of the log behind it.
fn join_journal(
    target: &Target,
    node: Node,
    mkfs: MkfsOptions,
) -> Result<(Node, MkfsOptions), FilesRunError> {
    let (each, disk) = (BLOCK_BYTES as u64, target.journal());
    let largest = disk.blocks() * each;
    let asked = mkfs.journal.unwrap_or(JOURNAL_BYTES.min(largest));
    if asked > largest {
        let disk = disk.name().to_owned();
        return Err(FilesRunError::JournalTooLarge { asked, disk, largest });
    }
    let blocks = asked.div_ceil(each);
    let node = target.join_journal(node, blocks, mkfs.id as u64);
    // The log takes all of the second device that whole fragments fill.
    Ok((node, MkfsOptions { journal: None, journal_blocks: Some(blocks), ..mkfs }))
}

fn mount_options(options: &FilesOptions, node: &Node, now: Time) -> MountOptions {
    let cache_bytes = options.cache_bytes();
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::MAX);
    let ordering = ordering(options, node);
    let FilesOptions { data_order, write_age_s, nvram, .. } = *options;
    let core = CoreOptions {
        cache_bytes,
        ordering,
        data_order,
        write_age_s,
        nvram,
        ..CoreOptions::default()
    };
    MountOptions { core, policy: options.policy, journal: options.journal, now }
}

/// When the volume has ordered a write before later ones, by what its layout promises and whether
/// its disks report early. Two devices have no order between them.
fn ordering(options: &FilesOptions, node: &Node) -> Ordering {
    let promises = options.kind.promises();
    let volatile = node.devices.iter().any(|device| device.volatile());
    let ordered = promises.ordered && !options.policy.has_own_log_volume();
    let keeps = ordered || (promises.immediate && !volatile);
    match (options.trust_completions, keeps) {
        (true, _) => Ordering::Trusted,
        (false, true) => Ordering::Completion,
        (false, false) => Ordering::Flush,
    }
}

impl Tally {
    fn record(&mut self, answered: &Answered<'_>) {
        let latencies = self.kinds.entry(kind(answered.request)).or_default();
        latencies.record_ns(answered.answered - answered.submitted);
        let Some(updates) = &mut self.updates else { return };
        match answered.request {
            Request::Write { .. } => updates.wrote(answered.user, answered.submitted),
            Request::Fsync { .. } => updates.synced(answered.user, answered.answered),
            _ => {}
        }
    }
}

/// The kind of a call in reports.
fn kind(request: &Request) -> &'static str {
    match request {
        Request::Lookup { .. } => "lookup",
        Request::Make { what: seekless_fs::call::New::Directory, .. } => "mkdir",
        Request::Make { .. } => "create",
        Request::Open { .. } => "open",
        Request::Release { .. } => "close",
        Request::Read { .. } => "read",
        Request::Write { .. } => "write",
        Request::List { .. } => "list",
        Request::Unlink { .. } => "unlink",
        Request::RmDir { .. } => "rmdir",
        Request::Fsync { .. } => "fsync",
        Request::Sync => "sync",
        _ => "other",
    }
}
