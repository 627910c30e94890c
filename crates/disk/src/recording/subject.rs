//! A drive of this crate as the model that is validated.

use super::{Op, Refused, Subject};
use crate::drive::{Drive, Request};
use seekless_engine::io;
use seekless_engine::units::Time;

impl Subject for Drive {
    fn sectors(&self) -> u64 {
        Drive::sectors(self)
    }

    fn serve(&mut self, at: Time, op: Op, lbn: u64, sectors: u32) -> Result<Time, Refused> {
        let op = match op {
            Op::Read => io::Op::Read,
            Op::Write => io::Op::Write,
        };
        self.serve_alone(at, Request { tag: 0, op, lbn, sectors, fua: false })
            .map_err(|refused| Refused(refused.to_string()))
    }
}
