//! Names that are part of the program, as a report that was kept has them.
//!
//! A report names policies, layouts and counters by text of the program. One that is read back has
//! text of its own, which stays until the program ends.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A name. The derived reader takes a reference for one into what it reads.
pub type Name = &'static str;

fn intern(name: String) -> Name {
    String::leak(name)
}

/// A name.
///
/// # Errors
/// If there is none.
pub(crate) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
    String::deserialize(from).map(intern)
}

/// Values by name.
///
/// # Errors
/// If there are none.
pub(crate) fn map<'de, D, T>(from: D) -> Result<BTreeMap<&'static str, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let map = BTreeMap::<String, T>::deserialize(from)?;
    Ok(map.into_iter().map(|(name, value)| (intern(name), value)).collect())
}
