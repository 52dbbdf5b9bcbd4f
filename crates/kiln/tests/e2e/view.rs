//! `kiln run` on a terminal.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::Place;
use crate::run::{find, jobs, repository, wait_for};

const COLUMNS: u16 = 40;
const ROWS: u16 = 10;

/// Starts kiln on a terminal of its own and returns the other side of it.
fn on_a_terminal(place: &Place, args: &[&str]) -> (Child, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has terminals");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it is ours");
    let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size).expect("a terminal has a size");
    let name = ptsname(&ours, Vec::new()).expect("a terminal has a name");
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())
        .expect("the other side can be opened");
    let child = place
        .command("", args)
        .env("TERM", "xterm-256color")
        .env_remove("CI")
        .stdin(Stdio::null())
        .stdout(Stdio::from(theirs))
        .spawn()
        .expect("the binary was built for this test");
    (child, ours)
}

/// All that was written until the program had ended.
fn written(terminal: OwnedFd) -> String {
    let (mut terminal, mut all) = (File::from(terminal), Vec::new());
    let mut piece = [0; 4096];
    // Once nobody holds the other side, reading fails.
    while let Ok(count @ 1..) = terminal.read(&mut piece) {
        all.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(all).expect("it writes text")
}

/// The text without escape sequences.
fn bare(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| {
        part.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default()
    });
    first + &rest.collect::<String>()
}

#[test]
fn jobs_are_shown_live_within_the_size_of_the_terminal() {
    let place = repository(&jobs(
        "  bad:\n    runs-on: x\n    steps:\n      - name: A step with a name that is far too long for it\n        run: sleep 0.4; echo oh no; exit 3\n  \
         crowd:\n    runs-on: x\n    strategy: {matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 日本語]}}\n    steps: [{run: sleep 0.6}]\n",
    ));
    let (mut child, terminal) = on_a_terminal(&place, &["run", "--jobs", "10"]);
    let all = written(terminal);
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{all}");
    let mut frames = all.split("\x1b[?2026h").skip(1).peekable();
    assert!(frames.peek().is_some(), "{all:?}");
    for frame in frames {
        let frame = frame.split("\x1b[?2026l").next().expect("a frame ends");
        let text = bare(frame);
        // What scrolls away stands above the lines that move.
        let moving: Vec<&str> =
            text.split("\r\n").skip_while(|line| !line.starts_with('⠋')).collect();
        assert!(moving.len() <= usize::from(ROWS) - 4, "{text}");
        for line in moving {
            assert!(line.chars().count() < usize::from(COLUMNS), "{line}");
        }
    }
    let text = bare(&all);
    for expected in
        ["of 10 jobs · 10 running", "… and 6 more", "bad failed\r\n", "  oh no\r\n", "✓ crowd (8)"]
    {
        assert!(text.contains(expected), "{expected} not in {text}");
    }
    assert!(text.contains("10 jobs: 9 succeeded, 1 failed") && text.contains("logs: "), "{text}");
    assert!(!all.contains("\x1b[?25l"), "the cursor stays: {all:?}");
}

/// S14
#[test]
fn an_interrupt_is_answered_on_the_terminal() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps: [{run: \"trap '' INT; echo ready > ../../ready; sleep 1\"}]\n",
    ));
    let (mut child, terminal) = on_a_terminal(&place, &["run"]);
    let state = place.path().join(".git/kiln-state");
    wait_for(|| find(&state, "ready"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let text = bare(&written(terminal));
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{text}");
    assert!(text.contains("cancelling… press Ctrl-C again to end…"), "{text}");
}

#[test]
fn a_terminal_that_cannot_move_gets_lines_and_no_colour_is_respected() {
    let place = repository(&jobs("  a:\n    runs-on: x\n    steps: [{run: echo hello}]\n"));
    let (mut child, terminal) = on_a_terminal(&place, &["run", "--progress", "plain"]);
    let all = written(terminal);
    child.wait().expect("it ends");
    assert!(bare(&all).contains("a │ hello") && !all.contains("\x1b[?2026h"), "{all:?}");
    let (mut child, terminal) = on_a_terminal(&place, &["run", "--color", "never"]);
    let all = written(terminal);
    child.wait().expect("it ends");
    assert!(bare(&all).contains("✓ a") && !all.contains("\x1b[32m"), "{all:?}");
    let refused = place.kiln(&["run", "--progress", "live"]);
    assert!(refused.code(2).err.contains("needs a terminal"), "{refused:#?}");
}
