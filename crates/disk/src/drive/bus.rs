//! How the data of a command takes the bus: costs of preparation, disconnection and arbitration,
//! and when a disk reconnects. The rules are those of DiskSim 4.0's `disksim_disk`. One command has
//! the bus at a time. A read that has taken the bus keeps it to its end.

use crate::spec::{Cache, ExtraDisconnect, Overheads, Spec, ns};
use seekless_engine::units::Time;

/// Times and rules of the bus, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct BusRules {
    /// Time of a sector to the host, and from it.
    pub(super) sector: [Time; 2],
    pub(super) arbitration: Time,
    preparation: Time,
    reselect: Time,
    /// Of a command that follows a read, and a write.
    read_disconnect: [Time; 2],
    write_disconnect: Time,
    extra: Option<Extra>,
    /// Share of a read that waits for the bus, of no more sectors than a segment has.
    watermark: f64,
    watermark_sectors: u32,
    segment_sectors: u32,
    /// Only the speed of reads from memory is known: data from the platter flows as it comes.
    flows: bool,
}

/// [`ExtraDisconnect`] in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Extra {
    command: Time,
    disconnect: Time,
    gap: Time,
    second_disconnect: Time,
    seek_delta: Time,
    reselect: Time,
}

/// When the data of a write comes, and the cost of its report. Times count from the arrival of the
/// command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taking {
    /// The arm may start.
    pub(crate) arm: Time,
    /// All data is there.
    pub(crate) data: Time,
    /// The bus is free for the report.
    pub(super) left: Time,
    /// To win it for the report.
    pub(crate) regain: Time,
}

impl Taking {
    /// The same after a wait before the arm may start.
    pub(super) fn later(self, wait: Time) -> Taking {
        let Taking { arm, data, left, .. } = self;
        Taking { arm: arm + wait, data: data + wait, left: left + wait, ..self }
    }
}

impl BusRules {
    pub(crate) fn new(spec: &Spec) -> BusRules {
        let bus = spec.bus.unwrap_or_default();
        let Overheads { later_reselect_ms, .. } = spec.overheads;
        let extra = |it: ExtraDisconnect| Extra {
            command: ns(it.command_ms),
            disconnect: ns(it.disconnect_ms),
            gap: ns(it.gap_ms),
            second_disconnect: ns(it.second_disconnect_ms),
            seek_delta: ns(it.seek_delta_ms),
            reselect: ns(later_reselect_ms),
        };
        let o = &spec.overheads;
        BusRules {
            sector: match spec.bus {
                Some(_) => [ns(bus.read_sector_ms), ns(bus.write_sector_ms)],
                None => [spec.bus_ns(1), 0],
            },
            arbitration: ns(bus.arbitration_ms),
            preparation: ns(o.data_preparation_ms),
            reselect: ns(o.reselect_ms),
            read_disconnect: [
                ns(o.read_disconnect_after_read_ms),
                ns(o.read_disconnect_after_write_ms),
            ],
            write_disconnect: ns(o.write_disconnect_ms),
            extra: o.extra_disconnect.map(extra),
            watermark: bus.read_watermark,
            watermark_sectors: bus.read_watermark_sectors,
            segment_sectors: spec
                .cache
                .map_or(u32::MAX, |Cache { segment_sectors, .. }| segment_sectors),
            flows: spec.bus.is_none(),
        }
    }

    /// Time on the bus of the data of a read or a write.
    fn all(&self, write: usize, sectors: u32) -> Time {
        self.sector[write] * Time::from(sectors) + self.arbitration
    }

    /// Time that data in memory takes to the host.
    pub(super) fn hit_ns(&self, sectors: u32) -> Time {
        self.preparation + self.all(0, sectors)
    }

    /// When the host has a read whose data the disk begins to send at `at`, without disconnection:
    /// the first of the sectors that come from the platter is there at `first`, the last at `last`.
    pub(super) fn sent(&self, at: Time, sectors: u32, media: Option<(Time, Time)>) -> Time {
        let at = at + self.preparation;
        let all = self.all(0, sectors);
        match media {
            None => at + all,
            Some((_, last)) if self.flows => last.max(at + all),
            Some((first, last)) => (first.max(at) + all).max(last + self.sector[0]),
        }
    }

    /// The same for a read from the platter: the disk disconnects at `at`, after a read or a write,
    /// and reconnects when enough of the read is there.
    pub(super) fn sent_late(
        &self,
        at: Time,
        after: usize,
        sectors: u32,
        (first, last): (Time, Time),
    ) -> Time {
        if self.flows {
            return last + self.reselect + self.preparation;
        }
        let left = at + self.read_disconnect[after];
        let enough = self.enough(sectors);
        let share = (last - first) * Time::from(enough - 1) / Time::from(sectors.max(2) - 1);
        let from = (first + share).max(left) + self.reselect + self.preparation;
        (from + self.all(0, sectors)).max(last + self.sector[0])
    }

    /// Sectors of a read that must be there before the disk reconnects; at least one.
    fn enough(&self, sectors: u32) -> u32 {
        let share = f64::from(sectors.min(self.segment_sectors)) * self.watermark;
        (share as u32).max(self.watermark_sectors).clamp(1, sectors.max(1))
    }

    /// True if writes that do not continue the write before them disconnect once more.
    pub(super) fn has_extra(&self) -> bool {
        self.extra.is_some()
    }

    /// How a write takes the bus that costs `request` and `command` in the controller; `extra`
    /// means that it disconnects before its data has come.
    pub(crate) fn taking(&self, request: Time, command: Time, sectors: u32, extra: bool) -> Taking {
        let all = self.all(1, sectors);
        let Some(extra) = self.extra.filter(|_| extra) else {
            let arm = request + command;
            let data = arm + self.preparation + all;
            return Taking { arm, data, left: data + self.write_disconnect, regain: self.reselect };
        };
        let command = request + extra.command;
        let back = command + extra.disconnect + extra.gap + self.reselect;
        let data = back + self.preparation + all;
        Taking {
            arm: command + extra.seek_delta,
            data,
            left: data + extra.second_disconnect,
            regain: extra.reselect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = seekless_engine::units::MILLIS;

    fn rules() -> BusRules {
        let text = "name='t'\nsummary=''\nrpm=6000\nheads=1\ncylinders=9\nhead_switch_ms=1\n\
                    overhead_ms=0\nseek.constant.ms=1\n\
                    zones=[{sectors=100,track_skew=0,cylinder_skew=0}]\n\
                    bus={read_sector_ms=2,write_sector_ms=3,read_watermark=0.5}\n\
                    [overheads]\ndata_preparation_ms=1\nreselect_ms=10\nlater_reselect_ms=20\n\
                    read_disconnect_after_read_ms=30\nread_disconnect_after_write_ms=40\n\
                    write_disconnect_ms=50\n[overheads.extra_disconnect]\ncommand_ms=100\n\
                    disconnect_ms=200\ngap_ms=400\nsecond_disconnect_ms=800\nseek_delta_ms=7";
        BusRules::new(&Spec::parse(text).expect("it is sound"))
    }

    #[test]
    fn a_read_from_memory_costs_its_preparation_and_its_sectors() {
        assert_eq!(rules().sent(100 * MS, 4, None), (100 + 1 + 4 * 2) * MS);
        // The platter is slower.
        assert_eq!(rules().sent(100 * MS, 4, Some((0, 200 * MS))), 202 * MS);
    }

    #[test]
    fn a_read_from_the_platter_takes_the_bus_again_when_half_of_it_has_come() {
        let rules = rules();
        // Sectors come at 500, 510, ... 600 ms; the fifth of eleven is half.
        let passed = (500 * MS, 600 * MS);
        assert_eq!(rules.sent_late(0, 0, 11, passed), 602 * MS);
        let slow = BusRules { sector: [20 * MS, 0], ..rules.clone() };
        assert_eq!(slow.sent_late(0, 0, 11, passed), (540 + 10 + 1 + 11 * 20) * MS);
        // The disk is still connected then.
        assert_eq!(slow.sent_late(600 * MS, 1, 11, passed), (600 + 40 + 10 + 1 + 220) * MS);
        let few = BusRules { watermark: 0.0, watermark_sectors: 400, ..slow };
        assert_eq!(few.sent_late(0, 0, 11, passed), (600 + 10 + 1 + 220) * MS);
    }

    #[test]
    fn a_write_leaves_the_bus_once_or_twice() {
        let plain = rules().taking(5 * MS, 6 * MS, 4, false);
        assert_eq!((plain.arm, plain.data), (11 * MS, (11 + 1 + 12) * MS));
        assert_eq!((plain.left, plain.regain), (74 * MS, 10 * MS));
        let extra = rules().taking(5 * MS, 6 * MS, 4, true);
        let data = 5 + 100 + 200 + 400 + 10 + 1 + 12;
        assert_eq!((extra.arm, extra.data), ((5 + 100 + 7) * MS, data * MS));
        assert_eq!((extra.left, extra.regain), ((data + 800) * MS, 20 * MS));
        assert_eq!(extra.later(MS).left, (data + 801) * MS);
    }
}
