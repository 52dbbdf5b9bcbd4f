//! The log of a leg on disk, and what watchers hear of it.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use kiln_core::run::LegNo;

use crate::job::{Annotation, Reporter, StepEnd};

use super::Progress;

pub(super) struct LegReporter<'p> {
    leg: LegNo,
    file: BufWriter<File>,
    failed: Option<std::io::Error>,
    progress: &'p (dyn Fn(Progress) + Sync),
}

impl<'p> LegReporter<'p> {
    pub(super) fn new(
        leg: LegNo,
        path: &Path,
        progress: &'p (dyn Fn(Progress) + Sync),
    ) -> Result<Self, String> {
        let made =
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(path));
        let file =
            made.map_err(|error| format!("cannot write the log `{}`: {error}", path.display()))?;
        Ok(Self { leg, file: BufWriter::with_capacity(64 * 1024, file), failed: None, progress })
    }

    fn write(&mut self, line: &[u8]) {
        let written = self.file.write_all(line).and_then(|()| self.file.write_all(b"\n"));
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// A log that could not be written fails the job: nobody should trust half of one.
    pub(super) fn finish(mut self) -> Result<(), String> {
        if let Err(error) = self.file.flush() {
            self.failed.get_or_insert(error);
        }
        match self.failed {
            Some(error) => Err(format!("the log could not be written: {error}")),
            None => Ok(()),
        }
    }
}

impl Reporter for LegReporter<'_> {
    fn step_started(&mut self, step: usize, name: &str) {
        self.write(format!("##[step]{name}").as_bytes());
        (self.progress)(Progress::StepStarted { leg: self.leg, step, name: name.to_owned() });
    }

    fn line(&mut self, _step: usize, line: &[u8]) {
        self.write(line);
        (self.progress)(Progress::Line { leg: self.leg, line: line.to_vec() });
    }

    fn step_finished(&mut self, step: usize, end: StepEnd) {
        (self.progress)(Progress::StepFinished { leg: self.leg, step, end });
    }

    fn annotation(&mut self, _step: usize, annotation: &Annotation) {
        (self.progress)(Progress::Annotation { leg: self.leg, annotation: annotation.clone() });
    }

    fn summary(&mut self, _step: usize, markdown: &str) {
        (self.progress)(Progress::Summary { leg: self.leg, markdown: markdown.to_owned() });
    }

    fn flush(&mut self) {
        if let Err(error) = self.file.flush() {
            self.failed.get_or_insert(error);
        }
    }
}
