//! The log of a leg on disk, and what watchers hear of it.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kiln_core::run::LegNo;
use kiln_proto::log::truncated;

use crate::job::{Annotation, Reporter, StepEnd};

use super::Progress;

/// So many bytes are written or told at once.
const BATCH: usize = 64 * 1024;

pub(super) struct LegReporter<'p> {
    leg: LegNo,
    log: Mutex<Log>,
    progress: &'p (dyn Fn(Progress) + Sync),
}

struct Log {
    file: BufWriter<File>,
    /// How many more bytes the file may have; nothing once it was cut.
    room: Option<u64>,
    limit: u64,
    failed: Option<io::Error>,
    /// The names of the steps so far, and which of them wrote last.
    steps: Vec<String>,
    speaker: usize,
    /// Lines of the speaker that the watchers have not heard yet. They hear many at once: a call for each
    /// would cost more than all that is done with a line before.
    unheard: Vec<u8>,
}

impl Log {
    /// Over the limit the job goes on, and the log says where it was cut.
    fn write(&mut self, line: &[u8]) {
        let Some(room) = self.room else { return };
        self.room = room.checked_sub(line.len() as u64 + 1);
        if self.room.is_some() {
            self.append(line);
        } else {
            self.append(truncated(self.limit).as_bytes());
        }
    }

    fn append(&mut self, line: &[u8]) {
        let written = self.file.write_all(line).and_then(|()| self.file.write_all(b"\n"));
        self.note(written);
    }

    /// The first failure counts.
    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }

    fn start(&mut self, step: usize, name: &str) {
        if self.steps.len() <= step {
            self.steps.resize(step + 1, String::new());
        }
        name.clone_into(&mut self.steps[step]);
        self.speak(step);
    }

    /// Steps that run side by side take turns in the log; it says whose lines follow.
    fn speak(&mut self, step: usize) {
        self.speaker = step;
        let name = self.steps.get(step).map_or("", String::as_str);
        let head = format!("##[step]{name}");
        self.write(head.as_bytes());
    }
}

impl<'p> LegReporter<'p> {
    pub(super) fn new(
        leg: LegNo,
        path: &Path,
        limit: u64,
        progress: &'p (dyn Fn(Progress) + Sync),
    ) -> Result<Self, String> {
        let file = File::create(path)
            .map_err(|error| format!("cannot write the log `{}`: {error}", path.display()))?;
        let log = Log {
            file: BufWriter::with_capacity(BATCH, file),
            room: Some(limit),
            limit,
            failed: None,
            steps: Vec::new(),
            speaker: 0,
            unheard: Vec::new(),
        };
        Ok(Self { leg, log: Mutex::new(log), progress })
    }

    /// Tells the watchers something, after all lines that came before it.
    fn tell(&self, progress: Progress) {
        let mut log = self.log();
        self.tell_lines(&mut log);
        (self.progress)(progress);
    }

    fn tell_lines(&self, log: &mut Log) {
        if !log.unheard.is_empty() {
            let text = std::mem::take(&mut log.unheard);
            (self.progress)(Progress::Lines { leg: self.leg, step: log.speaker, text });
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log that could not be written fails the job: nobody should trust half of one.
    pub(super) fn finish(self) -> Result<(), String> {
        self.flush();
        let log = self.log.into_inner().unwrap_or_else(PoisonError::into_inner);
        match log.failed {
            Some(error) => Err(format!("the log could not be written: {error}")),
            None => Ok(()),
        }
    }
}

impl Reporter for LegReporter<'_> {
    fn step_started(&self, step: usize, name: &str) {
        let mut log = self.log();
        self.tell_lines(&mut log);
        log.start(step, name);
        (self.progress)(Progress::StepStarted { leg: self.leg, step, name: name.to_owned() });
    }

    fn line(&self, step: usize, line: &[u8]) {
        let mut log = self.log();
        if log.speaker != step {
            self.tell_lines(&mut log);
            log.speak(step);
        }
        log.write(line);
        if log.unheard.len() + line.len() >= BATCH {
            self.tell_lines(&mut log);
        }
        log.unheard.extend_from_slice(line);
        log.unheard.push(b'\n');
    }

    fn step_retried(&self, step: usize, failed_try: u32) {
        self.tell(Progress::StepRetried { leg: self.leg, step, failed_try });
    }

    fn step_finished(&self, step: usize, end: StepEnd) {
        self.tell(Progress::StepFinished { leg: self.leg, step, end });
    }

    fn annotation(&self, _step: usize, annotation: &Annotation) {
        self.tell(Progress::Annotation { leg: self.leg, annotation: annotation.clone() });
    }

    fn summary(&self, _step: usize, markdown: &str) {
        self.tell(Progress::Summary { leg: self.leg, markdown: markdown.to_owned() });
    }

    fn flush(&self) {
        let mut log = self.log();
        self.tell_lines(&mut log);
        let flushed = log.file.flush();
        log.note(flushed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S13
    #[test]
    fn a_log_is_cut_at_a_line_and_says_where_while_watchers_hear_all() {
        let directory = tempfile::tempdir().expect("the system has a directory for such files");
        let path = directory.path().join("1.log");
        let heard = Mutex::new(Vec::new());
        let progress = |progress: Progress| {
            if let Progress::Lines { text, .. } = progress {
                heard.lock().expect("nobody panics").extend(text);
            }
        };
        let reporter = LegReporter::new(1, &path, 12, &progress).expect("it is ours");
        for line in ["first", "second", "x"] {
            reporter.line(0, line.as_bytes());
        }
        reporter.finish().expect("it is written");
        let written = std::fs::read_to_string(&path).expect("it is text");
        assert_eq!(written, "first\n[... log truncated at 12 bytes]\n");
        assert_eq!(heard.into_inner().expect("nobody panics"), b"first\nsecond\nx\n");
    }
}
