//! The table of drives whose specifications learn from a recording: import alone, calibrated, and
//! DiskSim. All are judged on the second half of a recording, and calibrated on the first.

use crate::run::capture;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A recorded drive, and DiskSim's RMS and MAE on the second half, in ms.
struct Drive {
    file: &'static str,
    title: &'static str,
    disksim: [f64; 2],
}

const DRIVES: [Drive; 7] = [
    Drive { file: "atlas_III", title: "Quantum Atlas III (1997)", disksim: [0.336, 1.683] },
    Drive { file: "atlas10k", title: "Quantum Atlas 10K (1999)", disksim: [0.268, 0.975] },
    Drive { file: "barracuda", title: "Seagate Barracuda (1997)", disksim: [0.302, 1.280] },
    Drive { file: "cheetah9LP", title: "Seagate Cheetah 9LP (1998)", disksim: [0.103, 1.068] },
    Drive { file: "hp_c2247a", title: "HP C2247A (1992)", disksim: [0.122, 0.578] },
    Drive { file: "hp_c2490a", title: "HP C2490A (1993)", disksim: [0.297, 1.121] },
    Drive { file: "dec_rz26", title: "DEC RZ26 (1991)", disksim: [0.398, 1.623] },
];

/// The table. Drives whose recordings are missing are left out.
pub(super) fn table(program: &Path, dir: &Path) -> Result<String> {
    let mut out = String::from(
        "\n### Learnt from the first half of a recording, judged on the second\n\n\
         RMS / MAE in ms; the last column is the median error of the rotational position.\n\n\
         | drive | imported | calibrated | DiskSim | gap | position off, ms |\n\
         |---|---:|---:|---:|---|---:|\n",
    );
    for drive in &DRIVES {
        if dir.join(drive.file).with_extension("parv").is_file() {
            out += &row(program, dir, drive)?;
        }
    }
    Ok(out)
}

fn row(program: &Path, dir: &Path, drive: &Drive) -> Result<String> {
    let scratch = crate::bench::Scratch::new("calibrated")?;
    let at = |name: &str| scratch.0.join(name);
    let from = dir.join(drive.file);
    let all = fs::read_to_string(from.with_extension("trace"))
        .with_context(|| format!("cannot read the recording of {}", drive.file))?;
    let lines: Vec<&str> = all.lines().collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    fs::write(at("first.trace"), first.join("\n") + "\n")?;
    fs::write(at("second.trace"), second.join("\n") + "\n")?;
    let mut import = Command::new(program);
    import.args(["disk", "import"]).arg(from.with_extension("parv"));
    capture(import.arg("--output").arg(at("imported.toml")))?;
    let mut learn = Command::new(program);
    learn.args(["disk", "calibrate", "--json", "--disk"]).arg(at("imported.toml"));
    learn.arg("--recording").arg(at("first.trace")).arg("--output").arg(at("better.toml"));
    let learnt: Value = serde_json::from_str(&capture(&mut learn)?)?;
    let gap = learnt["gap"].as_str().context("calibrate names no gap")?;
    let judge = |spec: &str| -> Result<[f64; 2]> {
        let mut judge = Command::new(program);
        judge.args(["disk", "validate", "--json", "--gap", gap, "--disk"]).arg(at(spec));
        let found: Value =
            serde_json::from_str(&capture(judge.arg("--recording").arg(at("second.trace")))?)?;
        let number = |key: &str| found[key].as_f64().with_context(|| format!("no `{key}`"));
        Ok([number("rms_ms")?, number("mae_ms")?])
    };
    let ([rms, mae], [better_rms, better_mae]) = (judge("imported.toml")?, judge("better.toml")?);
    let off = |part: &str| {
        learnt[part]["phase_error_ms"].as_f64().map_or("-".into(), |ms| format!("{ms:.2}"))
    };
    let mut out = String::new();
    let _ = writeln!(
        out,
        "| {} | {rms:.3} / {mae:.3} | **{better_rms:.3} / {better_mae:.3}** | {:.3} / {:.3} \
         | {gap} | {} → {} |",
        drive.title,
        drive.disksim[0],
        drive.disksim[1],
        off("before"),
        off("after")
    );
    Ok(out)
}
