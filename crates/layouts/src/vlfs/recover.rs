//! Making and mounting a volume: as the virtual log does, then a walk from the map blocks down to
//! all blocks in use.

use super::checkpoint::{self, Areas, Checkpoint};
use super::format::{
    Content, Entry, Header, TAIL_BLOCK, Tail, changed, decode_content, encode_map, written,
};
use super::walk::{Block, Visitor, Walk};
use super::{Vlfs, slices};
use crate::eager::Mapped as _;
use crate::eager::freemap::FreeMap;
use crate::vlog::format::{Pointer, decode_header};
use crate::vlog::recover::find::{Form, Found, Recovered, Recovery, damaged};
use crate::vlog::recover::settle::Rebuilt;
use seekless_engine::checksum::Sums;
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions, MountPath, RecoverySteps};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::superblock::Superblock;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free blocks that a mount by a checkpoint has at least: one for the marker of the recovery, and
/// some to go on with.
const LEAST_FREE: usize = 16;

/// What its map blocks say.
const FORM: Form = Form {
    slices: |blocks| u64::from(slices(blocks)),
    pool_start: |volume| Areas::of(volume).end(),
    written: |header, block| {
        let verifies = !planted(PlantedBug::FreshUnverified);
        let content = decode_content(block).filter(|_| verifies);
        content.map_or_else(Vec::new, |content| written(header, &content))
    },
    // What those lead to is added by a mount that walks.
    named: |_, block, places| {
        let Some(content) = decode_content(block) else { return };
        let groups = content.groups.iter().filter(|entry| entry.is_mapped());
        places.extend(groups.map(|entry| entry.place()));
        let changes = content.patches.objects().flat_map(|(_, changes)| changes.placed.values());
        places.extend(changes.map(|one| one.entry.place()));
        places.extend(content.patches.fresh().map(|entry| entry.place()));
    },
};

/// The slice that a map block is of.
fn decode_slice(block: &[u8]) -> u32 {
    seekless_engine::superblock::le32(block, 64)
}

/// Collects places.
struct Named<'p>(&'p mut Vec<u32>);

impl Visitor for Named<'_> {
    fn meets(&mut self, _: Block, entry: Entry) -> bool {
        self.0.push(entry.place());
        true
    }

    /// Superseded, and written over meanwhile: it leads nowhere now.
    fn lacks(&mut self, _: Block, _: Entry, _: IoError) {}
}

/// Writes an empty volume.
pub(super) fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    let superblock = Superblock {
        layout: options.layout,
        version: Superblock::version_for(Sums::NEWEST, 1),
        id: options.id,
        blocks: options.blocks,
        device_blocks: disk.blocks(),
        options: 0,
        sums: Sums::NEWEST,
    };
    let root = Pointer { place: 0, sequence: 0 };
    let tail = Tail { root, next_sequence: 1, commit: 0, digest: 0, live: 0 };
    disk.write(TAIL_BLOCK, Data::bytes(tail.encode(options.identity())))?;
    superblock.write(disk)?;
    disk.flush_for(Edge::VlogFormatFlush)?;
    Ok(())
}

/// Recovers the state of a volume.
pub(super) fn mount(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Vlfs, LayoutError> {
    let mut recovery = Recovery::new(disk, superblock, steps, &FORM);
    let (path, mut found) = recovery.find()?;
    let mut volume = Vlfs::empty(superblock, options);
    load(&mut recovery, &mut volume, &found)?;
    if !begin_at_checkpoint(&mut recovery, &mut volume, &found, path)? {
        match take_all(&mut recovery, &mut volume) {
            // What can be read is served; a check names the rest.
            Err(LayoutError::Damaged(_)) if options.read_only => {}
            other => other?,
        }
        keep_below(&mut recovery, &mut found);
    }
    recovery.look_past_unreadable(&volume.free, options)?;
    if !options.read_only {
        recovery.settle(&mut volume, &found, path)?;
        volume.punching.look(recovery.disk, &volume.free);
    }
    if let Some(compacting) = &mut volume.compacting {
        compacting.extend(volume.objects.slices().map(|(slice, _)| slice));
    }
    Ok(volume)
}

/// Blocks that another recovery might need: adds what map blocks lead to through inodes.
fn keep_below(recovery: &mut Recovery<'_>, found: &mut Recovered) {
    let (id, sums) = (recovery.superblock.identity(), recovery.superblock.sums);
    for one in &found.needed {
        let Some((_, data)) = recovery.read_map(one.place) else { continue };
        let block = data.to_bytes();
        let Some(content) = decode_content(&block) else { continue };
        let (slice, visitor) = (decode_slice(&block), Named(&mut found.keep));
        Walk { disk: &mut *recovery.disk, id, sums, visitor }.slice(slice, &content);
    }
    found.keep.sort_unstable();
    found.keep.dedup();
}

/// Takes what is in use by the newest checkpoint and by the map blocks since. False if there is
/// none that tells it for certain.
fn begin_at_checkpoint(
    recovery: &mut Recovery<'_>,
    volume: &mut Vlfs,
    found: &Recovered,
    path: MountPath,
) -> Result<bool, LayoutError> {
    if !volume.checkpoints.are_wanted() {
        return Ok(false);
    }
    recovery.steps.begin("read checkpoint");
    let volume_is = recovery.superblock;
    let checkpoints = checkpoint::find(recovery.disk, &volume_is)?;
    recovery.steps.read(checkpoints.blocks_read);
    volume.checkpoints.found(&checkpoints);
    let Some((_, one)) = checkpoints.newest else { return Ok(false) };
    let since = match path {
        MountPath::Tail => (one.head.commit == found.last).then(Vec::new),
        _ => log_since(one.head.commit, found),
    };
    let is_of_this = agrees(&one, volume, found) && recovery.unreadable.is_empty();
    let Some(since) = since.filter(|_| is_of_this) else { return Ok(false) };
    let Some(written) = written_since(recovery, &since) else { return Ok(false) };
    let erased = erased(recovery, found);
    let used = one.used().chain(written).filter(|place| !erased.contains(place));
    let (pool, mut free) = (volume.pool(), volume.free.clone());
    for place in used.filter(|&place| pool.contains(&u64::from(place))) {
        take_once(&mut free, place);
    }
    let named = volume.objects.slices().flat_map(|(_, own)| named_by(&own.content));
    for place in named.chain(since.iter().map(|one| one.place)) {
        if !pool.contains(&u64::from(place)) {
            return damaged(format!("the map names block {place}, which is outside the pool"));
        }
        take_once(&mut free, place);
    }
    // What counts as used and is not may be all the space that is left.
    let is_spare = |place: &u64| free.is_free(*place) && !is_kept(found, *place as u32);
    if pool.clone().filter(is_spare).take(LEAST_FREE).count() < LEAST_FREE {
        return Ok(false);
    }
    volume.free = free;
    recovery.steps.count(since.len() as u64, "map blocks since");
    let is_live = |one: &&Found| volume.tree.node(one.header.slice).place == one.place;
    let kept = since.iter().filter(|one| !is_live(one)).map(|one| one.place).collect();
    volume.checkpoints.begins_at(&one, found.last, kept, since.len() as u64);
    if path != MountPath::Tail || !one.head.is_exact {
        volume.reclaim.want();
    }
    Ok(true)
}

/// True if a checkpoint is of the state that was found, or of one before it.
fn agrees(one: &Checkpoint, volume: &Vlfs, found: &Recovered) -> bool {
    let head = one.head;
    let is_before =
        head.commit.max(head.durable) <= found.last && head.next_sequence <= found.next_sequence;
    let same = |(slice, pointer): (u32, &Pointer)| {
        let node = volume.tree.node(slice);
        node.sequence >= head.next_sequence
            || (node.place, node.sequence) == (pointer.place, pointer.sequence)
    };
    is_before && (0..).zip(&one.map).all(same)
}

/// All map blocks of the commits after this one; `None` if one is missing.
fn log_since(commit: u64, found: &Recovered) -> Option<Vec<Found>> {
    let mut commits: BTreeMap<u64, Vec<&Found>> = BTreeMap::new();
    for one in found.holding.iter().filter(|one| one.header.commit > commit) {
        commits.entry(one.header.commit).or_default().push(one);
    }
    let (mut at, mut all) = (found.last, Vec::new());
    while at > commit {
        let members = commits.get(&at)?;
        let indices: BTreeSet<u32> = members.iter().map(|one| one.header.index).collect();
        let header = &members.first()?.header;
        if indices.len() as u32 != header.members {
            return None;
        }
        all.extend(members.iter().copied().cloned());
        at = header.previous;
    }
    (at == commit).then_some(all)
}

/// What these map blocks say that their commits have written; `None` if one cannot be read.
fn written_since(recovery: &mut Recovery<'_>, since: &[Found]) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for one in since {
        let (found, data) = recovery.read_map(one.place)?;
        let content = decode_content(&data.to_bytes())?;
        let mapped = written(&found.header, &content).into_iter().filter(|one| one.is_mapped());
        all.extend(mapped.map(|entry| entry.place()));
    }
    Some(all)
}

/// What a map block names itself.
fn named_by(content: &Content) -> impl Iterator<Item = u32> + '_ {
    let groups = content.groups.iter().copied();
    let changes = content.patches.objects().flat_map(|(_, changes)| changes.placed.values());
    let all = groups.chain(changes.map(|one| one.entry));
    all.filter(|entry| entry.is_mapped()).map(|entry| entry.place())
}

/// Map blocks that this recovery erases: torn ones, and those of commits that do not hold. They lie
/// at places that were free when they were written. A checkpoint, or a commit since, may have used
/// such a place before that. Were it taken for that reason, the map block would stay, and the next
/// recovery would call its commit durable.
fn erased(recovery: &Recovery<'_>, found: &Recovered) -> BTreeSet<u32> {
    recovery.torn.iter().chain(&found.doomed).copied().collect()
}

/// True if another recovery might need the block.
fn is_kept(found: &Recovered, place: u32) -> bool {
    found.keep.binary_search(&place).is_ok()
}

fn take_once(free: &mut FreeMap, place: u32) {
    if free.is_free(place.into()) {
        free.take(place);
    }
}

/// Fills objects, free map and tree.
fn load(
    recovery: &mut Recovery<'_>,
    volume: &mut Vlfs,
    found: &Recovered,
) -> Result<(), LayoutError> {
    recovery.steps.begin("load map");
    recovery.steps.count(found.live.len() as u64, "map blocks");
    let pool = recovery.pool();
    volume.free.release_all(pool.start as u32..pool.end as u32);
    let mut slice_at = BTreeMap::new();
    for one in &found.live {
        let Header { slice, sequence, .. } = one.header;
        take(&mut volume.free, &pool, one.place)?;
        volume.tree.restore(slice, Pointer { place: one.place, sequence });
        slice_at.insert(sequence, slice);
        let (id, wanted) = (recovery.superblock.identity(), (slice, sequence));
        let is_it = |_, block: &Piece| {
            let header = decode_header(id, one.place, &block.to_bytes());
            header.is_some_and(|it| (it.slice, it.sequence) == wanted)
        };
        recovery.steps.read(1);
        let data = recovery.disk.read_whole(u64::from(one.place), 1, &is_it);
        let Some(data) = data.ok().filter(|data| is_it(0, &data.block(0))) else {
            return damaged(format!("map block {} changed while it was read", one.place));
        };
        let Some(mut content) = decode_content(&data.to_bytes()) else {
            return damaged(format!("map block {} says what makes no sense", one.place));
        };
        content.patches.settle();
        let own = volume.objects.slice_mut(slice);
        own.content = content;
        if own.content.patches.objects().any(|(_, changes)| !changes.cuts.is_empty()) {
            volume.cut.insert(slice);
        }
    }
    for one in &found.live {
        let known = |pointer: &Pointer| Some((*slice_at.get(&pointer.sequence)?, pointer.sequence));
        let children: SmallVec<[(u32, u64); 4]> =
            one.header.pointers.iter().filter_map(known).collect();
        volume.tree.restore_children(one.header.slice, &children);
    }
    if let Some(root) = found.live.iter().max_by_key(|one| one.header.sequence) {
        volume.tree.restore_root(root.header.slice);
    }
    volume.next_sequence = found.next_sequence;
    volume.commits.restore(found.last, found.next_commit, found.last);
    volume.last_with_changes = found.last;
    Ok(())
}

fn take(free: &mut FreeMap, pool: &Range<u64>, place: u32) -> Result<(), LayoutError> {
    if !pool.contains(&u64::from(place)) {
        return damaged(format!("the map names block {place}, which is outside the pool"));
    }
    if !free.is_free(u64::from(place)) {
        return damaged(format!("block {place} is named twice"));
    }
    free.take(place);
    Ok(())
}

/// Takes every block that an object has.
fn take_all(recovery: &mut Recovery<'_>, volume: &mut Vlfs) -> Result<(), LayoutError> {
    recovery.steps.begin("walk inodes");
    let pool = recovery.pool();
    let visitor = Taken { free: &mut volume.free, pool, blocks: 0, read: 0, wrong: None };
    let (id, sums) = (recovery.superblock.identity(), recovery.superblock.sums);
    let mut walk = Walk { disk: &mut *recovery.disk, id, sums, visitor };
    for (slice, own) in volume.objects.slices() {
        walk.slice(slice, &own.content);
    }
    let Taken { blocks, read, wrong, .. } = walk.visitor;
    recovery.steps.read(read);
    recovery.steps.count(blocks, "blocks in use");
    wrong.map_or(Ok(()), Err)
}

/// Takes blocks out of those that are free.
struct Taken<'f> {
    free: &'f mut FreeMap,
    pool: Range<u64>,
    blocks: u64,
    /// Of them, those that are read as they lead to others.
    read: u64,
    wrong: Option<LayoutError>,
}

impl Visitor for Taken<'_> {
    fn meets(&mut self, block: Block, entry: Entry) -> bool {
        self.blocks += 1;
        match take(self.free, &self.pool, entry.place()) {
            Ok(()) => {
                self.read += u64::from(!matches!(block, Block::Content(_)));
                true
            }
            Err(error) => {
                self.wrong.get_or_insert(error);
                false
            }
        }
    }

    fn lacks(&mut self, block: Block, entry: Entry, error: IoError) {
        let what = match block {
            Block::Inodes(_) => "inodes".to_owned(),
            Block::Indirect(object) | Block::Content(object) => format!("object {object}"),
        };
        let place = entry.place();
        let error = format!("block {place}, which leads to the blocks of {what}: {error}");
        self.wrong.get_or_insert(LayoutError::Damaged(error));
    }
}

impl Rebuilt for Vlfs {
    fn free(&self) -> &FreeMap {
        &self.free
    }

    fn root(&self) -> Option<u32> {
        self.tree.root()
    }

    fn write_marker(
        &mut self,
        disk: &mut dyn Disk,
        found: &Recovered,
        root: u32,
        place: u32,
    ) -> Result<(), LayoutError> {
        self.free.take(place);
        let mut sequence = self.next_sequence;
        let mut appended = SmallVec::new();
        self.tree.append(root, &mut sequence, || place, &mut appended);
        assert_eq!(appended.len(), 1, "a root's pointers fit again");
        self.next_sequence = sequence;
        let header = Header {
            sequence: appended[0].sequence,
            commit: found.next_commit,
            previous: found.last,
            durable: found.last,
            digest: self.tree.digest(),
            slice: root,
            index: 0,
            members: 1,
            changed: changed(0, true),
            pointers: self.tree.pointers(root),
        };
        let content = &self.objects.slice_mut(root).content;
        let block = encode_map(self.id, place, &header, content);
        disk.write(u64::from(place), Data::bytes(block))?;
        match self.checkpoints.keeps() {
            true => self.checkpoints.keep(found.next_commit, appended[0].superseded),
            false => self.free.release(appended[0].superseded),
        }
        self.checkpoints.map_written(1);
        self.commits.restore(found.next_commit, found.next_commit + 1, found.next_commit);
        self.last_with_changes = found.next_commit;
        Ok(())
    }
}
