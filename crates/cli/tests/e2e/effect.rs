//! Options without an effect on the layout are refused, and nothing is changed or served.

use crate::harness::{run, seekless, succeed, temp_dir};
use std::fs;

#[test]
fn options_without_effect_are_refused() {
    let dir = temp_dir();
    let name = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (plain, socket) = (name("plain.img"), name("socket"));
    succeed(seekless().args(["create", &plain, "--layout", "vlog", "--size", "8M"]));
    let (one, other) = (name("one.img"), name("other.img"));
    let make = ["--raid", "1", "--layout", "lfs", "--size", "8M"];
    succeed(seekless().args(["create", &one, &other]).args(make));
    let before = [&plain, &one, &other].map(|path| fs::read(path).expect("read"));
    let disk = ["--disk", "desktop7200"];
    let serve: [(&[&str], &[&str], &str); 8] = [
        (&[&plain], &["--sort", disk[0], disk[1]], "--sort: the layout vlog"),
        (&[&plain], &["--cache", "write-back"], "--cache: the layout vlog"),
        (&[&plain], &["--direct", disk[0], disk[1]], "--direct"),
        (&[&one, &other], &["--past-unreadable"], "--past-unreadable: the layout lfs"),
        // Even if the value is the default.
        (&[&one, &other], &["--report", "immediate"], "--report: the layout lfs"),
        (
            &["--memory", "8M", "--layout", "loge"],
            &["--bypass", "off"],
            "--bypass: the layout loge",
        ),
        (&["--raw", &plain], &["--past-unreadable"], "--past-unreadable: there is no layout"),
        (
            &["--memory", "8M", "--layout", "loge"],
            &["--fill-percent", "75", disk[0], disk[1]],
            "--fill-percent: the layout loge",
        ),
    ];
    for (what, more, part) in serve {
        let serve = ["serve", "--socket", &socket];
        let ended = run(seekless().args(serve).args(what).args(more));
        assert_eq!(ended.code(), 2, "{more:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{more:?}: {}", ended.err);
        assert!(ended.err.contains("hint: leave"), "{more:?}: {}", ended.err);
    }
    let after = [&plain, &one, &other].map(|path| fs::read(path).expect("read"));
    assert!(before == after, "an image was changed");
}

#[test]
fn a_comparison_takes_what_one_of_its_layouts_has_a_use_for() {
    let sim = ["sim", "--disk", "st19101", "--requests", "100", "--utilisation", "0.5"];
    let sort = ["--sort", "--fill-percent", "75"];
    succeed(seekless().args(sim).args(["--layout", "inplace,vlog,loge"]).args(sort));
    let ended = run(seekless().args(sim).args(["--layout", "inplace,vlog"]).args(sort));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains("--sort: none of the layouts inplace, vlog"), "{}", ended.err);
    // A buffer in NVRAM takes the options of a disk caching disk.
    let buffered = ["--layout", "lfs", "--nvram", "1M", "--bypass", "off"];
    succeed(seekless().args(sim).args(buffered));
}
