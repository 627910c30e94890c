//! The figures as tables, those of DiskSim beside them.

use super::DRIVES;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;

/// Errors of DiskSim 4.0 on a recording, in ms: RMS, MAE, correlation, then the mean errors of all
/// requests, reads and writes where they were published.
struct Peer {
    label: &'static str,
    figures: [f64; 3],
    errors: Option<[f64; 3]>,
}

/// For each of [`DRIVES`]: its authors read every gap as the pause after a request; on two of the
/// recordings the errors are smaller with gaps as pauses before.
const PEERS: [&[Peer]; 4] = [
    &[peer([0.268, 1.033, 0.906], [0.078, 0.165, -0.088]), moved([0.245, 0.972, 0.910])],
    &[peer([0.349, 1.441, 0.930], [-0.201, -0.383, 0.139]), moved([0.342, 1.321, 0.934])],
    &[peer([0.254, 1.121, 0.875], [0.014, 0.710, -1.485])],
    &[peer([0.340, 1.630, 0.911], [-0.116, 0.214, -0.815])],
];

const fn peer(figures: [f64; 3], errors: [f64; 3]) -> Peer {
    Peer { label: "DiskSim", figures, errors: Some(errors) }
}

const fn moved(figures: [f64; 3]) -> Peer {
    Peer { label: "DiskSim, gap before", figures, errors: None }
}

/// Two tables: all requests with DiskSim's figures, then reads and writes separately.
pub(super) fn tables(replayed: &[&Value]) -> Result<String> {
    let mut out = String::from(
        "| drive, requests | simulator | RMS, ms | MAE, ms | correlation | mean error, ms |\n\
         |---|---|---:|---:|---:|---:|\n",
    );
    for ((drive, found), peers) in DRIVES.iter().zip(replayed).zip(PEERS) {
        let [rms, mae, mean] = ["rms_ms", "mae_ms", "mean_error_ms"].map(|key| number(found, key));
        let (rms, mae, mean) = (rms?, mae?, mean?);
        let requests = found["requests"].as_u64().context("no number of requests")?;
        let correlation = number(found, "correlation")?;
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {}, {requests} | **Seekless** | **{rms:.3}** | **{mae:.3}** | **{correlation:.3}** \
             | **{mean:+.3}** |",
            drive.title
        );
        for Peer { label, figures: [rms, mae, correlation], errors } in peers {
            let mean = errors.map_or_else(|| "-".to_owned(), |[all, ..]| format!("{all:+.3}"));
            let _ =
                writeln!(out, "| | {label} | {rms:.3} | {mae:.3} | {correlation:.3} | {mean} |");
        }
    }
    out += "\nReads and writes apart, in ms:\n\n\
            | drive | reads: RMS | MAE | mean error | DiskSim's | writes: RMS | MAE | mean error \
            | DiskSim's |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for ((drive, found), peers) in DRIVES.iter().zip(replayed).zip(PEERS) {
        let mut row = format!("| {} |", drive.title);
        for (index, kind) in ["reads", "writes"].into_iter().enumerate() {
            let of = &found[kind];
            let (rms, mae) = (number(of, "rms_ms")?, number(of, "mae_ms")?);
            let mean = number(of, "mean_error_ms")?;
            let _ = write!(row, " {rms:.3} | {mae:.3} | {mean:+.3} |");
            let theirs = peers[0].errors.map(|errors| errors[index + 1]);
            let theirs = theirs.map_or_else(|| "-".to_owned(), |ms| format!("{ms:+.3}"));
            let _ = write!(row, " {theirs} |");
        }
        out += &row;
        out.push('\n');
    }
    Ok(out)
}

fn number(of: &Value, key: &str) -> Result<f64> {
    of[key].as_f64().with_context(|| format!("validate says nothing of `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_for_each_simulator() {
        let kind = json!({ "rms_ms": 0.1, "mae_ms": 0.2, "mean_error_ms": -0.3 });
        let mut found = kind.clone();
        found["requests"] = 7.into();
        found["correlation"] = 0.5.into();
        found["reads"] = kind.clone();
        found["writes"] = kind;
        let text = tables(&[&found; 4]).expect("all figures are there");
        assert_eq!(text.matches("**Seekless** | **0.100** | **0.200** | **0.500**").count(), 4);
        assert_eq!(text.matches("| DiskSim |").count(), 4);
        assert!(text.contains(" 0.100 | 0.200 | -0.300 | +0.710 |"), "{text}");
        found["mae_ms"] = Value::Null;
        assert!(tables(&[&found; 4]).is_err());
    }
}
