//! Specifications that come with the program.

use crate::spec::Spec;

/// A specification that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Name on the command line.
    pub name: &'static str,
    /// The file. Its comments give the source of its numbers: beside each number, or at the head of
    /// the file or of a table for all of those below.
    pub text: &'static str,
}

/// All of them.
pub fn builtin() -> &'static [Builtin] {
    &[
        Builtin { name: "hp97560", text: include_str!("../specs/hp97560.toml") },
        Builtin { name: "hp97560-full", text: include_str!("../specs/hp97560-full.toml") },
        Builtin { name: "st19101", text: include_str!("../specs/st19101.toml") },
        Builtin { name: "desktop7200", text: include_str!("../specs/desktop7200.toml") },
        Builtin { name: "desktop7200-bare", text: include_str!("../specs/desktop7200-bare.toml") },
        Builtin { name: "rz26", text: include_str!("../specs/rz26.toml") },
        Builtin { name: "hp-c2490a", text: include_str!("../specs/hp-c2490a.toml") },
        Builtin { name: "barracuda", text: include_str!("../specs/barracuda.toml") },
        Builtin { name: "cheetah9lp", text: include_str!("../specs/cheetah9lp.toml") },
        Builtin { name: "atlas10k", text: include_str!("../specs/atlas10k.toml") },
        Builtin { name: "cheetah-x15-36lp", text: include_str!("../specs/cheetah-x15-36lp.toml") },
        Builtin { name: "hylog-2003", text: include_str!("../specs/hylog-2003.toml") },
        Builtin { name: "hylog-2008", text: include_str!("../specs/hylog-2008.toml") },
        Builtin { name: "cmr-20tb", text: include_str!("../specs/cmr-20tb.toml") },
        Builtin { name: "dm-smr-8tb", text: include_str!("../specs/dm-smr-8tb.toml") },
        Builtin { name: "hm-smr-15tb", text: include_str!("../specs/hm-smr-15tb.toml") },
    ]
}

/// The specification of that name, if there is one.
pub fn find(name: &str) -> Option<Spec> {
    let found = builtin().iter().find(|builtin| builtin.name == name)?;
    Some(Spec::parse(found.text).expect("a test parses every built-in specification"))
}
