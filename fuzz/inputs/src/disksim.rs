//! Any text as parameter files of DiskSim: read, mapped, and the result read again.

use seekless_disk::Spec;
use seekless_disk::disksim::Import;

/// The fuzz target.
pub fn run(input: &[u8]) {
    // A zero byte ends a file; each sourced file is the next one, with any name.
    let mut files = input.split(|&byte| byte == 0);
    let mut fetch = |_: &str, _: &str| match files.next() {
        Some(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        None => Err("no more files".to_owned()),
    };
    let Ok(import) = Import::read("main", &mut fetch) else { return };
    let first = import.disks().first().map(|name| (*name).to_owned());
    let Ok(imported) = import.disk(first.as_deref(), &mut fetch) else { return };
    let again = Spec::parse(&imported.toml).expect("what is imported is a specification");
    assert_eq!(again, imported.spec, "{}", imported.toml);
}
