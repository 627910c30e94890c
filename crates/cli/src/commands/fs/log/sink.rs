//! Records as text and as JSON.

use seekless_formats::log::Lsn;
use serde_json::json;
use std::io::Write;

/// How records are printed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Style {
    /// Print an object for each record, on a line of its own: `lsn`, and `text`, or `hex` for bytes
    /// that are no UTF-8.
    #[arg(long)]
    json: bool,
    /// Print the bytes of the records only, each with a line feed behind it.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

impl Style {
    /// Prints a record.
    pub fn record(self, at: Lsn, bytes: &[u8], out: &mut dyn Write) -> std::io::Result<()> {
        if self.json {
            let object = match std::str::from_utf8(bytes) {
                Ok(text) => json!({ "lsn": at.0, "text": text }),
                Err(_) => json!({ "lsn": at.0, "hex": hex(bytes) }),
            };
            return writeln!(out, "{object}");
        }
        if self.raw {
            out.write_all(bytes)?;
            return out.write_all(b"\n");
        }
        // A terminal must not obey what a record says.
        let text = String::from_utf8_lossy(bytes).escape_debug().to_string();
        writeln!(out, "{at} {text}")
    }

    /// True if objects are printed.
    pub fn is_json(self) -> bool {
        self.json
    }
}

/// Bytes as digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
