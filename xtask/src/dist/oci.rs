//! The image for containers: one layer with the program, from nothing.
//!
//! An archive of the OCI image layout, which podman, skopeo, containerd and `docker load` take.
//! Each blob is named by its SHA-256.

use super::{Release, archive, empty, tree};
use crate::run::capture;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

pub(super) fn image(release: &Release, out: &Path) -> Result<()> {
    let dir = release.scratch("oci")?;
    let blobs = dir.join("image/blobs/sha256");
    empty(&blobs)?;
    let root = root_of(release, &dir)?;
    let (plain, packed) = (dir.join("layer.tar"), dir.join("layer.tar.gz"));
    archive::tar(release, &root, ".", &plain, false)?;
    archive::tar(release, &root, ".", &packed, true)?;
    let date = date(&release.epoch)?;
    let layer = blob(&blobs, LAYER, std::fs::read(&packed)?)?;
    let config = config(&date, &format!("sha256:{}", digest(&plain)?));
    let config = blob(&blobs, CONFIG, serde_json::to_vec(&config)?)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        "annotations": annotations(release, &date),
    });
    let mut manifest = blob(&blobs, MANIFEST, serde_json::to_vec(&manifest)?)?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    std::fs::write(dir.join("image/index.json"), serde_json::to_vec(&index)?)?;
    std::fs::write(dir.join("image/oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let name = format!("{}.oci.tar", tree::name(release));
    archive::tar(release, &dir.join("image"), ".", &out.join(name), false)
}

/// The files of the image: the program, and its licences.
fn root_of(release: &Release, dir: &Path) -> Result<PathBuf> {
    let (root, from) = (dir.join("root"), tree::dir(release));
    tree::copy(&release.program, &root.join("usr/bin/seekless"))?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE", tree::NOTICES] {
        tree::copy(&from.join(name), &root.join("usr/share/doc/seekless").join(name))?;
    }
    Ok(root)
}

/// What is run, and as what.
fn config(date: &str, layer: &str) -> Value {
    json!({
        "created": date, "architecture": "amd64", "os": "linux",
        "config": { "Entrypoint": ["/usr/bin/seekless"], "Env": ["PATH=/usr/bin"] },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
    })
}

fn annotations(release: &Release, date: &str) -> Value {
    json!({
        "org.opencontainers.image.created": date,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.title": "seekless",
        "org.opencontainers.image.version": release.version,
    })
}

/// Writes a blob and describes it.
fn blob(blobs: &Path, kind: &str, bytes: Vec<u8>) -> Result<Value> {
    let (size, unnamed) = (bytes.len(), blobs.join("unnamed"));
    std::fs::write(&unnamed, bytes)?;
    let digest = digest(&unnamed)?;
    std::fs::rename(&unnamed, blobs.join(&digest))?;
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": size }))
}

fn digest(path: &Path) -> Result<String> {
    let line = capture(Command::new("sha256sum").arg(path))?;
    line.split(' ').next().map(str::to_owned).context("sha256sum printed nothing")
}

/// A time in seconds as RFC 3339 has it.
fn date(epoch: &str) -> Result<String> {
    let mut date = Command::new("date");
    let text =
        capture(date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"]).arg(format!("@{epoch}")))?;
    Ok(text.trim().to_owned())
}
