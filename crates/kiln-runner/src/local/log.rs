//! The log of a leg on disk, and what watchers hear of it.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use kiln_core::run::LegNo;

use crate::job::{Annotation, Reporter, StepEnd};

use super::Progress;

/// So many bytes are written or told at once.
const BATCH: usize = 64 * 1024;

pub(super) struct LegReporter<'p> {
    leg: LegNo,
    file: BufWriter<File>,
    /// Lines that the watchers have not heard yet. They hear many at once: a call for each would cost
    /// more than all that is done with a line before.
    unheard: Vec<u8>,
    failed: Option<std::io::Error>,
    progress: &'p (dyn Fn(Progress) + Sync),
}

impl<'p> LegReporter<'p> {
    pub(super) fn new(
        leg: LegNo,
        path: &Path,
        progress: &'p (dyn Fn(Progress) + Sync),
    ) -> Result<Self, String> {
        let file = File::create(path)
            .map_err(|error| format!("cannot write the log `{}`: {error}", path.display()))?;
        let file = BufWriter::with_capacity(BATCH, file);
        Ok(Self { leg, file, unheard: Vec::new(), failed: None, progress })
    }

    /// Tells the watchers something, after all lines that came before it.
    fn tell(&mut self, progress: Progress) {
        self.tell_lines();
        (self.progress)(progress);
    }

    fn tell_lines(&mut self) {
        if !self.unheard.is_empty() {
            let text = std::mem::take(&mut self.unheard);
            (self.progress)(Progress::Lines { leg: self.leg, text });
        }
    }

    fn write(&mut self, line: &[u8]) {
        let written = self.file.write_all(line).and_then(|()| self.file.write_all(b"\n"));
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// A log that could not be written fails the job: nobody should trust half of one.
    pub(super) fn finish(mut self) -> Result<(), String> {
        self.flush();
        match self.failed {
            Some(error) => Err(format!("the log could not be written: {error}")),
            None => Ok(()),
        }
    }
}

impl Reporter for LegReporter<'_> {
    fn step_started(&mut self, step: usize, name: &str) {
        self.write(format!("##[step]{name}").as_bytes());
        self.tell(Progress::StepStarted { leg: self.leg, step, name: name.to_owned() });
    }

    fn line(&mut self, _step: usize, line: &[u8]) {
        self.write(line);
        if self.unheard.len() + line.len() >= BATCH {
            self.tell_lines();
        }
        self.unheard.extend_from_slice(line);
        self.unheard.push(b'\n');
    }

    fn step_finished(&mut self, step: usize, end: StepEnd) {
        self.tell(Progress::StepFinished { leg: self.leg, step, end });
    }

    fn annotation(&mut self, _step: usize, annotation: &Annotation) {
        self.tell(Progress::Annotation { leg: self.leg, annotation: annotation.clone() });
    }

    fn summary(&mut self, _step: usize, markdown: &str) {
        self.tell(Progress::Summary { leg: self.leg, markdown: markdown.to_owned() });
    }

    fn flush(&mut self) {
        self.tell_lines();
        if let Err(error) = self.file.flush() {
            self.failed.get_or_insert(error);
        }
    }
}
