//! In which order the head gets to a few known places soonest.

use seekless_engine::arm::Arm;
use seekless_engine::layer::Cx;
use seekless_engine::units::{BlockNr, Time};

/// Brings `items` into the order in which the head gets to their places: always the one that it can
/// reach first is next. Without a head, in the order of the places.
pub fn arrange<T>(items: &mut [T], place: impl Fn(&T) -> u32, cx: &Cx<'_>) {
    items.sort_by_key(|item| place(item));
    let (Some(arm), Some(head)) = (cx.arm(0), cx.head(0)) else { return };
    let mut at = At { track: head.track, free_at: head.free_at, behind: None };
    for done in 0..items.len() {
        let left = (done..items.len()).min_by_key(|&index| at.start(arm, place(&items[index])));
        let Some(next) = left else { return };
        // What is left stays in the order of its places.
        items[done..=next].rotate_right(1);
        at = at.after(arm, place(&items[done]));
    }
}

/// Where the head is going to be, and the place behind the last one.
struct At {
    track: u32,
    free_at: Time,
    behind: Option<u32>,
}

impl At {
    /// When it can begin to read or write a place.
    fn start(&self, arm: &dyn Arm, place: u32) -> Time {
        if self.behind == Some(place) {
            return self.free_at;
        }
        let track = arm.track_of(BlockNr::from(place));
        let travel = if track == self.track { 0 } else { arm.travel_ns(self.track, track) };
        let at = self.free_at + arm.overhead_ns() + travel;
        let (first, _) = arm.track_blocks(track);
        let position = arm.position(track, (BlockNr::from(place) - first) as u32);
        at + arm.wait_ns(track, position, arm.angle_ns(at))
    }

    fn after(&self, arm: &dyn Arm, place: u32) -> At {
        let track = arm.track_of(BlockNr::from(place));
        let free_at = self.start(arm, place) + arm.transfer_ns(track, 1);
        At { track, free_at, behind: Some(place + 1) }
    }
}
