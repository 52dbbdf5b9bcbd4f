//! Who is at the other end of a connection on loopback, and whether they descend from a process that was started
//! here. An environment can be read and copied by others of the same user; parents cannot be chosen.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

use super::sweep::{Member, descendants, read_entry};

/// A process may speak before whoever started it knows its number.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process that is going to be started, or runs, or has ended: see [`super::Tree::led_by`].
#[derive(Debug, Clone, Default)]
pub struct Leader(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Expected,
    Runs(Member),
    Ended,
}

impl Leader {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, state: State) {
        *self.state() = state;
        self.0.changed.notify_all();
    }

    /// It runs from now on. One that has ended already is none.
    pub(super) fn began(&self, pid: Pid) {
        let pid = pid.as_raw_pid();
        let member = read_entry(pid).map(|entry| Member { pid, start: entry.start });
        self.turn(member.map_or(State::Ended, State::Runs));
    }

    pub(super) fn ended(&self) {
        self.turn(State::Ended);
    }

    /// It is this process itself, which asks in its own name.
    #[cfg(test)]
    pub(crate) fn is_this_process(&self) {
        self.began(rustix::process::getpid());
    }

    /// It is another process, as long as the answer is kept.
    #[cfg(test)]
    pub(crate) fn is_another(&self) -> Another {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        self.began(Pid::from_child(&child));
        Another(child)
    }

    /// Whether a connection comes from this process, or from one that it started, directly or not. What lost its
    /// parent on the way has lost its right.
    pub(crate) fn is_at(&self, peer: SocketAddr, here: SocketAddr) -> bool {
        let expected = |state: &mut State| matches!(state, State::Expected);
        let waited = self.0.changed.wait_timeout_while(self.state(), PATIENCE, expected);
        let state = *waited.unwrap_or_else(PoisonError::into_inner).0;
        let State::Runs(leader) = state else { return false };
        let Some(socket) = socket_of(peer, here) else { return false };
        let members: BTreeSet<Member> = descendants(leader);
        members.iter().any(|member| member.is_alive() && holds(member.pid, &socket))
    }
}

#[cfg(test)]
pub(crate) struct Another(std::process::Child);

#[cfg(test)]
impl Drop for Another {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// How a process names the end of a connection that has this address, in `/proc/PID/fd`.
fn socket_of(own: SocketAddr, other: SocketAddr) -> Option<String> {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].into_iter().find_map(|table| {
        let text = fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| inode(line, own, other))
    })
}

/// The inode of a line of such a table, if it is about this connection.
fn inode(line: &str, own: SocketAddr, other: SocketAddr) -> Option<String> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (from, to) = (fields.next()?, fields.next()?);
    if !is_address(from, own) || !is_address(to, other) {
        return None;
    }
    let inode: u64 = fields.nth(6)?.parse().ok()?;
    // Nobody has what is zero any more.
    (inode != 0).then(|| format!("socket:[{inode}]"))
}

/// Addresses are written as words of the machine, in hexadecimals.
fn is_address(text: &str, address: SocketAddr) -> bool {
    let Some((host, port)) = text.split_once(':') else { return false };
    if u16::from_str_radix(port, 16) != Ok(address.port()) {
        return false;
    }
    let words = |bytes: &[u8]| -> String {
        let (words, _) = bytes.as_chunks::<4>();
        let mut text = String::new();
        for word in words {
            let _ = write!(text, "{:08X}", u32::from_ne_bytes(*word));
        }
        text
    };
    match address.ip() {
        IpAddr::V4(ip) => {
            host == words(&ip.octets()) || host == words(&ip.to_ipv6_mapped().octets())
        }
        IpAddr::V6(ip) => host == words(&ip.octets()),
    }
}

fn holds(pid: i32, socket: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut ends = files.filter_map(|file| fs::read_link(file.path()).ok());
    ends.any(|end| end.as_os_str() == socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let check = |text: &str, address: &str, expect: bool| {
            assert_eq!(is_address(text, address.parse().unwrap()), expect, "{text} {address}");
        };
        check("0100007F:1F90", "127.0.0.1:8080", cfg!(target_endian = "little"));
        check("0100007F:1F91", "127.0.0.1:8080", false);
        check("0200007F:1F90", "127.0.0.1:8080", false);
        check(
            "0000000000000000FFFF00000100007F:1F90",
            "127.0.0.1:8080",
            cfg!(target_endian = "little"),
        );
        check(
            "00000000000000000000000001000000:1F90",
            "[::1]:8080",
            cfg!(target_endian = "little"),
        );
        check("nonsense", "127.0.0.1:8080", false);
    }

    #[test]
    fn a_connection_is_of_whoever_holds_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let here = server.local_addr().unwrap();
        let own = Leader::default();
        own.is_this_process();
        assert!(own.is_at(peer, here));
        // Another process of the same user, which is not behind it.
        let stranger = Leader::default();
        let other = stranger.is_another();
        assert!(!stranger.is_at(peer, here));
        drop(other);
        assert!(!stranger.is_at(peer, here), "it has ended");
        own.ended();
        assert!(!own.is_at(peer, here));
        drop(client);
    }
}
