//! Obeys or refuses the commands of one step, line by line.

use std::borrow::Cow;
use std::path::PathBuf;

use super::super::annotations::{Annotation, Severity};
use super::super::file_commands::is_dangerous;
use super::{Command, interpret, is_command, syntax};

/// Tokens that are longer than this are masked, so that no later output can guess them.
const LONGEST_PLAIN_TOKEN: usize = 6;

/// What a step may do and what its log shows.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Files in annotations become relative to it.
    pub workspace: PathBuf,
    /// `ACTIONS_STEP_DEBUG`: shows debug lines, and commands as if `echo` were on.
    pub debug: bool,
    /// `ACTIONS_ALLOW_UNSECURE_COMMANDS` is true in the step's environment.
    pub allow_unsecure: bool,
    /// `ACTIONS_ALLOW_UNSECURE_STOPCOMMAND_TOKENS` is true in the step's environment.
    pub allow_unsecure_tokens: bool,
}

impl Options {
    /// Reads the permissions from the step's `env` context; `variable` looks a name up.
    pub fn new<'a>(
        workspace: PathBuf,
        debug: bool,
        variable: impl Fn(&str) -> Option<&'a str>,
    ) -> Self {
        let allows = |name| variable(name).is_some_and(super::is_true);
        Self {
            workspace,
            debug,
            allow_unsecure: allows("ACTIONS_ALLOW_UNSECURE_COMMANDS"),
            allow_unsecure_tokens: allows("ACTIONS_ALLOW_UNSECURE_STOPCOMMAND_TOKENS"),
        }
    }
}

/// What becomes of a line that is a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processed {
    /// What the log shows instead of the line. Secrets are still in it; a mask among `commands`
    /// counts for these lines already.
    pub log: Vec<String>,
    /// What the caller has to do, in order. `Echo` and `StopCommands` are done already, and never
    /// among them.
    pub commands: Vec<Command>,
    /// The step fails, whatever its exit code.
    pub failed: bool,
}

impl Processed {
    fn annotate(&mut self, severity: Severity, message: String) {
        self.show_annotation(severity, &message);
        self.commands.push(Command::Annotate(Annotation::new(severity, message)));
    }

    fn show_annotation(&mut self, severity: Severity, message: &str) {
        if !message.is_empty() {
            self.log.push(format!("{}{message}", severity.tag()));
        }
    }

    fn fail(&mut self, line: &str, why: &str) {
        self.annotate(Severity::Error, format!("cannot obey the command `{line}`: {why}"));
        self.failed = true;
    }
}

/// The commands of one step; both of its streams share it.
#[derive(Debug, Clone)]
pub struct Processor {
    options: Options,
    echo: bool,
    /// While there is a token, its own command is the only one.
    stopped_by: Option<String>,
    /// `internal-set-repo-path` is a command, and not ordinary text.
    internal: bool,
    /// Deprecated commands that the step was told about.
    warned: Vec<&'static str>,
}

impl Processor {
    pub fn new(options: Options) -> Self {
        let echo = options.debug;
        Self { options, echo, stopped_by: None, internal: false, warned: Vec::new() }
    }

    /// Obeys `internal-set-repo-path`, too, which only the runner's own parts may print.
    #[must_use]
    pub fn with_internal_commands(mut self) -> Self {
        self.internal = true;
        self
    }

    /// Reads one line without its end. `None` is ordinary text, which the log shows and problem
    /// matchers read.
    pub fn line(&mut self, line: &[u8]) -> Option<Processed> {
        if !syntax::may_hold_command(line) {
            return None;
        }
        let line: Cow<'_, str> = String::from_utf8_lossy(line);
        if let Some(token) = &self.stopped_by {
            let resumes = |name: &str| !token.is_empty() && same_name(name, token);
            let written = syntax::parse(&line, |name| is_command(name) || resumes(name))?;
            if !resumes(&written.name) {
                return None;
            }
            self.stopped_by = None;
            return Some(Processed { log: vec![line.into_owned()], ..Processed::default() });
        }
        let is_known = |name: &str| is_command(name) && self.is_enabled(name);
        let written = syntax::parse(&line, is_known)?;
        let mut processed = Processed::default();
        if self.echo && is_echoed(&written.name) {
            processed.log.push(line.clone().into_owned());
        }
        let is_mask = written.name == "add-mask";
        match interpret(written, &self.options.workspace) {
            Ok(command) => self.obey(&line, command, &mut processed),
            // The line of a mask could hold the secret.
            Err(fault) if is_mask => processed.annotate(Severity::Warning, fault.to_string()),
            Err(fault) if fault.fails_step() => processed.fail(&line, &fault.to_string()),
            Err(fault) => processed.annotate(Severity::Warning, fault.to_string()),
        }
        Some(processed)
    }

    fn is_enabled(&self, name: &str) -> bool {
        self.internal || !same_name(name, "internal-set-repo-path")
    }

    fn obey(&mut self, line: &str, command: Command, processed: &mut Processed) {
        match &command {
            Command::Group(title) => processed.log.push(format!("##[group]{title}")),
            Command::EndGroup => processed.log.push("##[endgroup]".to_owned()),
            Command::Debug(text) if self.options.debug => {
                processed.log.push(format!("##[debug]{text}"));
            }
            Command::Annotate(annotation) => {
                processed.show_annotation(annotation.severity, &annotation.message);
            }
            Command::AddMask(_) if self.echo => processed.log.push("::add-mask::***".to_owned()),
            Command::Echo(on) => {
                self.echo = *on;
                return;
            }
            Command::StopCommands(token) => return self.stop(line, token.clone(), processed),
            Command::SetOutput { .. } => self.deprecate("set-output", "GITHUB_OUTPUT", processed),
            Command::SaveState { .. } => self.deprecate("save-state", "GITHUB_STATE", processed),
            Command::SetEnv { .. } if !self.options.allow_unsecure => {
                return processed.fail(line, &disabled("GITHUB_ENV"));
            }
            Command::AddPath(_) if !self.options.allow_unsecure => {
                return processed.fail(line, &disabled("GITHUB_PATH"));
            }
            Command::SetEnv { name, .. } if is_dangerous(name) => {
                let message = format!("`{name}` cannot be set by the command `set-env`");
                return processed.annotate(Severity::Error, message);
            }
            _ => {}
        }
        processed.commands.push(command);
    }

    fn deprecate(&mut self, command: &'static str, file: &str, processed: &mut Processed) {
        if !self.warned.contains(&command) {
            self.warned.push(command);
            let message = format!(
                "the command `{command}` is deprecated: write to the file that {file} names"
            );
            processed.annotate(Severity::Warning, message);
        }
    }

    fn stop(&mut self, line: &str, token: String, processed: &mut Processed) {
        let is_bad = token.is_empty() || is_command(&token) || same_name(&token, "pause-logging");
        if is_bad && !self.options.allow_unsecure_tokens {
            let why = "the token must not be empty, `pause-logging` or the name of a command";
            return processed.fail(line, why);
        }
        processed.log.push(line.to_owned());
        if token.chars().nth(LONGEST_PLAIN_TOKEN).is_some() {
            processed.commands.push(Command::AddMask(token.clone()));
        }
        self.stopped_by = Some(token);
    }
}

fn same_name(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

/// The others show something of their own, or must not be shown.
fn is_echoed(name: &str) -> bool {
    !matches!(name, "add-mask" | "debug" | "notice" | "warning" | "error" | "stop-commands")
}

fn disabled(file: &str) -> String {
    format!(
        "it is disabled, as any output could use it: write to the file that {file} names, or set \
         ACTIONS_ALLOW_UNSECURE_COMMANDS to true"
    )
}
