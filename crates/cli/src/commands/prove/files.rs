//! `seekless prove --fs`: which file system is proved, and under which policy.

use crate::failure::Failure;
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::DataMode;
use seekless_prove::Order;
use seekless_prove::files::{Ace, CLASSES, FileSubject, Rules};

/// The policy that has this name.
pub fn policy(name: &str) -> Result<PolicyKind, String> {
    let known = PolicyKind::UNLOGGED.map(PolicyKind::name);
    let all = PolicyKind::UNLOGGED.into_iter().chain(PolicyKind::LOGGED);
    let found = all.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// The promises that have this name.
pub fn rules(name: &str) -> Result<Rules, String> {
    let known = Rules::ALL.map(Rules::name);
    let found = Rules::ALL.into_iter().find(|rules| rules.name() == name);
    found.ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// The class of devices that has this name.
pub fn device(name: &str) -> Result<Order, String> {
    let known = CLASSES.map(|(name, _)| name);
    let found = CLASSES.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, order)| order).ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// The mode of data that has this name.
pub fn data(name: &str) -> Result<DataMode, String> {
    let all = [DataMode::Ordered, DataMode::Writeback];
    let found = all.into_iter().find(|mode| mode.name() == name);
    found.ok_or_else(|| format!("known are {}", all.map(DataMode::name).join(", ")))
}

/// What the file system is held to, and what it runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variant {
    /// When content is written, under a policy with a log.
    pub data: DataMode,
    /// The promises of another policy.
    pub judge: Option<Rules>,
    /// Sequences of so many operations.
    pub ace: Option<u8>,
    /// Completed writes are taken for durable.
    pub trusts: bool,
    /// Devices of one class.
    pub device: Option<Order>,
}

/// The subject.
///
/// # Errors
/// A policy that the prover has no contract for.
pub fn subject(kind: Kind, policy: PolicyKind, variant: Variant) -> Result<FileSubject, Failure> {
    let Variant { data, judge, ace, trusts, device } = variant;
    let Some(subject) = FileSubject::with_data(kind, policy, data) else {
        let problem = format!("--policy {}: the prover has no contract for it", policy.name());
        return Err(Failure::usage(problem));
    };
    Ok(FileSubject {
        rules: judge.unwrap_or(subject.rules),
        ace: ace.and_then(Ace::of_length),
        trusts,
        device,
        ..subject
    })
}
