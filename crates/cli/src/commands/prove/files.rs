//! `seekless prove --fs`: which file system is proved, and under which policy.

use super::Saved;
use crate::failure::Failure;
use seekless_fs::policy::PolicyKind;
use seekless_prove::ProveOptions;
use seekless_prove::files::{Ace, FileSubject, Rules};

/// The policy that has this name.
pub fn policy(name: &str) -> Result<PolicyKind, String> {
    let known = PolicyKind::ALL.map(PolicyKind::name);
    let found = PolicyKind::ALL.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// The promises that have this name.
pub fn rules(name: &str) -> Result<Rules, String> {
    let all = [Rules::Async, Rules::Sync, Rules::Soft];
    let known = all.map(Rules::name);
    let found = all.into_iter().find(|rules| rules.name() == name);
    found.ok_or_else(|| format!("known are {}", known.join(", ")))
}

/// The subject.
///
/// # Errors
/// A policy that the prover has no contract for.
pub fn subject(
    policy: PolicyKind,
    judge: Option<Rules>,
    ace: Option<u8>,
) -> Result<FileSubject, Failure> {
    let Some(subject) = FileSubject::of(policy) else {
        let problem = format!("--policy {}: the prover has no contract for it", policy.name());
        return Err(Failure::usage(problem));
    };
    Ok(FileSubject {
        rules: judge.unwrap_or(subject.rules),
        ace: ace.and_then(Ace::of_length),
        ..subject
    })
}

/// The subject that a violation file names; none if it names a layout.
///
/// # Errors
/// A name that is not known.
pub fn replayed(saved: &Saved) -> Result<Option<FileSubject>, String> {
    let Some(name) = &saved.policy else { return Ok(None) };
    let judge = saved.judge.as_deref().map(rules).transpose()?;
    let found = subject(policy(name)?, judge, saved.ace);
    found.map(Some).map_err(|_| format!("the policy {name} has no contract"))
}

/// A violation of a file system as a file, without the case.
pub fn saved(options: &ProveOptions<FileSubject>) -> Saved {
    let FileSubject { policy, rules, ace } = options.subject;
    Saved {
        layout: "ffs".to_owned(),
        policy: Some(policy.name().to_owned()),
        judge: (Rules::of(policy) != Some(rules)).then(|| rules.name().to_owned()),
        ace: ace.map(|ace| ace.length() as u8),
        ..Saved::default()
    }
}
