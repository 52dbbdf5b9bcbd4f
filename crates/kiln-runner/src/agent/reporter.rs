//! Writes what happens in a job to its spool, and wakes those who deliver it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_proto::log::{Line, truncated};
use kiln_proto::report::{self, Complete, Event, What};
use tokio::sync::watch;

use crate::job::{Annotation, Reporter, StepEnd};

use super::clock;
use super::spool::Spool;

/// So many bytes are written at once.
const BATCH: usize = 64 * 1024;

/// How much of a job can be delivered.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Bytes of the log.
    pub(super) log: u64,
    /// The number of events.
    pub(super) events: u64,
    /// How it ended.
    pub(super) complete: Option<Arc<Complete>>,
}

pub(super) struct SpoolReporter {
    spool: Spool,
    written: Mutex<Written>,
    progress: watch::Sender<Progress>,
}

struct Written {
    log: BufWriter<File>,
    events: File,
    bytes: u64,
    sequence: u64,
    /// How many more bytes the log may have; nothing once it was cut.
    room: Option<u64>,
    limit: u64,
    failed: Option<io::Error>,
    /// The disk is full, or worse: what is promised must not be more than what is there.
    log_ends: bool,
    events_end: bool,
    /// How long the file of events is.
    event_bytes: u64,
    line: Vec<u8>,
}

impl SpoolReporter {
    /// A limit of 0 is none.
    pub(super) fn new(
        spool: &Spool,
        limit: u64,
        progress: watch::Sender<Progress>,
    ) -> io::Result<Self> {
        let limit = if limit == 0 { u64::MAX } else { limit };
        let written = Written {
            log: BufWriter::with_capacity(BATCH, Spool::make(&spool.log())?),
            events: Spool::make(&spool.events())?,
            bytes: 0,
            sequence: 0,
            room: Some(limit),
            limit,
            failed: None,
            log_ends: false,
            events_end: false,
            event_bytes: 0,
            line: Vec::new(),
        };
        Ok(Self { spool: spool.clone(), written: Mutex::new(written), progress })
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn event(&self, what: What) {
        let mut written = self.written();
        written.event(what);
        self.wake(&mut written);
    }

    /// An error that no step is to blame for.
    pub(super) fn error(&self, message: &str) {
        let mut written = self.written();
        for line in message.lines() {
            written.line(0, format!("##[error]{line}").as_bytes());
        }
        self.wake(&mut written);
    }

    /// Lets those who deliver have what there is.
    fn wake(&self, written: &mut Written) {
        let flushed = written.log.flush();
        written.note_log(flushed);
        if written.log_ends {
            let there = fs::metadata(self.spool.log()).map_or(0, |log| log.len());
            written.bytes = written.bytes.min(there);
        }
        let (log, events) = (written.bytes, written.sequence);
        self.progress.send_if_modified(|progress| {
            let is_more = progress.log != log || progress.events != events;
            (progress.log, progress.events) = (log, events);
            is_more
        });
    }

    /// What went wrong with the files, if anything did.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.written().failed.take()
    }

    /// Nothing more happens: writes down how the job ended and lets it be delivered.
    pub(super) fn finish(&self, mut complete: Complete) {
        let mut written = self.written();
        self.wake(&mut written);
        (complete.log_bytes, complete.sequence) = (written.bytes, written.sequence);
        if let Err(error) = self.spool.complete(&complete) {
            // It is delivered from memory; only a crash before that would lose it.
            tracing::warn!("cannot write down how a job ended: {error}");
        }
        self.progress.send_modify(|progress| progress.complete = Some(Arc::new(complete)));
    }
}

impl Written {
    /// Over the limit the job goes on, and the log says where it was cut.
    fn line(&mut self, step: usize, text: &[u8]) {
        let Some(room) = self.room.filter(|_| !self.log_ends) else { return };
        let cut;
        let mut text = text;
        if (text.len() as u64) >= room {
            self.room = None;
            cut = truncated(self.limit);
            text = cut.as_bytes();
        }
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        self.line.clear();
        Line { at: clock::now_ms(), step, text }.write(&mut self.line);
        let length = self.line.len() as u64;
        self.room = self.room.map(|room| room.saturating_sub(length));
        let result = self.log.write_all(&self.line);
        self.bytes += length;
        self.note_log(result);
    }

    fn event(&mut self, what: What) {
        if self.events_end {
            return;
        }
        let event = Event { sequence: self.sequence + 1, at: clock::now_ms(), what };
        let Ok(mut text) = serde_json::to_vec(&event) else { return };
        text.push(b'\n');
        let result = self.events.write_all(&text);
        if result.is_ok() {
            self.sequence += 1;
            self.event_bytes += text.len() as u64;
        } else {
            // Half an event is none.
            self.events_end = true;
            let _ = self.events.set_len(self.event_bytes);
        }
        self.note(result);
    }

    fn note_log(&mut self, result: io::Result<()>) {
        self.log_ends |= result.is_err();
        self.note(result);
    }

    /// The first failure counts.
    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}

impl Reporter for SpoolReporter {
    fn step_started(&self, step: usize, name: &str) {
        self.event(What::StepStarted { step: number(step), name: name.to_owned() });
    }

    fn line(&self, step: usize, line: &[u8]) {
        self.written().line(step, line);
    }

    fn step_retried(&self, step: usize, failed_try: u32) {
        self.event(What::StepRetried { step: number(step), failed_try });
    }

    fn step_finished(&self, step: usize, end: StepEnd) {
        self.event(What::StepFinished {
            step: number(step),
            outcome: end.outcome.github().to_owned(),
            conclusion: end.conclusion.github().to_owned(),
            exit_code: end.exit_code,
        });
    }

    fn annotation(&self, step: usize, annotation: &Annotation) {
        let Annotation { title, file, line, end_line, column, end_column, code, .. } =
            annotation.clone();
        self.event(What::Annotation(report::Annotation {
            step: number(step),
            severity: annotation.severity.as_str().to_owned(),
            message: annotation.message.clone(),
            title,
            file,
            line,
            end_line,
            column,
            end_column,
            code,
        }));
    }

    fn summary(&self, step: usize, markdown: &str) {
        self.event(What::Summary { step: number(step), markdown: markdown.to_owned() });
    }

    fn uploading(&self) {
        self.event(What::Uploading);
    }

    fn flush(&self) {
        self.wake(&mut self.written());
    }
}

fn number(step: usize) -> u32 {
    u32::try_from(step).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use kiln_proto::job::JobRef;

    use super::super::spool::State;
    use super::*;

    fn spool(data: &std::path::Path) -> Spool {
        Spool::prepare(data).unwrap();
        let job = JobRef { job_id: 1, attempt: 1 };
        let spool = Spool::of(data, job);
        let (name, token, tree) = (String::new(), String::new(), String::new());
        spool.create(&State { job, name, token, tree }).unwrap();
        spool
    }

    #[test]
    fn a_full_disk_ends_what_is_promised_with_what_is_there() {
        let data = tempfile::tempdir().unwrap();
        let spool = spool(data.path());
        let (sender, progress) = watch::channel(Progress::default());
        let reporter = SpoolReporter::new(&spool, 0, sender).unwrap();
        reporter.step_started(0, "x");
        reporter.line(0, b"there");
        reporter.flush();
        let there = fs::metadata(spool.log()).unwrap().len();
        let full = || File::options().write(true).open("/dev/full").unwrap();
        reporter.written().log = BufWriter::with_capacity(1, full());
        reporter.written().events = full();
        reporter.line(0, b"lost");
        reporter.step_started(1, "y");
        reporter.finish(Complete { conclusion: "failure".into(), ..Complete::default() });
        let progress = progress.borrow();
        let complete = progress.complete.as_ref().unwrap();
        assert_eq!((complete.log_bytes, complete.sequence), (there, 1));
        assert!(reporter.failure().is_some());
    }

    /// S13
    #[test]
    fn a_log_is_cut_at_a_line_and_says_where_while_events_go_on() {
        let data = tempfile::tempdir().unwrap();
        let spool = spool(data.path());
        let (sender, progress) = watch::channel(Progress::default());
        let reporter = SpoolReporter::new(&spool, 40, sender).unwrap();
        reporter.step_started(0, "x");
        for text in ["first", "a text that is longer than what is left", "more"] {
            reporter.line(0, text.as_bytes());
        }
        reporter.flush();
        reporter.finish(Complete { conclusion: "success".into(), ..Complete::default() });
        let log = fs::read_to_string(spool.log()).unwrap();
        let texts: Vec<&str> =
            log.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
        assert_eq!(texts, ["first", "[... log truncated at 40 bytes]"]);
        let progress = progress.borrow();
        assert_eq!((progress.log, progress.events), (log.len() as u64, 1));
        assert_eq!(progress.complete.as_ref().unwrap().log_bytes, log.len() as u64);
        assert!(reporter.failure().is_none());
    }
}
