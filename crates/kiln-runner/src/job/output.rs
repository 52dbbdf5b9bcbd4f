//! What a step prints: commands are obeyed, secrets masked, problems matched, the rest is the log.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Ending, Sink, Stream};

use super::annotations::{Annotation, Quota, Severity};
use super::commands::{Command, MatcherRef, Options, Processor};
use super::mask::{Carry, Masker};
use super::matcher::{self, Files, Matchers};
use super::task::Reporter;

/// How much log a job may write before the rest is dropped.
const MAX_LOG_BYTES: u64 = 4 << 30;

/// What the steps of a job say, and who hears it.
pub(super) struct Output<'r> {
    reporter: &'r mut dyn Reporter,
    pub(super) masker: Masker,
    matchers: Matchers,
    workspace: PathBuf,
    written: u64,
    cut: bool,
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
    pub(super) fn new(reporter: &'r mut dyn Reporter, workspace: &Path) -> Self {
        Self {
            reporter,
            masker: Masker::default(),
            matchers: Matchers::default(),
            workspace: workspace.to_owned(),
            written: 0,
            cut: false,
        }
    }

    pub(super) fn reporter(&mut self) -> &mut dyn Reporter {
        self.reporter
    }

    /// Writes a line of our own to the log.
    pub(super) fn say(&mut self, step: usize, text: &str) {
        for line in text.lines() {
            let masked = self.masker.mask_line(line.as_bytes());
            self.log(step, &masked);
        }
    }

    /// An error that is not the process's own.
    pub(super) fn error(&mut self, step: usize, message: &str) {
        self.say(step, &format!("##[error]{message}"));
        let annotation =
            Annotation::new(Severity::Error, self.masker.mask_text(message).into_owned());
        self.reporter.annotation(step, &annotation);
    }

    /// Over the cap the job goes on, and the log says where it was cut.
    fn log(&mut self, step: usize, line: &[u8]) {
        if self.cut {
            return;
        }
        self.written += line.len() as u64 + 1;
        if self.written > MAX_LOG_BYTES {
            self.cut = true;
            let mark =
                format!("[the log was cut here: it is longer than {} MiB]", MAX_LOG_BYTES >> 20);
            self.reporter.line(step, mark.as_bytes());
            return;
        }
        self.reporter.line(step, line);
    }

    fn add_matcher(&mut self, step: usize, file: &str) {
        let path = self.workspace.join(file);
        let added = fs::read_to_string(&path)
            .map_err(|error| format!("cannot read the problem matcher `{file}`: {error}"))
            .and_then(|text| {
                matcher::parse(text.as_bytes()).map_err(|error| format!("`{file}`: {error}"))
            });
        match added {
            Ok(configs) => self.matchers.add(configs),
            Err(message) => self.error(step, &message),
        }
    }

    fn remove_matcher(&mut self, which: &MatcherRef) {
        match which {
            MatcherRef::Owner(owner) => self.matchers.remove(owner),
            MatcherRef::File(file) => {
                let text = fs::read(self.workspace.join(file)).unwrap_or_default();
                for config in matcher::parse(&text).unwrap_or_default() {
                    self.matchers.remove(&config.owner);
                }
            }
        }
    }
}

/// The output of one step.
pub(super) struct StepSink<'s, 'r> {
    output: &'s mut Output<'r>,
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
    pub(super) fn new(output: &'s mut Output<'r>, step: usize, allow_unsecure: bool) -> Self {
        let options =
            Options { workspace: output.workspace.clone(), allow_unsecure, ..Options::default() };
        Self {
            output,
            step,
            processor: Processor::new(options),
            quota: Quota::default(),
            carries: [Carry::default(), Carry::default()],
            open: [false; 2],
            matching: [matcher::Progress::default(), matcher::Progress::default()],
            said: Said::default(),
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Annotate(annotation) => self.annotate(annotation),
            Command::AddMask(value) => {
                // The processor has already refused what cannot be masked, with a warning.
                let _ = self.output.masker.add(&value);
            }
            Command::AddMatcher(file) => self.output.add_matcher(self.step, &file),
            Command::RemoveMatcher(which) => self.output.remove_matcher(&which),
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
        if let Some(annotation) = self.quota.admit(annotation, &self.output.masker) {
            self.output.reporter.annotation(self.step, &annotation);
        }
    }

    fn whole_line(&mut self, stream: usize, line: &[u8]) {
        let Some(processed) = self.processor.line(line) else { return self.text(stream, line) };
        self.said.failed |= processed.failed;
        for command in processed.commands {
            self.obey(command);
        }
        for line in processed.log {
            self.output.say(self.step, &line);
        }
    }

    /// Ordinary output: problem matchers read it, the log shows it.
    fn text(&mut self, stream: usize, line: &[u8]) {
        let output = &mut *self.output;
        if !output.matchers.is_empty() {
            let files = Files { repository: &output.workspace, is_file: &|path| path.is_file() };
            let scanned = output.matchers.scan(&mut self.matching[stream], line, files);
            for warning in scanned.warnings {
                output.say(self.step, &format!("##[warning]{warning}"));
            }
            if let Some((annotation, shown)) = scanned.found {
                output.say(self.step, &shown);
                return self.annotate(annotation);
            }
        }
        let masked = output.masker.mask_line(line);
        output.log(self.step, &masked);
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
        let masked = self.output.masker.mask_chunk(&mut self.carries[stream], text, !continues);
        self.output.log(self.step, &masked);
    }

    fn flush(&mut self) {
        self.output.reporter.flush();
    }
}
