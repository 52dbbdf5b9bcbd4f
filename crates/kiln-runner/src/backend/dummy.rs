//! Steps without processes, for tests of everything around them.
//!
//! It understands scripts of a few words, one on each line: `echo TEXT`, `echo TEXT >> "$NAME"` for the
//! command files, `sleep SECONDS`, `exit CODE`, `true` and `false`. Any other line fails the step, so
//! that no test believes that something ran.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::time::Duration;

use crate::process::{Command, Control, End, Ending, Limits, Outcome, Sink, Stream, Tree, Usage};

use super::Backend;

/// Does what a short script says without starting anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dummy;

impl Backend for Dummy {
    fn run(
        &self,
        command: &Command,
        sink: &mut dyn Sink,
        control: &Control,
        limits: &Limits,
        _tree: &Tree,
    ) -> io::Result<Outcome> {
        let script = command.args.last().ok_or_else(|| refuse("a command without a script"))?;
        let end = play(&fs::read_to_string(script)?, command, sink, control, limits)?;
        sink.flush();
        Ok(Outcome { end, usage: Usage::default(), left_running: false })
    }
}

fn play(
    script: &str,
    command: &Command,
    sink: &mut dyn Sink,
    control: &Control,
    limits: &Limits,
) -> io::Result<End> {
    for line in script.lines().map(str::trim) {
        if control.is_cancelled() {
            return Ok(End::Cancelled);
        }
        match line.split_once(' ').unwrap_or((line, "")) {
            ("" | "true", _) => {}
            ("false", _) => return Ok(End::Exited(1)),
            ("exit", code) => return Ok(End::Exited(number(code)?)),
            ("sleep", seconds) => {
                let wanted = Duration::from_secs_f64(number(seconds)?);
                let allowed = limits.wall.unwrap_or(Duration::MAX);
                if !control.sleep(wanted.min(allowed)) {
                    return Ok(End::Cancelled);
                }
                if wanted > allowed {
                    return Ok(End::TimedOut);
                }
            }
            ("echo", text) => echo(text, command, sink)?,
            _ => return Err(refuse(line)),
        }
    }
    Ok(End::Exited(0))
}

fn echo(text: &str, command: &Command, sink: &mut dyn Sink) -> io::Result<()> {
    let unquoted = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    let Some((text, file)) = text.split_once(">>") else {
        sink.line(Stream::Stdout, unquoted(text).as_bytes(), Ending::Newline);
        return Ok(());
    };
    let name = unquoted(file).trim_start_matches('$').to_owned();
    let path = command.env.iter().rfind(|(own, _)| own == OsStr::new(&name));
    let (_, path) = path.ok_or_else(|| refuse(&format!("no variable `{name}`")))?;
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    writeln!(file, "{}", unquoted(text))
}

fn number<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.trim().parse().map_err(|_| refuse(text))
}

fn refuse(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("the dummy backend cannot run `{what}`"))
}
