//! What a step prints: commands are obeyed, secrets masked, problems matched, the rest is the log.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::process::{Ending, Sink, Stream};

use super::annotations::{Annotation, Quota, Severity};
use super::commands::{Command, MatcherRef, Options, Processor};
use super::mask::{Carry, Masker};
use super::matcher::{self, Files, Matchers};
use super::task::{Reporter, StepEnd};

/// What the steps of a job say, and who hears it. Steps that run side by side share it.
pub(super) struct Output<'r> {
    reporter: &'r dyn Reporter,
    voice: Mutex<Voice>,
}

/// What only one step at a time may use.
struct Voice {
    masker: Masker,
    matchers: Matchers,
    workspace: PathBuf,
}

/// What the commands of one step ask for.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) outputs: Vec<(String, String)>,
    pub(super) state: Vec<(String, String)>,
    pub(super) env: Vec<(String, String)>,
    pub(super) path: Vec<String>,
    /// A command could not be obeyed, which fails the step.
    pub(super) failed: bool,
}

impl<'r> Output<'r> {
    pub(super) fn new(reporter: &'r dyn Reporter, workspace: &Path, masker: Masker) -> Self {
        let voice =
            Voice { masker, matchers: Matchers::default(), workspace: workspace.to_owned() };
        Self { reporter, voice: Mutex::new(voice) }
    }

    fn voice(&self) -> MutexGuard<'_, Voice> {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mask(&self, text: &str) -> String {
        self.voice().masker.mask_text(text).into_owned()
    }

    pub(super) fn has_secret(&self, text: &str) -> bool {
        self.voice().masker.occurs_in(text.as_bytes())
    }

    /// From now on these are masked.
    pub(super) fn conceal(&self, secrets: &[String]) {
        if !secrets.is_empty() {
            // What is too short to be masked is too short to be a secret.
            let _ = self.voice().masker.add_all(secrets.iter().map(String::as_str));
        }
    }

    pub(super) fn step_started(&self, step: usize, name: &str) {
        let name = self.mask(name);
        self.reporter.step_started(step, &name);
    }

    pub(super) fn step_retried(&self, step: usize, attempt: u32) {
        self.reporter.step_retried(step, attempt);
    }

    pub(super) fn step_finished(&self, step: usize, end: StepEnd) {
        self.reporter.step_finished(step, end);
    }

    pub(super) fn summary(&self, step: usize, markdown: &str) {
        let masked = self.mask(markdown);
        self.reporter.summary(step, &masked);
    }

    pub(super) fn uploading(&self) {
        self.reporter.uploading();
    }

    /// Lets those who watch hear what was said so far.
    pub(super) fn flush(&self) {
        self.reporter.flush();
    }

    /// Writes lines of our own to the log.
    pub(super) fn say(&self, step: usize, text: &str) {
        self.voice().say(self.reporter, step, text);
    }

    /// An error that is not the process's own.
    pub(super) fn error(&self, step: usize, message: &str) {
        self.voice().error(self.reporter, step, message);
    }
}

impl Voice {
    fn say(&mut self, reporter: &dyn Reporter, step: usize, text: &str) {
        for line in text.lines() {
            let masked = self.masker.mask_line(line.as_bytes());
            reporter.line(step, &masked);
        }
    }

    fn error(&mut self, reporter: &dyn Reporter, step: usize, message: &str) {
        self.say(reporter, step, &format!("##[error]{message}"));
        let annotation =
            Annotation::new(Severity::Error, self.masker.mask_text(message).into_owned());
        reporter.annotation(step, &annotation);
    }

    /// Returns whether the file could be used.
    fn add_matcher(&mut self, reporter: &dyn Reporter, step: usize, file: &str) -> bool {
        let path = self.workspace.join(file);
        let added = read_matcher(&path)
            .map_err(|error| format!("cannot read the problem matcher `{file}`: {error}"))
            .and_then(|text| matcher::parse(&text).map_err(|error| format!("`{file}`: {error}")));
        match added {
            Ok(configs) => {
                self.matchers.add(configs);
                true
            }
            Err(message) => {
                self.error(reporter, step, &message);
                false
            }
        }
    }

    fn remove_matcher(&mut self, which: &MatcherRef) {
        match which {
            MatcherRef::Owner(owner) => self.matchers.remove(owner),
            MatcherRef::File(file) => {
                let text = read_matcher(&self.workspace.join(file)).unwrap_or_default();
                for config in matcher::parse(&text).unwrap_or_default() {
                    self.matchers.remove(&config.owner);
                }
            }
        }
    }
}

/// Reads a plain file of a sensible size. A step may name anything, and nobody waits for a pipe.
fn read_matcher(path: &Path) -> io::Result<Vec<u8>> {
    const MOST: u64 = 1 << 20;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > MOST {
        return Err(io::Error::other("it is no file, or larger than 1 MiB"));
    }
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text)?;
    Ok(text)
}

/// The output of one step.
pub(super) struct StepSink<'s, 'r> {
    output: &'s Output<'r>,
    /// Held from a line until the next flush, since a lock for each line of millions would be felt.
    voice: Option<MutexGuard<'s, Voice>>,
    step: usize,
    processor: Processor,
    quota: Quota,
    carries: [Carry; 2],
    /// Whether a long line of the stream is still open.
    open: [bool; 2],
    matching: [matcher::Progress; 2],
    pub(super) said: Said,
}

impl<'s, 'r> StepSink<'s, 'r> {
    pub(super) fn new(output: &'s Output<'r>, step: usize, allow_unsecure: bool) -> Self {
        let workspace = output.voice().workspace.clone();
        let options = Options { workspace, allow_unsecure, ..Options::default() };
        Self {
            output,
            voice: None,
            step,
            processor: Processor::new(options),
            quota: Quota::default(),
            carries: [Carry::default(), Carry::default()],
            open: [false; 2],
            matching: [matcher::Progress::default(), matcher::Progress::default()],
            said: Said::default(),
        }
    }

    fn voice(&mut self) -> &mut Voice {
        self.voice.get_or_insert_with(|| self.output.voice())
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Annotate(annotation) => self.annotate(annotation),
            Command::AddMask(value) => {
                // The processor has already refused what cannot be masked, with a warning.
                let _ = self.voice().masker.add(&value);
            }
            Command::AddMatcher(file) => {
                let (reporter, step) = (self.output.reporter, self.step);
                let added = self.voice().add_matcher(reporter, step, &file);
                self.said.failed |= !added;
            }
            Command::RemoveMatcher(which) => self.voice().remove_matcher(&which),
            Command::SetOutput { name, value } => self.said.outputs.push((name, value)),
            Command::SaveState { name, value } => self.said.state.push((name, value)),
            Command::SetEnv { name, value } => self.said.env.push((name, value)),
            Command::AddPath(entry) => self.said.path.push(entry),
            Command::Group(_)
            | Command::EndGroup
            | Command::Debug(_)
            | Command::Echo(_)
            | Command::StopCommands(_)
            | Command::InternalSetRepoPath { .. } => {}
        }
    }

    fn annotate(&mut self, annotation: Annotation) {
        let voice = self.voice.get_or_insert_with(|| self.output.voice());
        if let Some(annotation) = self.quota.admit(annotation, &voice.masker) {
            self.output.reporter.annotation(self.step, &annotation);
        }
    }

    fn whole_line(&mut self, stream: usize, line: &[u8]) {
        let Some(processed) = self.processor.line(line) else { return self.text(stream, line) };
        self.said.failed |= processed.failed;
        for command in processed.commands {
            self.obey(command);
        }
        let (reporter, step) = (self.output.reporter, self.step);
        for line in processed.log {
            self.voice().say(reporter, step, &line);
        }
    }

    /// Ordinary output: problem matchers read it, the log shows it.
    fn text(&mut self, stream: usize, line: &[u8]) {
        let voice = &mut **self.voice.get_or_insert_with(|| self.output.voice());
        if !voice.matchers.is_empty() {
            let files = Files { repository: &voice.workspace, is_file: &|path| path.is_file() };
            let scanned = voice.matchers.scan(&mut self.matching[stream], line, files);
            for warning in scanned.warnings {
                voice.say(self.output.reporter, self.step, &format!("##[warning]{warning}"));
            }
            if let Some((annotation, shown)) = scanned.found {
                voice.say(self.output.reporter, self.step, &shown);
                return self.annotate(annotation);
            }
        }
        let masked = voice.masker.mask_line(line);
        self.output.reporter.line(self.step, &masked);
    }
}

impl Sink for StepSink<'_, '_> {
    fn line(&mut self, stream: Stream, text: &[u8], ending: Ending) {
        let stream = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        let continues = ending == Ending::Continued;
        let was_open = std::mem::replace(&mut self.open[stream], continues);
        if !continues && !was_open {
            return self.whole_line(stream, text);
        }
        // A line this long is text: it is masked piece by piece and read for nothing else.
        let voice = &mut **self.voice.get_or_insert_with(|| self.output.voice());
        let masked = voice.masker.mask_chunk(&mut self.carries[stream], text, !continues);
        self.output.reporter.line(self.step, &masked);
    }

    fn flush(&mut self) {
        if self.voice.take().is_some() {
            self.output.reporter.flush();
        }
    }
}
