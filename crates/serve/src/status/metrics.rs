//! A report in the text format of Prometheus (OpenMetrics 1.0).

use super::{Report, TrafficReport};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;

/// What the text is, for HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The report as text.
pub fn text(report: &Report) -> String {
    let mut registry = Registry::with_prefix("seekless");
    registry.register_collector(Box::new(Families(report.clone())));
    let mut out = String::new();
    // A string takes what it is given.
    text::encode(&mut out, &registry).expect("a string has room");
    out
}

#[derive(Debug)]
struct Families(Report);

type Labels = Vec<(&'static str, String)>;
/// Lines of one family.
type Lines<V> = Vec<(Labels, V)>;

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let to = &mut encoder;
        self.volume(to)?;
        self.requests(to)?;
        let report = &self.0;
        named(to, "layout", "Counter or gauge of the layout.", &report.layout_counters)?;
        self.devices(to)?;
        self.members(to)?;
        if let Some(file_system) = &report.file_system {
            let help = "Counter or gauge of the file system.";
            named(to, "file_system", help, &file_system.counters)?;
        }
        Ok(())
    }
}

impl Families {
    fn volume(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let report = &self.0;
        let about = vec![
            ("version", report.version.clone()),
            ("layout", report.layout.clone().unwrap_or_default()),
            ("at", report.at.clone()),
        ];
        gauges(to, "about", "What is served; always 1.", vec![(about, 1.0)])?;
        let uptime = report.uptime_ns as f64 / 1e9;
        gauge(to, "uptime_seconds", "Time since the process began to serve.", uptime)?;
        gauge(to, "volume_bytes", "Size as seen by clients.", report.volume_bytes as f64)?;
        let read_only = report.read_only || report.failed.is_some();
        gauge(to, "read_only", "1 if changes are refused.", f64::from(u8::from(read_only)))?;
        let failed = f64::from(u8::from(report.failed.is_some()));
        gauge(to, "failed", "1 if changes are refused since an error.", failed)?;
        gauge(to, "connections", "Connections that are open.", report.connections as f64)?;
        let help = "Requests that are not answered yet.";
        gauge(to, "requests_in_flight", help, report.in_flight as f64)
    }

    fn requests(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let of = |value: fn(&super::Requests) -> u64| -> Lines<u64> {
            let kinds = self.0.requests.iter();
            kinds.map(|(kind, one)| (vec![("kind", kind.clone())], value(one))).collect()
        };
        counters(to, "requests", "Requests of clients that were answered.", of(|one| one.count))?;
        counters(to, "request_errors", "Those answered with an error.", of(|one| one.errors))?;
        counters(to, "request_bytes", "Bytes read or written by clients.", of(|one| one.bytes))?;
        let help = "From the arrival of a request to its answer";
        let mut family =
            to.encode_descriptor("request", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (kind, one) in &self.0.requests {
            let (mut buckets, mut below) = (Vec::new(), 0);
            for (end_ns, count) in one.latency.by_doubling() {
                buckets.push(((end_ns + 1) as f64 / 1e9, count - below));
                below = count;
            }
            let (count, sum) = (one.latency.count(), one.latency.total_ns() as f64 / 1e9);
            buckets.push((f64::INFINITY, count - below));
            let labels = vec![("kind", kind.clone())];
            let mut line = family.encode_family(&labels)?;
            line.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn devices(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let devices = &self.0.devices;
        let traffic: Vec<TrafficReport> = devices.iter().map(|one| one.traffic).collect();
        traffics(to, "device", &traffic)?;
        let faults = |(index, one): (usize, &super::DeviceReport)| {
            (vec![("device", index.to_string())], one.faults.count)
        };
        let help = "Requests to the device that failed.";
        counters(to, "device_faults", help, devices.iter().enumerate().map(faults).collect())?;
        let help = "Requests of clients that failed as what is stored is damaged or out of reach.";
        counters(to, "faults", help, vec![(Vec::new(), self.0.faults.count)])?;
        let busy = |(index, one): (usize, &super::DeviceReport)| {
            Some((vec![("device", index.to_string())], one.busy_ns? as f64 / 1e9))
        };
        let busy: Lines<f64> = devices.iter().enumerate().filter_map(busy).collect();
        let help = "How long a simulated disk was busy.";
        family(to, "device_busy_seconds", help, MetricType::Counter, busy)
    }

    fn members(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let members = &self.0.members;
        if members.is_empty() {
            return Ok(());
        }
        let of = |value: fn(&super::MemberReport) -> u64| -> Lines<u64> {
            let indices = members.iter().enumerate();
            indices.map(|(index, one)| (vec![("member", index.to_string())], value(one))).collect()
        };
        let up: Lines<f64> = of(|one| u64::from(one.state == "active"))
            .into_iter()
            .map(|(labels, up)| (labels, up as f64))
            .collect();
        gauges(to, "member_active", "1 if the member holds all that it should.", up)?;
        let help = "Blocks that the member could not read.";
        counters(to, "member_unreadable_blocks", help, of(|one| one.unreadable_blocks))?;
        let help = "Blocks of the member that were put right from the others.";
        counters(to, "member_healed_blocks", help, of(|one| one.healed_blocks))?;
        let traffic: Vec<TrafficReport> = members.iter().map(|one| one.traffic).collect();
        traffics(to, "member", &traffic)?;
        if let Some(scrub) = &self.0.scrub {
            let share = scrub.done_stripes as f64 / scrub.stripes.max(1) as f64;
            gauge(to, "scrub_ratio", "Share of the array that the last scrub compared.", share)?;
            let help = "Blocks about which the members disagreed in the last scrub.";
            gauge(to, "scrub_mismatched_blocks", help, scrub.mismatched_blocks as f64)?;
        }
        let Some(rebuild) = &self.0.rebuild else { return Ok(()) };
        let share = match (rebuild.state.as_str(), rebuild.stripes) {
            ("running", 1..) => rebuild.done_stripes as f64 / rebuild.stripes as f64,
            ("ended", _) => 1.0,
            _ => 0.0,
        };
        gauge(to, "rebuild_ratio", "Share of the new member that is filled.", share)
    }
}

/// What went to devices or members.
fn traffics(
    to: &mut DescriptorEncoder,
    label: &'static str,
    traffic: &[TrafficReport],
) -> fmt::Result {
    type Value = fn(&TrafficReport) -> u64;
    let lines = |kinds: &[(&str, Value)]| -> Lines<u64> {
        let each = traffic.iter().enumerate();
        each.flat_map(|(index, one)| {
            kinds.iter().map(move |(kind, value)| {
                (vec![(label, index.to_string()), ("kind", (*kind).to_owned())], value(one))
            })
        })
        .collect()
    };
    let requests: [(&str, Value); 4] = [
        ("read", |one| one.reads),
        ("write", |one| one.writes),
        ("flush", |one| one.flushes),
        ("trim", |one| one.trims),
    ];
    let bytes: [(&str, Value); 2] =
        [("read", |one| one.read_bytes), ("write", |one| one.written_bytes)];
    counters(to, &format!("{label}_requests"), "Requests to it.", lines(&requests))?;
    counters(to, &format!("{label}_bytes"), "Bytes read from it or written.", lines(&bytes))
}

/// Counters that have their name in a label.
fn named(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    counters: &BTreeMap<String, f64>,
) -> fmt::Result {
    let lines = counters.iter().map(|(name, value)| (vec![("name", name.clone())], *value));
    gauges(to, name, help, lines.collect())
}

fn gauge(to: &mut DescriptorEncoder, name: &str, help: &str, value: f64) -> fmt::Result {
    gauges(to, name, help, vec![(Vec::new(), value)])
}

fn gauges(to: &mut DescriptorEncoder, name: &str, help: &str, lines: Lines<f64>) -> fmt::Result {
    family(to, name, help, MetricType::Gauge, lines)
}

fn counters(to: &mut DescriptorEncoder, name: &str, help: &str, lines: Lines<u64>) -> fmt::Result {
    let lines = lines.into_iter().map(|(labels, value)| (labels, value as f64)).collect();
    family(to, name, help, MetricType::Counter, lines)
}

fn family(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    sort: MetricType,
    lines: Lines<f64>,
) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    // The encoder ends the sentence.
    let mut family = to.encode_descriptor(name, help.trim_end_matches('.'), None, sort)?;
    for (labels, value) in lines {
        let mut line = family.encode_family(&labels)?;
        match sort {
            MetricType::Counter => {
                line.encode_counter::<NoLabelSet, f64, f64>(&value, None::<&Exemplar<_, _>>)?;
            }
            _ => line.encode_gauge(&value)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Requests;

    #[test]
    fn the_text_has_a_line_for_each_count() {
        let mut report = Report { volume_bytes: 1 << 20, ..Report::default() };
        let mut writes = Requests { count: 2, errors: 1, bytes: 4096, ..Requests::default() };
        writes.latency.record(3_000);
        writes.latency.record(90_000_000_000);
        report.requests.insert("write".to_owned(), writes);
        report.layout_counters.insert("commits".to_owned(), 7.0);
        report.devices.push(super::super::DeviceReport::default());
        let text = text(&report);
        for line in [
            "# TYPE seekless_volume_bytes gauge",
            "seekless_volume_bytes 1048576.0",
            "seekless_requests_total{kind=\"write\"} 2.0",
            "seekless_request_errors_total{kind=\"write\"} 1.0",
            "seekless_request_seconds_count{kind=\"write\"} 2",
            "seekless_request_seconds_bucket{le=\"0.000004096\",kind=\"write\"} 1",
            "seekless_request_seconds_bucket{le=\"+Inf\",kind=\"write\"} 2",
            "seekless_layout{name=\"commits\"} 7.0",
            "seekless_device_bytes_total{device=\"0\",kind=\"write\"} 0.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|one| one == line), "no line {line} in\n{text}");
        }
    }
}
