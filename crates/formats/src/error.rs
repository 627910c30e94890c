//! Why a file system cannot be made, read or repaired.

use seekless_engine::io::IoError;
use seekless_fs::log::LogError;
use seekless_fs::policy::PolicyKind;

/// Why a file system cannot be made, read or repaired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FsError {
    /// An option of `mkfs` is not possible.
    #[error("{0}")]
    BadOption(String),
    /// The volume is too small.
    #[error("the volume has {found} bytes, the file system needs {needed}; use a larger volume")]
    TooSmall {
        /// Bytes needed at least.
        needed: u64,
        /// Bytes there are.
        found: u64,
    },
    /// There is no superblock.
    #[error("no file system was found: no superblock; `seekless mkfs` makes one")]
    Foreign,
    /// A Minix of a version that this program does not read.
    #[error(
        "this is Minix, version {version} with names of {names} bytes; this program knows version \
         3, and the kernel mounts the others with `mount -t minix`"
    )]
    OlderMinix {
        /// 1 or 2.
        version: u8,
        /// Bytes of a name.
        names: u8,
    },
    /// A Minix with a superblock or a root that contradicts itself.
    #[error("this Minix file system cannot be used: {0}")]
    BadMinix(String),
    /// A VLFS without a root directory.
    #[error("this VLFS cannot be used: {0}; run `seekless fsck`")]
    BadVlfs(String),
    /// The format has no such policy.
    #[error(
        "{kind} cannot be mounted with --policy {}; it has {}",
        .asked.name(),
        .has.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ")
    )]
    NoPolicy {
        /// The name of the format.
        kind: &'static str,
        /// The policy of the mount that is refused.
        asked: PolicyKind,
        /// Those that it has.
        has: &'static [PolicyKind],
    },
    /// The superblock was written by a newer version.
    #[error("the file system has version {0}, this program knows version 1; use a newer one")]
    Newer(u32),
    /// The file system uses features that this program does not know.
    #[error(
        "the file system has unknown incompatible features ({}); use a newer program",
        bits(*.0)
    )]
    UnknownFeatures(u32),
    /// The file system uses features with which this program may only read it.
    #[error(
        "the file system has unknown features ({}) with which this program may only read it; use \
         --read-only or a newer program",
        bits(*.0)
    )]
    ReadOnlyFeatures(u32),
    /// The superblock has a valid seal and impossible fields, and no copy of it is whole.
    #[error("the superblock is damaged: {0}, and it has no whole copy; restore the volume")]
    Damaged(String),
    /// The first superblock is damaged; a copy of it is whole.
    #[error(
        "the superblock is damaged, a copy at byte {at} is whole; run `seekless fsck --repair` or \
         mount --read-only"
    )]
    LostSuperblock {
        /// Where the copy lies.
        at: u64,
    },
    /// The volume is shorter than the file system.
    #[error("the volume has {found} bytes, the file system {needed}; restore the missing part")]
    Truncated {
        /// Bytes of the file system.
        needed: u64,
        /// Bytes of the volume.
        found: u64,
    },
    /// Content and names that share a block must be written apart, and the volume cannot.
    #[error(
        "a log and fragments of {fragment} bytes need a volume that writes single sectors; mount \
         with --policy soft, or make the file system with `seekless mkfs --fragment 4096`"
    )]
    NeedsParts {
        /// Bytes of a fragment.
        fragment: u32,
    },
    /// The policy writes transactions of the volume, which has none, or too small ones.
    #[error(
        "--policy {} writes up to {needed} blocks in one transaction, and the volume {}; use a \
         {}volume of `--layout lld`, `vlog` or `loge`, or another policy",
        .policy.name(),
        match .found {
            0 => "has no transactions".to_owned(),
            found => format!("takes {found}"),
        },
        if *.found == 0 { "" } else { "larger " }
    )]
    NeedsTransactions {
        /// The policy.
        policy: PolicyKind,
        /// Blocks of 4,096 bytes that one operation may change.
        needed: u64,
        /// Blocks that the volume changes at once.
        found: u64,
    },
    /// It was not unmounted.
    #[error("the file system was not unmounted; run `seekless fsck --repair` or mount --read-only")]
    NotClean,
    /// It was mounted with another policy and not unmounted.
    #[error(
        "the file system was mounted with --policy {} and not unmounted, so --policy {} is \
         refused; run `seekless fsck --repair` first, or {}",
        .left.name(),
        .asked.name(),
        match .left {
            PolicyKind::Async | PolicyKind::Sync => "mount --read-only".to_owned(),
            left => format!("mount with --policy {}", left.name()),
        }
    )]
    OtherPolicy {
        /// The policy that it was mounted with.
        left: PolicyKind,
        /// The policy of the mount that is refused.
        asked: PolicyKind,
    },
    /// The log lies on another volume, which is missing or too short.
    #[error(
        "the log of the file system lies on another volume and has {needed} bytes, of which \
         {found} are there; name that volume with --journal"
    )]
    LogMissing {
        /// Bytes of the log.
        needed: u64,
        /// Bytes where it should be.
        found: u64,
    },
    /// The other volume does not hold the log of this file system.
    #[error(
        "the volume of the log is not that of this file system: {0}; name the right one with \
         --journal"
    )]
    LogForeign(LogError),
    /// Groups of the log are lost.
    #[error("{0}; run `seekless fsck --repair` or mount --read-only")]
    LogDamaged(LogError),
    /// What is to be freed has no place in the log beside what it holds.
    #[error(
        "the log has no space for what is still to be freed; run `seekless fsck --repair`, which \
         needs none"
    )]
    LogFull,
    /// The file system has no log of the kind that the policy needs.
    #[error(
        "the file system has no log {}, so --policy {} is refused; `seekless fs switch-policy` \
         gives it one",
        match .0 {
            policy if policy.has_own_log_volume() => "on another volume",
            policy if policy.has_log_in_file() => "in a file",
            _ => "on its volume",
        },
        .0.name()
    )]
    NoLog(PolicyKind),
    /// A switch of the policy wants a file system in which a check finds nothing.
    #[error("the check has {findings} findings; run `seekless fsck --repair` first")]
    NotSound {
        /// How many.
        findings: u64,
    },
    /// There is no place for a log.
    #[error(
        "a log of {needed} bytes needs as much free space in one piece, and the largest piece has \
         {found}; remove files, or ask for less with --journal-size"
    )]
    NoLogRoom {
        /// Bytes of the log that was asked for, or of the smallest.
        needed: u64,
        /// Bytes of the largest log that would fit.
        found: u64,
    },
    /// An earlier mount met damage.
    #[error(
        "an earlier mount met damage of the file system; run `seekless fsck --repair` or mount \
         --read-only"
    )]
    MetDamage,
    /// Findings remain after as many rounds as repair makes.
    #[error("repair left {left} findings; copy the files that can be read and make a new one")]
    NotRepaired {
        /// Findings that remain.
        left: u64,
    },
    /// The volume failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// The set bits of a word of features, by number.
fn bits(word: u32) -> String {
    let set = (0..32).filter(|bit| word >> bit & 1 == 1);
    let numbers: Vec<String> = set.map(|bit| bit.to_string()).collect();
    let noun = if numbers.len() == 1 { "bit" } else { "bits" };
    format!("{noun} {}", numbers.join(", "))
}

/// True if other blocks of the medium may still be readable.
pub(crate) fn is_damage(error: &IoError) -> bool {
    matches!(error, IoError::Media { .. } | IoError::Checksum { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_policy_has_a_remedy() {
        let error = |left| FsError::OtherPolicy { left, asked: PolicyKind::Async }.to_string();
        let sync = error(PolicyKind::Sync);
        assert!(
            sync.contains("with --policy sync and not unmounted, so --policy async is"),
            "{sync}"
        );
        assert!(sync.ends_with("`seekless fsck --repair` first, or mount --read-only"), "{sync}");
        let soft = error(PolicyKind::Soft);
        assert!(soft.ends_with("first, or mount with --policy soft"), "{soft}");
    }

    #[test]
    fn features_are_named_by_their_bits() {
        let one = FsError::UnknownFeatures(1 << 31).to_string();
        assert!(one.contains("incompatible features (bit 31); use a newer"), "{one}");
        let two = FsError::ReadOnlyFeatures(5).to_string();
        assert!(two.contains("(bits 0, 2)") && two.contains("; use --read-only"), "{two}");
    }
}
