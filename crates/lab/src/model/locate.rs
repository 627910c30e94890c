//! How long until a free slot passes the head, with free space scattered at random.
//!
//! Lengths are in slots (of one sector, unless the caller decided otherwise); times are in
//! milliseconds where the name says so. `free` is the share of slots that are free, the *p* of the
//! paper, above 0 and at most 1; utilisation is `1 - free`.

use super::Params;

/// Equation (1), section 2.1 (claim V13): mean number of used slots that pass before a free one,
/// on one track of `n` slots of which a share `free` (0 to 1) is free at random places.
///
/// With one free slot left it is half a turn, `(n - 1) / 2` (claim V15); at 80 % utilisation about
/// four slots (claim V16: 3.92 sectors, 0.092 ms on the ST19101; the paper's "below 100 µs" does
/// not hold for the HP97560, which takes 0.78 ms). At `free` 0 it is `n`, a whole turn without
/// result.
pub fn track(n: f64, free: f64) -> f64 {
    (1.0 - free) * n / (1.0 + free * n)
}

/// Equation (2), section 2.1 (claim V14): the recurrence behind equation (3), for `k` free slots of
/// `n`, `1 ≤ k ≤ n`. It costs `n - k` steps and is for tests of the closed form.
pub fn track_recurrence(n: u32, k: u32) -> f64 {
    // E(k, k) = 0; each slot more may be met first.
    (k + 1..=n).fold(0.0, |before, size| f64::from(size - k) / f64::from(size) * (1.0 + before))
}

/// Equation (3), section 2.1 (claim V14): the closed form of equation (2), for `0 ≤ k ≤ n`.
pub fn track_counted(n: u32, k: u32) -> f64 {
    f64::from(n - k) / (1.0 + f64::from(k))
}

/// Equation (11), section 4.2 (claim V28): sectors that pass while all the pieces of a logical
/// block of `logical` sectors are found, on a track of `n` sectors with physical blocks of
/// `physical ≤ logical` sectors. Equation (1) with `n / physical` slots, `logical / physical`
/// times. It is least where both sizes are the same.
///
/// It is exact for pieces placed one behind the other: the gaps between free slots have equal
/// means, so each piece waits as long as the first one, until free slots run out.
pub fn pieces(n: f64, free: f64, physical: f64, logical: f64) -> f64 {
    (1.0 - free) * n / (physical + free * n) * logical
}

/// Tracks whose slots begin to pass at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reach {
    /// How many; parts of tracks are averages.
    tracks: f64,
    /// When the first slot passes, in slots from now.
    lead: f64,
}

/// Mean time until the first free slot passes on any of the tracks, in slots. Each slot is free
/// with probability `free`. A track has `turn` slots; without it, tracks are endless.
fn first_free(free: f64, mut reaches: Vec<Reach>, turn: Option<u32>) -> f64 {
    reaches.sort_by(|a, b| a.lead.total_cmp(&b.lead));
    // Tracks in reach by the fraction of a slot at which their slots begin.
    let mut active: Vec<Reach> = Vec::new();
    let mut waiting = reaches.into_iter().peekable();
    let (mut mean, mut now, mut none_yet) = (0.0, 0.0, 1.0);
    let mut whole = 0.0_f64;
    // True if all tracks were within reach one slot before.
    let mut settled = false;
    loop {
        while let Some(next) = waiting.next_if(|next| next.lead.floor() <= whole) {
            let at = active.partition_point(|one| one.lead.fract() < next.lead.fract());
            active.insert(at, next);
        }
        if let Some(turn) = turn {
            active.retain(|one| whole - one.lead.floor() < f64::from(turn));
        }
        if active.is_empty() && waiting.peek().is_none() {
            return mean;
        }
        let (mean_before, all) = (mean, turn.is_none() && waiting.peek().is_none());
        for one in &active {
            let passes = whole + one.lead.fract();
            mean += (passes - now) * none_yet;
            now = passes;
            none_yet *= (1.0 - free).powf(one.tracks);
            if none_yet < 1e-14 {
                return mean;
            }
        }
        if all && settled {
            // From here on each slot has the same probability: a geometric series. It has too many
            // terms to add one by one if little is free.
            let tracks: f64 = active.iter().map(|one| one.tracks).sum();
            let log = tracks * (-free).ln_1p();
            return mean + (mean - mean_before) * log.exp() / -log.exp_m1();
        }
        settled = all;
        whole += 1.0;
    }
}

/// Equations (4) to (6), section 2.2 (claim V18): mean number of slots that pass before the first
/// free one in a cylinder of `tracks` tracks (at least 1), where other tracks are reached `switch`
/// slots later (a whole number, see [`Params::whole_slots`]). `free` is above 0 and at most 1.
///
/// In closed form `Σ q^(m+1) · q^((t-1)·max(0, m+1-s))` over `m` from 0, with `q = 1 - free`. The
/// paper's `f_x` is geometric, a track without end: at low utilisation this tends to `q / free` and
/// not to equation (1), at utilisation 0.5 they are 3 % apart on the HP97560.
pub fn cylinder(free: f64, tracks: u32, switch: f64) -> f64 {
    let others = Reach { tracks: f64::from(tracks - 1), lead: switch };
    first_free(free, vec![Reach { tracks: 1.0, lead: 0.0 }, others], None)
}

/// [`cylinder`] of a disk, in milliseconds (claim V18, table V-b; curves of figure 1).
pub fn cylinder_ms(params: &Params, free: f64) -> f64 {
    let switch = params.whole_slots(params.switch_ms());
    cylinder(free, params.tracks(), switch) * params.slot_ms()
}

/// [`track`] of a disk, in milliseconds (claim V13, table V-a).
pub fn track_ms(params: &Params, free: f64) -> f64 {
    track(f64::from(params.slots()), free) * params.slot_ms()
}

/// The single-cylinder model extended to the whole disk (claim V19, table V-b): the head is in the
/// middle, other cylinders come within reach after their seek, and tracks end after a turn. In
/// milliseconds, with `free` above 0 and at most 1.
///
/// It confirms figure 1: a cylinder stands for a zone. They are the same to 0.3 % up to 90 %
/// utilisation and to 2 % at 95 % (the claim says 0.1 %, which holds for the HP97560 alone); at 99
/// % the zone takes 3.11 ms where the cylinder takes 3.39 (HP97560), 0.479 and 0.568 (ST19101).
pub fn zone_ms(params: &Params, free: f64) -> f64 {
    let tracks = f64::from(params.tracks());
    let switch = params.whole_slots(params.switch_ms());
    let mut reaches =
        vec![Reach { tracks: 1.0, lead: 0.0 }, Reach { tracks: tracks - 1.0, lead: switch }];
    let middle = params.cylinders() / 2;
    for distance in 1..params.cylinders() {
        let sides =
            u32::from(distance <= middle) + u32::from(middle + distance < params.cylinders());
        let lead = params.whole_slots(params.seek_ms(distance));
        if sides == 0 || lead > 4.0 * f64::from(params.slots()) {
            break;
        }
        let tracks = tracks * f64::from(sides);
        match reaches.last_mut().filter(|last| last.lead == lead) {
            Some(last) => last.tracks += tracks,
            None => reaches.push(Reach { tracks, lead }),
        }
    }
    first_free(free, reaches, Some(params.slots())) * params.slot_ms()
}

/// The single-cylinder model for a layout under load, in milliseconds: one command after the other
/// without a pause, so that a search begins when the overhead after the end of a slot is over, in
/// the middle of another one. Slots of other tracks begin at all phases (in eighths of a slot),
/// because of skews. `free` is above 0 and at most 1.
///
/// The paper's model begins every search at the beginning of a slot. For slots of a sector there is
/// no difference; for slots of 4 KiB it is up to one slot at low utilisation.
pub fn cylinder_at_work_ms(params: &Params, free: f64) -> f64 {
    const PHASES: u32 = 8;
    let slot = params.slot_ms();
    let overhead = params.overhead_ms() / slot;
    let begins = overhead.ceil() - overhead;
    let mut reaches = vec![Reach { tracks: 1.0, lead: begins }];
    let switch = params.switch_ms() / slot;
    for phase in 0..PHASES {
        let phase = f64::from(phase) / f64::from(PHASES);
        let lead = phase + (switch - phase).ceil().max(0.0);
        reaches.push(Reach { tracks: f64::from(params.tracks() - 1) / f64::from(PHASES), lead });
    }
    first_free(free, reaches, None) * slot
}
