//! Makes a specification from the estimates.

use super::cache::Reach;
use super::{Estimate, Fit, FitError};
use crate::spec::{Bus, Cache, Prefetch, Seek, Sparing, Spec, Zone};
use std::fmt::Write as _;

/// Milliseconds to a hundred nanoseconds: more digits would be noise.
fn ms(ns: f64) -> f64 {
    (ns / 100.0).round() / 1e4
}

/// A number to a thousandth.
fn thousandth(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn told(estimate: Estimate, unit: &str, digits: usize) -> String {
    format!("{:.digits$} ± {:.digits$} {unit}", estimate.value, estimate.error)
}

impl Fit {
    /// The specification. A parameter without an estimate gets a value with little effect.
    ///
    /// # Errors
    /// If the parts contradict each other.
    pub fn spec(&self, name: &str, summary: &str) -> Result<Spec, FitError> {
        let broken = |error: crate::SpecError| FitError::Specification(error.to_string());
        // Other fields keep the default that has no effect.
        let plain = "name = \"fit\"\nsummary = \"\"\nrpm = 7200\nheads = 1\ncylinders = 8\n\
            head_switch_ms = 0\noverhead_ms = 0\n[[zones]]\nsectors = 8\ntrack_skew = 0\n\
            cylinder_skew = 0\n[seek]\nconstant = { ms = 0 }\n";
        let mut spec = Spec::parse(plain).map_err(broken)?;
        spec.name = name.into();
        spec.summary = summary.into();
        spec.rpm = (self.rpm().value * 1e4).round() / 1e4;
        let group = self.group();
        spec.heads = self.heads.unwrap_or(1) * group as u32;
        let cylinders = self.zones.iter().map(|zone| zone.cylinders.div_ceil(group));
        spec.cylinders = cylinders.sum::<u64>() as u32;
        spec.head_switch_ms = self.head_switch.map_or(0.0, |one| ms(one.value.max(0.0)));
        self.zones_of(&mut spec);
        spec.capacity_sectors = Some(self.sectors.min(spec.capacity_sectors()));
        self.electronics_of(&mut spec);
        if !self.seek.is_empty() {
            let mut points: Vec<(u32, f64)> = Vec::new();
            for one in &self.seek {
                let distance = one.distance.div_ceil(group) as u32;
                if points.last().is_none_or(|last| last.0 < distance) {
                    points.push((distance, ms(one.ns.value)));
                }
            }
            if group > 1 {
                spec.head_switch_ms = points[0].1;
            }
            spec.seek = Seek::Points(points);
        }
        spec.validate().map_err(broken)?;
        Ok(spec)
    }

    /// Cylinders that are merged into one. If tracks count as cylinders, a large drive has more
    /// than a specification allows.
    fn group(&self) -> u64 {
        self.cylinders().div_ceil(1 << 21).max(1)
    }

    fn zones_of(&self, spec: &mut Spec) {
        let (heads, group) = (u64::from(spec.heads), self.group());
        let on_tracks = self.zones.iter().any(|zone| zone.turn_sectors > zone.track_sectors);
        let on_cylinders = self.zones.iter().any(|zone| zone.spares > 0);
        spec.sparing = match (on_tracks, on_cylinders) {
            (true, _) => Sparing::Track,
            (false, true) => Sparing::Cylinder,
            (false, false) => Sparing::Zone,
        };
        let mut first = 0;
        spec.zones.clear();
        for zone in &self.zones {
            let turn = zone.turn_sectors as f64;
            let cylinders = zone.cylinders.div_ceil(group);
            let room = cylinders * heads * zone.turn_sectors;
            let spares = match spec.sparing {
                Sparing::Track => zone.turn_sectors - zone.track_sectors,
                Sparing::Cylinder => zone.spares,
                // The last zone may extend beyond the disk.
                _ if zone.end == self.sectors => 0,
                _ => room.saturating_sub(zone.end - zone.first),
            };
            let within = |value: f64| thousandth(value).rem_euclid(turn);
            spec.zones.push(Zone {
                first_cylinder: Some(first),
                last_cylinder: Some(first + cylinders as u32 - 1),
                sectors: zone.turn_sectors as u32,
                track_skew: match zone.track_skew {
                    Some(skew) => within(skew.value),
                    None if group > 1 => within(zone.cylinder_skew.value),
                    None => 0.0,
                },
                cylinder_skew: within(zone.cylinder_skew.value),
                offset: within(zone.offset),
                spares: spares as u32,
                ..Zone::default()
            });
            first += cylinders as u32;
        }
    }

    fn electronics_of(&self, spec: &mut Spec) {
        let bus = self.cache.bus_sector.map_or(0.0, |one| one.value);
        if bus > 0.0 {
            let read_sector_ms = bus.round() / 1e6;
            spec.bus = Some(Bus { read_sector_ms, ..Bus::default() });
        }
        let miss = self.overhead.map_or(0.0, |one| (one.value - bus).max(0.0));
        let Some(hit) = self.cache.hit else {
            spec.overhead_ms = ms(miss);
            return;
        };
        let hit = (hit.value - bus).max(0.0);
        // A difference below a tenth is noise.
        let alike = (hit - miss).abs() < (0.1 * miss).max(2.0 * self.noise);
        spec.overhead_ms = ms(if alike { miss } else { miss.min(hit) });
        if !alike {
            spec.overheads.read_miss_after_read_ms = ms((miss - hit).max(0.0));
            spec.overheads.read_hit_after_read_ms = ms((hit - miss).max(0.0));
        }
        let track = self.zones.iter().map(|zone| zone.track_sectors).max().unwrap_or(64) as u32;
        let cylinder = track * spec.heads;
        let (read_ahead, needed) = match self.cache.ahead.unwrap_or_default() {
            Reach::None => (Prefetch::None, 64),
            Reach::Track => (Prefetch::Track, track),
            Reach::Cylinder => (Prefetch::Cylinder, cylinder),
            Reach::Sectors(sectors) => (Prefetch::Segment, sectors as u32),
        };
        let seen = self.cache.segment_sectors.map(|sectors| sectors as u32);
        let size = match (read_ahead, seen) {
            // Read-ahead fills the segment: that is its size.
            (Prefetch::Segment, _) => needed,
            (_, Some(seen)) => seen.max(needed),
            (_, None) => 2 * needed,
        };
        spec.cache = Some(Cache {
            segments: self.cache.segments.unwrap_or(1),
            segment_sectors: size.clamp(1, 1 << 24),
            forgets: !self.cache.keeps,
            read_ahead,
            reads_free_sectors: self.cache.keeps_before,
            zero_latency_reads: self.cache.zero_latency.unwrap_or(false),
            ..Cache::default()
        });
    }

    /// The text of a specification with the estimates and their errors in a comment at its head.
    ///
    /// # Errors
    /// If the parts contradict each other.
    pub fn to_toml(&self, name: &str, summary: &str) -> Result<String, FitError> {
        let spec = self.spec(name, summary)?;
        let text = spec.to_toml().map_err(|error| FitError::Specification(error.to_string()))?;
        let mut out = String::from("# Estimated by `seekless disk fit`; ± is a standard error.\n");
        for line in self.lines() {
            let _ = writeln!(out, "#   {line}");
        }
        for line in &self.missing {
            let _ = writeln!(out, "# Not estimated: {line}");
        }
        out.push_str(&text);
        Ok(out)
    }

    /// The estimates that are single numbers, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("rotation       {}", told(self.rpm(), "rpm", 3))];
        let mut line = |name: &str, text: String| lines.push(format!("{name:<15}{text}"));
        let milli = |one: Estimate| told(one.scaled(1e-6), "ms", 4);
        match self.heads {
            Some(heads) => line("heads", heads.to_string()),
            None => line("heads", "unknown; tracks count as cylinders".into()),
        }
        line("cylinders", format!("{} in {} zones", self.cylinders(), self.zones.len()));
        if let Some(overhead) = self.overhead {
            line("overhead", format!("{} (with a sector's transfer)", milli(overhead)));
        }
        if let Some(switch) = self.head_switch {
            line("head switch", milli(switch));
        }
        if let (Some(first), Some(last)) = (self.seek.first(), self.seek.last()) {
            let at =
                |point: &super::SeekPoint| format!("{} at {}", milli(point.ns), point.distance);
            line("seek", format!("{}, {} cylinders", at(first), at(last)));
        }
        if let Some(hit) = self.cache.hit {
            line("cache hit", milli(hit));
        }
        if let Some(bus) = self.cache.bus_sector {
            let rate = 512e3 / bus.value;
            let rate = Estimate::new(rate, rate * bus.error / bus.value);
            line("bus", told(rate, "MB/s", 2));
        }
        line("cache", self.cache_line());
        line("noise", format!("{:.1} us", self.noise / 1e3));
        lines
    }

    fn cache_line(&self) -> String {
        let cache = &self.cache;
        if cache.hit.is_none() {
            return "none for reads".into();
        }
        let mut text = match cache.segments {
            Some(count) if cache.segments_or_more() => format!("{count} segments or more"),
            Some(1) => "1 segment".into(),
            Some(count) => format!("{count} segments"),
            None => "unknown number of segments".into(),
        };
        if let Some(sectors) = cache.segment_sectors {
            let _ = write!(text, " of {sectors} sectors");
        }
        let _ = match cache.ahead {
            None => write!(text, ", extent of read-ahead unknown"),
            Some(Reach::None) => write!(text, ", no read-ahead"),
            Some(Reach::Track) => write!(text, ", reads ahead to the end of the track"),
            Some(Reach::Cylinder) => write!(text, ", reads ahead to the end of the cylinder"),
            Some(Reach::Sectors(count)) => write!(text, ", reads {count} sectors ahead"),
        };
        if cache.keeps_before {
            text.push_str(", keeps what passes before a read");
        }
        if cache.zero_latency == Some(true) {
            text.push_str(", zero-latency reads");
        }
        text
    }
}
