//! `seekless prove --fs`: which file system is proved, and under which policy; or the log.

use crate::failure::Failure;
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::DataMode;
use seekless_prove::files::{Ace, CLASSES, FileSubject, Rules};
use seekless_prove::{LogSubject, Order};

/// What `--fs` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A file system.
    Kind(Kind),
    /// The log as a service.
    Log,
}

/// The name of the log.
pub const LOG: &str = "log";

/// What has this name.
pub fn named(name: &str) -> Result<Named, String> {
    match name {
        LOG => Ok(Named::Log),
        name => name.parse().map(Named::Kind).map_err(|error| format!("{error}, {LOG}")),
    }
}

/// The policy that has this name.
pub fn policy(name: &str) -> Result<PolicyKind, String> {
    let known = PolicyKind::ALL.map(PolicyKind::name);
    let found = PolicyKind::ALL.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// The promises that have this name.
pub fn rules(name: &str) -> Result<Rules, String> {
    let all = Rules::all();
    let found = all.iter().copied().find(|rules| rules.name() == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.into_iter().map(Rules::name).collect();
        format!("known are {}", known.join(", "))
    })
}

/// The class of devices that has this name.
pub fn device(name: &str) -> Result<Order, String> {
    let known = CLASSES.map(|(name, _)| name);
    let found = CLASSES.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, order)| order).ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// The mode of data that has this name.
pub fn data(name: &str) -> Result<DataMode, String> {
    let found = DataMode::ALL.into_iter().find(|mode| mode.name() == name);
    found.ok_or_else(|| format!("known are {}", DataMode::ALL.map(DataMode::name).join(", ")))
}

/// What the file system is held to, and what it runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variant {
    /// When content is written. Only a policy with a log takes it.
    pub data: Option<DataMode>,
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
/// A format or a policy without a contract, or a mode of data that has no effect on it.
pub fn subject(kind: Kind, policy: PolicyKind, variant: Variant) -> Result<FileSubject, Failure> {
    let Variant { data, judge, ace, trusts, device } = variant;
    if !kind.is_proved {
        let problem = format!("--fs {}: the prover cannot judge {} yet", kind.name, kind.title);
        let known = Kind::all().filter(|kind| kind.is_proved).map(|kind| kind.name);
        let hint = format!("it knows {}", known.collect::<Vec<_>>().join(", "));
        return Err(Failure::usage(problem).hint(hint));
    }
    if !kind.policies.contains(&policy) {
        let has: Vec<&str> = kind.policies.iter().map(|policy| policy.name()).collect();
        let problem = format!("--policy {}: {} has no such policy", policy.name(), kind.title);
        return Err(Failure::usage(problem).hint(format!("it has {}", has.join(", "))));
    }
    if data.is_some() && !policy.is_logged() {
        let problem = format!("--data: the policy {} keeps no log", policy.name());
        let logged = PolicyKind::LOGGED.map(PolicyKind::name).join(" or ");
        let hint = format!("leave it out, or choose --policy {logged}");
        return Err(Failure::usage(problem).hint(hint));
    }
    let Some(subject) = FileSubject::with_data(kind, policy, data.unwrap_or_default()) else {
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

/// The log.
///
/// # Errors
/// An option that is about file systems.
pub fn log(policy: PolicyKind, variant: Variant) -> Result<LogSubject, Failure> {
    let Variant { data, judge, ace, trusts, device } = variant;
    let is_about_files = policy != PolicyKind::default()
        || trusts
        || data.is_some()
        || judge.is_some()
        || ace.is_some();
    if is_about_files {
        let problem = "--fs log: only --device goes with it of the options for file systems";
        return Err(Failure::usage(problem).hint("leave out the others"));
    }
    Ok(LogSubject { device })
}
