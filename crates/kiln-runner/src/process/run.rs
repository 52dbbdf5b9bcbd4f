//! Running one process until it has ended.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::child::Process;
use super::command::{Command, Ends, Started};
use super::lines::Lines;
use super::stop::{Step, Stop};
use super::{Control, Ladder, Sink, Stream, Tree, Usage, reap_orphans};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// By a signal that did not come from us.
    Signaled(i32),
    /// It ran longer than [`Limits::wall`].
    TimedOut,
    /// It printed nothing for longer than [`Limits::silence`].
    Silent,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    pub usage: Usage,
    /// Other processes still held its output open when it had ended, and nobody waits for them: a
    /// server in the background, for example. What they print from now on is lost.
    pub left_running: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub wall: Option<Duration>,
    pub silence: Option<Duration>,
    pub ladder: Ladder,
    pub patience: Patience,
}

/// How long output is read on after the process has ended while others hold it open. `… | tee log &`
/// needs a moment; a server never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Nothing came for so long.
    pub quiet: Duration,
    /// So long at most.
    pub total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { quiet: Duration::from_secs(1), total: Duration::from_secs(5) }
    }
}

/// Runs a process and passes on its output until it has ended.
///
/// When it is stopped, by `control` or a limit, all of `tree` ends with it: what runs beside others
/// needs a tree of its own ([`Tree::child`]). When it ends by itself, its children may go on.
pub fn run(
    command: &Command,
    sink: &mut dyn Sink,
    control: &Control,
    limits: &Limits,
    tree: &Tree,
) -> io::Result<Outcome> {
    watch(command.start(tree, None)?, sink, control, limits, tree)
}

/// Runs a process that reads and writes bytes of others: a file, a connection. The sink hears only
/// what it says on standard error.
pub fn run_between(
    command: &Command,
    ends: Ends,
    sink: &mut dyn Sink,
    control: &Control,
    limits: &Limits,
    tree: &Tree,
) -> io::Result<Outcome> {
    watch(command.start(tree, Some(ends))?, sink, control, limits, tree)
}

fn watch(
    started: Started,
    sink: &mut dyn Sink,
    control: &Control,
    limits: &Limits,
    tree: &Tree,
) -> io::Result<Outcome> {
    let mut running = Running::new(started, control, limits, tree);
    while !running.is_over() {
        for source in running.wait()? {
            running.take(source, sink)?;
        }
        running.keep_time();
    }
    let outcome = running.finish(sink);
    reap_orphans();
    Ok(outcome)
}

struct Running<'a> {
    process: Process,
    outputs: [Output; 2],
    /// Output of earlier processes of the tree, which is read and dropped.
    left: Vec<OwnedFd>,
    control: &'a Control,
    limits: &'a Limits,
    tree: &'a Tree,
    start: Instant,
    last_output: Instant,
    stop: Option<Stop>,
    ended: Option<Ended>,
    /// Whatever is still missing is no longer waited for.
    given_up: bool,
}

/// An end of a pipe, until it is closed on the other side.
struct Output {
    pipe: Option<OwnedFd>,
    lines: Lines,
}

struct Ended {
    at: Instant,
    status: ExitStatus,
    usage: Usage,
}

/// Something to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Exit,
    Cancel,
    Kill,
    Output(usize),
    Left(usize),
}

impl<'a> Running<'a> {
    fn new(started: Started, control: &'a Control, limits: &'a Limits, tree: &'a Tree) -> Self {
        let now = Instant::now();
        let output = |pipe, stream| Output { pipe, lines: Lines::new(stream) };
        Self {
            process: started.process,
            outputs: [
                output(started.stdout, Stream::Stdout),
                output(Some(started.stderr), Stream::Stderr),
            ],
            left: tree.take_left(),
            control,
            limits,
            tree,
            start: now,
            last_output: now,
            stop: None,
            ended: None,
            given_up: false,
        }
    }

    fn is_over(&self) -> bool {
        let closed = self.outputs.iter().all(|output| output.pipe.is_none());
        self.given_up || (self.ended.is_some() && closed)
    }

    /// Waits until something happens or is due. The sources come in the order in which they count: a
    /// process that has ended cannot be cancelled any more.
    fn wait(&self) -> io::Result<Vec<Source>> {
        let (sources, mut fds): (Vec<_>, Vec<_>) = self
            .sources()
            .map(|(source, fd)| (source, PollFd::from_borrowed_fd(fd, PollFlags::IN)))
            .unzip();
        let timeout = self.next_deadline().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec::try_from(left).expect("the time between two instants fits")
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.into_iter().zip(&fds);
        let ready = ready.filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    fn sources(&self) -> impl Iterator<Item = (Source, BorrowedFd<'_>)> {
        let exit = self.process.exit().into_iter();
        let kills = self.control.kills().filter(|_| !self.is_killed());
        let cancels = self.control.cancels().filter(|_| self.is_on_its_own());
        let outputs = self.outputs.iter().enumerate();
        let outputs = outputs.filter_map(|(at, output)| Some((at, output.pipe.as_ref()?.as_fd())));
        let left = self.left.iter().enumerate();
        exit.map(|fd| (Source::Exit, fd))
            .chain(kills.map(|fd| (Source::Kill, fd)))
            .chain(cancels.map(|fd| (Source::Cancel, fd)))
            .chain(outputs.map(|(at, fd)| (Source::Output(at), fd)))
            // From the last to the first: one that has ended is taken out of its place.
            .chain(left.rev().map(|(at, pipe)| (Source::Left(at), pipe.as_fd())))
    }

    fn take(&mut self, source: Source, sink: &mut dyn Sink) -> io::Result<()> {
        let now = Instant::now();
        match source {
            Source::Exit => {
                if let Some((status, usage)) = self.process.take_status()? {
                    if let Some(leader) = self.tree.leader() {
                        leader.ended();
                    }
                    let at = now;
                    self.ended = Some(Ended { at, status, usage });
                }
            }
            Source::Kill if self.has_ended_by_itself() => {
                self.kill();
                self.given_up = true;
            }
            Source::Kill => {
                let stop = self.stop.get_or_insert_with(|| Stop::new(End::Cancelled, now));
                stop.hurry(now);
            }
            Source::Cancel => self.stop(End::Cancelled, now),
            Source::Output(at) => self.read(at, sink)?,
            Source::Left(at) => self.drain(at),
        }
        Ok(())
    }

    fn read(&mut self, at: usize, sink: &mut dyn Sink) -> io::Result<()> {
        let output = &mut self.outputs[at];
        let Some(pipe) = &output.pipe else {
            return Ok(());
        };
        if !output.lines.read(pipe, sink)? {
            output.pipe = None;
        }
        sink.flush();
        // The time that the sink took does not count as silence.
        self.last_output = Instant::now();
        Ok(())
    }

    fn drain(&mut self, at: usize) {
        let mut nowhere = [0_u8; 16 * 1024];
        let is_open = rustix::io::read(&self.left[at], &mut nowhere).is_ok_and(|count| count > 0);
        if !is_open {
            self.left.swap_remove(at);
        }
    }

    /// Begins to stop, unless that is under way or the process has ended by itself.
    fn stop(&mut self, why: End, now: Instant) {
        if self.is_on_its_own() {
            self.stop = Some(Stop::new(why, now));
        }
    }

    fn is_on_its_own(&self) -> bool {
        self.stop.is_none() && self.ended.is_none()
    }

    fn has_ended_by_itself(&self) -> bool {
        self.stop.is_none() && self.ended.is_some()
    }

    fn is_killed(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_killed)
    }

    /// The time at which [`Running::keep_time`] has something to do, if nothing happens before.
    fn next_deadline(&self) -> Option<Instant> {
        let limits = if self.is_on_its_own() {
            [self.wall_deadline(), self.silence_deadline()]
        } else {
            [self.stop.as_ref().map(Stop::next), self.patience_deadline()]
        };
        limits.into_iter().flatten().min()
    }

    fn wall_deadline(&self) -> Option<Instant> {
        self.start.checked_add(self.limits.wall?)
    }

    fn silence_deadline(&self) -> Option<Instant> {
        self.last_output.checked_add(self.limits.silence?)
    }

    fn patience_deadline(&self) -> Option<Instant> {
        let ended = self.ended.as_ref()?.at;
        let Patience { quiet, total } = self.limits.patience;
        let quiet = self.last_output.max(ended).checked_add(quiet);
        let total = ended.checked_add(total);
        quiet.into_iter().chain(total).min()
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.patience_deadline()) {
            self.given_up = true;
        }
        if is_due(self.wall_deadline()) {
            self.stop(End::TimedOut, now);
        }
        if is_due(self.silence_deadline()) {
            self.stop(End::Silent, now);
        }
        let ladder = &self.limits.ladder;
        let step = self.stop.as_mut().and_then(|stop| stop.climb(now, ladder));
        match step {
            Some(Step::Signal(signal)) => self.process.signal_group(signal),
            Some(Step::Kill) => self.kill(),
            Some(Step::GiveUp) => self.given_up = true,
            None => {}
        }
    }

    fn kill(&self) {
        self.tree.sweep();
        // Whoever lost the mark but stayed in the group.
        self.process.signal_group(Signal::KILL);
    }

    fn finish(mut self, sink: &mut dyn Sink) -> Outcome {
        if self.stop.is_some() && !self.is_killed() {
            self.kill();
        }
        for output in &mut self.outputs {
            output.lines.finish(sink);
        }
        sink.flush();
        let pipes = self.outputs.iter_mut().filter_map(|output| output.pipe.take());
        let mut pipes: Vec<OwnedFd> = pipes.collect();
        if self.stop.is_some() {
            pipes.clear();
        }
        let left_running = !pipes.is_empty();
        self.tree.leave(self.left.into_iter().chain(pipes));
        let own_end = self.ended.as_ref().map(|ended| end_of(ended.status));
        let why = self.stop.map(|stop| stop.why);
        Outcome {
            end: why.or(own_end).expect("it is over when it ended, or was stopped in vain"),
            usage: self.ended.map(|ended| ended.usage).unwrap_or_default(),
            left_running,
        }
    }
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Signaled(signal.unwrap_or_default()),
    }
}
