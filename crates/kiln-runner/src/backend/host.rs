//! The machine itself.

use std::io;

use crate::process::{self, Command, Control, Limits, Outcome, Sink, Tree};

use super::Backend;

/// Steps run as processes of this machine, without walls around them.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnHost;

impl Backend for OnHost {
    fn run(
        &self,
        command: &Command,
        sink: &mut dyn Sink,
        control: &Control,
        limits: &Limits,
        tree: &Tree,
    ) -> io::Result<Outcome> {
        process::run(command, sink, control, limits, tree)
    }
}
