//! The image for containers: its digests, and a container that runs it.

use super::{Outcome, lack};
use crate::dist::{Release, found};
use crate::run::{capture, run};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn image(release: &Release, out: &Path) -> Result<Outcome> {
    let dir = release.scratch("image")?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--directory").arg(&dir).arg("--file");
    run(tar.arg(found(out, ".oci.tar")?))?;
    let index = json_of(&dir.join("index.json"))?;
    let manifest = json_of(&blob(&dir, &index["manifests"][0])?)?;
    let config = json_of(&blob(&dir, &manifest["config"])?)?;
    let layer = blob(&dir, &manifest["layers"][0])?;
    if let Some(why) = lack(true, &["runc"])? {
        return Ok(Outcome::Skipped(why));
    }
    let bundle = release.scratch("bundle")?;
    let rootfs = bundle.join("rootfs");
    std::fs::create_dir(&rootfs)?;
    let mut tar = Command::new("tar");
    run(tar
        .arg("--extract")
        .arg("--gzip")
        .arg("--directory")
        .arg(&rootfs)
        .arg("--file")
        .arg(layer))?;
    let version = runs(&bundle, &config["config"], &["--version"])?;
    ensure!(version.contains(&release.version), "the program of the image is {version}");
    let sim = ["sim", "--layout", "vlog", "--disk", "st19101", "--requests", "200"];
    runs(&bundle, &config["config"], &sim)?;
    Ok(Outcome::Passed("run by runc".to_owned()))
}

/// Runs the entry point with arguments, and gives its output.
fn runs(bundle: &Path, config: &Value, arguments: &[&str]) -> Result<String> {
    let path = bundle.join("config.json");
    // A new one each time: `spec` refuses to replace a file.
    let _ = std::fs::remove_file(&path);
    run(Command::new("runc").arg("spec").current_dir(bundle))?;
    let mut spec = json_of(&path)?;
    let mut words = config["Entrypoint"].as_array().context("an entry point")?.clone();
    words.extend(arguments.iter().map(|word| json!(word)));
    spec["process"]["args"] = words.into();
    spec["process"]["env"] = config["Env"].clone();
    spec["process"]["terminal"] = json!(false);
    spec["process"]["user"] = json!({ "uid": 65534, "gid": 65534 });
    std::fs::write(&path, serde_json::to_vec(&spec)?)?;
    let name = format!("seekless-dist-{}", std::process::id());
    capture(Command::new("runc").arg("run").arg("--bundle").arg(bundle).arg(name))
}

/// The file of a blob, whose content must have the digest and the size that name it.
fn blob(dir: &Path, described: &Value) -> Result<PathBuf> {
    let digest = described["digest"].as_str().context("a digest")?;
    let hex = digest.strip_prefix("sha256:").context("a SHA-256")?;
    let path = dir.join("blobs/sha256").join(hex);
    let line = capture(Command::new("sha256sum").arg(&path))?;
    ensure!(line.starts_with(hex), "{} has the digest {line}", path.display());
    ensure!(described["size"] == path.metadata()?.len(), "{} has another size", path.display());
    Ok(path)
}

fn json_of(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
}
