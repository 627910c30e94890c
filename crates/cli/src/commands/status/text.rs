//! A report for people.

use seekless_engine::units::SECTOR_BYTES;
use seekless_serve::status::{
    FaultsReport, FileSystemReport, MemberReport, Report, Requests, ScrubReport,
};
use std::fmt::Write as _;

/// Share of the writes beyond which reads for partial blocks are worth a warning.
const PARTIAL_SHARE: f64 = 0.1;

/// The report, its last line ended.
pub fn text(report: &Report) -> String {
    let mut out = head(report);
    let line = |out: &mut String, name: &str, text: &str| {
        // A string takes what it is given.
        let _ = writeln!(out, "  {name:<9} {text}");
    };
    if let Some(failed) = &report.failed {
        line(&mut out, "FAILED", &format!("changes are refused: {failed}"));
    }
    let clients =
        format!("{} connections, {} requests in flight", report.connections, report.in_flight);
    line(&mut out, "clients", &clients);
    out += &requests(report);
    if let Some(share) = report.partial_share().filter(|share| *share > PARTIAL_SHARE) {
        let text = format!(
            "{:.0} % of the writes cover part of a block of 4 KiB, which is read first; use blocks \
             of 4 KiB above (mkfs.ext4 -b 4096)",
            share * 100.0
        );
        line(&mut out, "WARNING", &text);
    }
    line(&mut out, "below", &below(report));
    for text in faults(report) {
        line(&mut out, "DAMAGE", &text);
    }
    let refused = report.layout_counters.get("refused_blocks").copied().unwrap_or(0.0);
    if refused > 0.0 {
        let text = format!("{refused} blocks of the device refuse writes; others took their data");
        line(&mut out, "DAMAGE", &text);
    }
    for (name, text) in layout(report) {
        line(&mut out, name, &text);
    }
    for (index, member) in report.members.iter().enumerate() {
        line(&mut out, if index == 0 { "members" } else { "" }, &self::member(index, member));
    }
    if let Some(rebuild) = &report.rebuild {
        let share = match rebuild.stripes {
            0 => rebuild.state.clone(),
            stripes => format!("{} % done", rebuild.done_stripes * 100 / stripes),
        };
        line(&mut out, "rebuild", &share);
    }
    if let Some(scrub) = &report.scrub {
        line(&mut out, "scrub", &self::scrub(scrub));
    }
    if let Some(file_system) = &report.file_system {
        for (name, text) in files(file_system) {
            line(&mut out, name, &text);
        }
    }
    out
}

/// What an operator looks for of a mounted file system: a name, and a text.
pub fn files(file_system: &FileSystemReport) -> Vec<(&'static str, String)> {
    let mut lines = vec![("files", format!("FFS, policy {}", file_system.policy))];
    let get = |name: &str| file_system.counters.get(name).copied().unwrap_or_default();
    let size = get("log sectors");
    if size > 0.0 {
        let text = format!(
            "{:.0} % of {} used, {:.0} operations in {:.0} writes",
            get("log sectors used") / size * 100.0,
            bytes(size * SECTOR_BYTES as f64),
            get("log groups"),
            get("log writes"),
        );
        lines.push(("log", text));
    }
    let transactions = get("transactions");
    if transactions > 0.0 {
        let operations = get("operations in transactions");
        let text = format!("{operations:.0} operations in {transactions:.0}");
        lines.push(("transactions", text));
    }
    lines
}

fn head(report: &Report) -> String {
    let images: Vec<String> =
        report.images.iter().map(|image| image.display().to_string()).collect();
    let what = match images.is_empty() {
        true => "memory".to_owned(),
        false => images.join(" "),
    };
    let how = if report.read_only { ", read-only" } else { "" };
    format!(
        "{what}: {}, {}{how}\n  at        {}, process {}, for {}\n",
        report.description,
        bytes(report.volume_bytes as f64),
        report.at,
        report.pid,
        span(report.uptime_ns)
    )
}

fn requests(report: &Report) -> String {
    if report.requests.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "  {:<9} {:>12} {:>10} {:>7} {:>9} {:>9} {:>9}\n",
        "", "requests", "bytes", "errors", "p50", "p99", "p99.9"
    );
    for (kind, one) in &report.requests {
        let Requests { count, errors, bytes: moved, latency } = one;
        let at = |share| latency.quantile_ns(share).map_or_else(|| "-".to_owned(), time);
        let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
        let moved = bytes(*moved as f64);
        let _ = writeln!(
            out,
            "  {kind:<9} {count:>12} {moved:>10} {errors:>7} {p50:>9} {p99:>9} {p999:>9}"
        );
    }
    out
}

/// Which requests failed, how often, and why the last time.
fn faults(report: &Report) -> Vec<String> {
    let of = |what: &str, faults: &FaultsReport| {
        let last = faults.last.as_ref()?;
        Some(format!("requests {what} that failed: {}, the last one: {last}", faults.count))
    };
    let devices = report.devices.iter().filter(|_| report.members.is_empty());
    let devices = devices.filter_map(|one| {
        let image = one.image.as_ref().map(|image| image.display().to_string());
        of(&format!("to {}", image.as_deref().unwrap_or("the device")), &one.faults)
    });
    of("of clients", &report.faults).into_iter().chain(devices).collect()
}

/// What went to the devices.
fn below(report: &Report) -> String {
    let traffic = |get: fn(&seekless_serve::status::TrafficReport) -> u64| -> u64 {
        match report.members.as_slice() {
            [] => report.devices.iter().map(|one| get(&one.traffic)).sum(),
            members => members.iter().map(|one| get(&one.traffic)).sum(),
        }
    };
    let mut text = format!(
        "{} read in {} requests, {} written in {}, {} flushes",
        bytes(traffic(|one| one.read_bytes) as f64),
        traffic(|one| one.reads),
        bytes(traffic(|one| one.written_bytes) as f64),
        traffic(|one| one.writes),
        traffic(|one| one.flushes)
    );
    if let Some(amplification) = report.write_amplification() {
        let _ = write!(text, "; {amplification:.2} bytes for each that clients wrote");
    }
    let heads: Vec<String> =
        report.devices.iter().filter_map(|one| Some(format!("{}", one.cylinder?))).collect();
    if !heads.is_empty() {
        let _ = write!(text, "; head at cylinder {}", heads.join(", "));
    }
    text
}

/// What an operator looks for among the counters of a layout: its name, and a text.
pub fn layout(report: &Report) -> Vec<(&'static str, String)> {
    let get = |name: &str| report.layout_counters.get(name).copied();
    let mut lines = Vec::new();
    if let Some(free) = get("free_blocks") {
        let tracks = get("free_tracks").map_or(String::new(), |n| format!(", {n:.0} whole tracks"));
        lines.push(("space", format!("{} free{tracks}", bytes(free * 4096.0))));
    }
    if let Some(free) = get("free_segments") {
        lines.push(("space", format!("{free:.0} free segments")));
    }
    if let Some(cleaned) = get("segments_cleaned") {
        let moved = get("blocks_moved").unwrap_or(0.0);
        let text = format!("{cleaned:.0} segments cleaned, {} moved", bytes(moved * 4096.0));
        lines.push(("cleaner", text));
    } else if let Some(moved) = get("blocks_moved") {
        let emptied = get("tracks_emptied").unwrap_or(0.0);
        let text = format!("{emptied:.0} tracks emptied, {} moved", bytes(moved * 4096.0));
        lines.push(("compactor", text));
    }
    if let Some(dirty) = get("dirty_blocks") {
        let destaged = get("destaged_blocks").unwrap_or(0.0);
        let text = format!(
            "{} in the log alone, {} destaged",
            bytes(dirty * 4096.0),
            bytes(destaged * 4096.0)
        );
        lines.push(("destage", text));
    }
    lines
}

/// One line about a member.
pub fn member(index: usize, member: &MemberReport) -> String {
    let MemberReport { image, state, error, unreadable_blocks, healed_blocks, .. } = member;
    let image = image.as_ref().map_or("-".to_owned(), |image| image.display().to_string());
    let why = error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
    let blocks = format!("{unreadable_blocks} blocks unreadable, {healed_blocks} healed");
    format!("{index} {image}: {state}{why}, {blocks}")
}

/// A scrub, without its forecast.
pub fn scrub(scrub: &ScrubReport) -> String {
    let ScrubReport { state, done_stripes, stripes, .. } = scrub;
    let share = u128::from(*done_stripes) * 100 / u128::from((*stripes).max(1));
    let how = match state.as_str() {
        "running" => format!("{share} % done"),
        state => format!("{state}, {share} % done"),
    };
    format!(
        "{how}; {} blocks about which members disagree, {} unreadable, {} written anew",
        scrub.mismatched_blocks, scrub.unreadable_blocks, scrub.repaired_blocks
    )
}

/// Bytes in binary units.
pub fn bytes(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return match unit {
                "B" => format!("{value:.0} B"),
                _ => format!("{value:.1} {unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A latency.
pub fn time(ns: u64) -> String {
    match ns {
        ..1_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A long time.
pub fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_that_people_read() {
        assert_eq!([0.0, 1023.0, 1536.0].map(bytes), ["0 B", "1023 B", "1.5 KiB"]);
        assert_eq!(bytes(3.0 * 1024_f64.powi(4)), "3.0 TiB");
        assert_eq!([1_500, 2_500_000, 3_000_000_000].map(time), ["2 µs", "2.5 ms", "3.0 s"]);
        assert_eq!(span(7_200_000_000_000), "2 h");
    }
}
