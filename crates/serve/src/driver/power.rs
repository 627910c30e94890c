//! Power cuts while serving: what clients notice, and the way back.

use super::{Driver, Parts};
use crate::adapter::{Adapter, Answer, Fault};
use crate::control::{Command, Control, Reply};
use crate::crash::disk::Hub;
use seekless_engine::layer::Layer;
use seekless_engine::layout::LayoutError;
use seekless_engine::node::Node;
use serde_json::json;
use std::fmt;
use std::str::FromStr;

/// What clients notice of a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCut {
    /// Their connections end, as those of a machine that has lost its power.
    #[default]
    Disconnect,
    /// Their requests fail, as those to a drive that is gone.
    Error,
}

impl FromStr for OnCut {
    type Err = String;

    fn from_str(name: &str) -> Result<OnCut, String> {
        match name {
            "disconnect" => Ok(OnCut::Disconnect),
            "error" => Ok(OnCut::Error),
            _ => Err(format!("unknown choice `{name}`: known are disconnect, error")),
        }
    }
}

/// Mounts what a disk holds.
type Remount = Box<dyn FnMut(&mut Hub) -> Result<Box<dyn Layer>, LayoutError> + Send>;

/// The power of a served disk.
pub struct Power {
    /// The disk.
    pub hub: Hub,
    /// How it is mounted again.
    pub remount: Remount,
    /// What clients notice.
    pub on_cut: OnCut,
}

impl fmt::Debug for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Power").field("on_cut", &self.on_cut).finish_non_exhaustive()
    }
}

/// The answer to a request while the power is off.
pub(super) fn off() -> Answer {
    Answer::Error(Fault::ShuttingDown, "the power is off".to_owned())
}

impl Driver {
    /// True while the power is off.
    pub(super) fn is_dark(&self) -> bool {
        self.parts.power.as_ref().is_some_and(|power| !power.hub.has_power())
    }

    /// True if connections are turned away now.
    pub(super) fn turns_away(&self) -> bool {
        let disconnects = |power: &Power| power.on_cut == OnCut::Disconnect;
        self.is_dark() && self.parts.power.as_ref().is_some_and(disconnects)
    }

    /// After a power cut the clients get no answer that has not been sent.
    pub(super) fn notice_cut(&mut self) {
        let Some(power) = &self.parts.power else { return };
        if !power.hub.notice_cut() || power.on_cut != OnCut::Disconnect {
            return;
        }
        let keys: Vec<usize> = self.sessions.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.drop_session(key, Some("the power is off".to_owned()));
        }
    }

    /// Lets requests go on that a fault holds back: the end waits for them.
    pub(super) fn release_held_requests(&mut self) {
        if let Some(power) = &self.parts.power {
            power.hub.hurry();
        }
    }

    /// Carries out the commands that have come.
    pub(super) fn obey(&mut self) {
        while let Some((command, reply)) = self.parts.control.as_ref().and_then(Control::take) {
            reply.send(self.command(command));
        }
    }

    fn command(&mut self, command: Command) -> Reply {
        let hub = self.parts.power.as_ref().map(|power| power.hub.clone());
        if command == Command::Status {
            self.turn();
            return Reply::report(&self.report(), hub.as_ref());
        }
        if let Command::Upkeep(order) = command {
            let now = self.now();
            let reply = Reply::to_upkeep(&mut self.parts.node, order, now);
            self.turn();
            return reply;
        }
        if let Command::Replace { image, force } = command {
            return self.replace(&image, force);
        }
        if command == Command::Sync {
            return Reply::error("no file system is mounted here; clients flush what they wrote");
        }
        let Some(hub) = hub else { return Reply::error("no disk crashes here") };
        match command {
            Command::Cut if !hub.has_power() => {
                Reply::error("the power is off already; restart puts it on")
            }
            Command::Restart if hub.has_power() => {
                Reply::error("the power is on; cut takes it away first")
            }
            Command::Restart => self.restart(hub),
            command => {
                let reply = Reply::to(&command, &hub);
                self.turn();
                reply
            }
        }
    }

    /// Puts the power on and mounts what the cut has left.
    fn restart(&mut self, mut hub: Hub) -> Reply {
        // Requests from before get their answers while the power is still off.
        self.turn();
        let Parts { power, node, export, .. } = &mut self.parts;
        let Some(power) = power else { return Reply::error("no disk crashes here") };
        let layer = match (power.remount)(&mut hub) {
            Ok(layer) => layer,
            Err(error) => {
                return Reply::error(&format!(
                    "what the power cut left cannot be mounted: {error}"
                ));
            }
        };
        hub.power_on();
        self.adapter = Adapter::new(layer.blocks(), export.read_only);
        *node = Node::new(layer, vec![hub.device()], 1 + hub.counts().cuts);
        self.exchange.forget_answers();
        self.served.failed = None;
        // Clients that still wait for an answer from before will not get one.
        let waiting = self.sessions.iter().filter(|(_, session)| session.in_flight > 0);
        let keys: Vec<usize> = waiting.map(|(key, _)| key).collect();
        for key in keys {
            self.drop_session(key, Some("its requests were lost with the power".to_owned()));
        }
        self.budget.lose();
        tracing::info!("the power is on again");
        Reply::ok(json!({ "power": "on" }))
    }
}
