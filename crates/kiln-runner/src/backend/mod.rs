//! Where the processes of steps run.

mod dummy;
mod host;

use std::fmt::Debug;
use std::io;

use crate::process::{Command, Control, Limits, Outcome, Sink, Tree};

pub use dummy::Dummy;
pub use host::OnHost;

/// Runs processes for steps: on this machine, in a sandbox, in a container, or only in name.
pub trait Backend: Debug + Send + Sync {
    /// Runs a process to its end and passes on its output. A cancel of `control` or a limit ends it
    /// and all of `tree`.
    fn run(
        &self,
        command: &Command,
        sink: &mut dyn Sink,
        control: &Control,
        limits: &Limits,
        tree: &Tree,
    ) -> io::Result<Outcome>;
}
