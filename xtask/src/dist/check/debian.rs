//! The Debian package in a root of its own: checked, installed, run, purged.

use super::{Outcome, lack};
use crate::dist::{Release, found};
use crate::run::{capture, installed, run};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

/// A page of each command would be too few, stubs of `help` too many.
const PAGES: std::ops::RangeInclusive<usize> = 40..=70;
/// The worst score of the unit that `systemd-analyze security` may give: 0 is safe, 100 is not.
const EXPOSURE: &str = "--threshold=15";

pub(super) fn package(release: &Release, out: &Path) -> Result<Outcome> {
    let package = found(out, ".deb")?;
    let mut missing = Vec::new();
    if installed("lintian") {
        let mut lintian = Command::new("lintian");
        lintian.args(["--fail-on", "error", "--allow-root", "--tag-display-limit", "0"]);
        run(lintian.arg(&package))?;
    } else {
        missing.push("lintian is not installed");
    }
    let fields = capture(Command::new("dpkg-deb").arg("--field").arg(&package))?;
    ensure!(!fields.contains("Depends:"), "the package depends on others");
    if let Some(why) = lack(true, &["dpkg", "chroot"])? {
        return Ok(Outcome::Skipped(why));
    }
    let dir = release.scratch("debian-root")?;
    installs(release, &dir, &package)?;
    if installed("systemd-analyze") {
        units(&dir)?;
    } else {
        missing.push("systemd-analyze is not installed");
    }
    purges(&dir)?;
    let missing: String = missing.iter().map(|one| format!("; {one}")).collect();
    Ok(Outcome::Passed(format!("installed, run and purged{missing}")))
}

/// The package manager with a database of its own.
fn dpkg(dir: &Path) -> Command {
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", dir.display())).arg("--log=/dev/null");
    dpkg.stdout(std::process::Stdio::null());
    dpkg
}

fn installs(release: &Release, dir: &Path, package: &Path) -> Result<()> {
    for part in ["info", "updates"] {
        std::fs::create_dir_all(dir.join("var/lib/dpkg").join(part))?;
    }
    std::fs::write(dir.join("var/lib/dpkg/status"), "")?;
    run(dpkg(dir).arg("--install").arg(package))?;
    let mut program = Command::new("chroot");
    program
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin")
        .arg("--userspec=65534:65534")
        .arg(dir)
        .arg("/usr/bin/seekless");
    let version = capture(program.arg("--version"))?;
    ensure!(version.contains(&release.version), "the program of the package is {version}");
    let pages = std::fs::read_dir(dir.join("usr/share/man/man1"))?.count();
    ensure!(PAGES.contains(&pages), "the package has {pages} manual pages");
    Ok(())
}

/// The units are right, and the service can do little harm.
fn units(dir: &Path) -> Result<()> {
    let units = dir.join("usr/lib/systemd/system");
    let mut verify = Command::new("systemd-analyze");
    verify.env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
    // Documentation is looked up by `man`, which knows the pages of this machine.
    verify.args(["verify", "--man=no", "seekless@a.service", "seekless@a.socket"]);
    let said = String::from_utf8_lossy(&crate::run::output(&mut verify)?.stderr).into_owned();
    // The program is in the root, not in the machine.
    let faults = |line: &&str| line.contains("seekless@") && !line.contains("is not executable");
    ensure!(said.lines().find(faults).is_none(), "{said}");
    let mut security = Command::new("systemd-analyze");
    security.arg(format!("--root={}", dir.display())).args(["security", "--offline=true"]);
    capture(security.args([EXPOSURE, "seekless@.service"])).map(drop)
}

fn purges(dir: &Path) -> Result<()> {
    run(dpkg(dir).args(["--purge", "seekless"]))?;
    ensure!(!dir.join("usr/bin/seekless").exists(), "a purge leaves the program");
    let mut left = Command::new("find");
    let left = capture(left.arg(dir).args(["-name", "*seekless*", "-print"]))?;
    ensure!(left.is_empty(), "a purge leaves {left}");
    Ok(())
}
