//! A wire between a client and a server on this machine that fails as a test wants it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Answered with 500.
    Error,
    /// Taken, and never answered.
    Silence,
    /// The answer ends after so many bytes.
    Cut(usize),
    /// Every piece of an answer takes so long.
    Slow(Duration),
}

/// Passes connections on, except those that are to fail.
#[derive(Debug)]
pub struct Proxy {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    /// How many connections still fail.
    left: usize,
    /// Ends of connections that are open, or were.
    open: Vec<TcpStream>,
}

impl State {
    /// What becomes of the next connection.
    fn next(&mut self) -> Option<Fault> {
        self.left = self.left.checked_sub(1)?;
        self.fault
    }

    fn hang_up(&mut self) {
        for end in self.open.drain(..) {
            // It may be gone already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Proxy {
    /// In front of a port of this machine. Nothing fails yet.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = listener.local_addr().expect("it listens").port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let fault = {
                    let mut state = locked(&shared);
                    state.open.extend(client.try_clone());
                    state.next()
                };
                match fault {
                    // It is held open until faults end.
                    Some(Fault::Silence) => {}
                    Some(Fault::Error) => {
                        std::thread::spawn(move || fail(client));
                    }
                    other => pass(&client, server, other),
                }
            }
        });
        Self { port, state }
    }

    /// Lets the next connections fail. Those that are open are cut, so that all that follows comes on new ones.
    pub fn fail(&self, fault: Fault, connections: usize) {
        let mut state = locked(&self.state);
        state.fault = Some(fault);
        state.left = connections;
        state.hang_up();
    }

    /// Everything passes from now on; what waits for an answer is cut.
    pub fn heal(&self) {
        let mut state = locked(&self.state);
        state.left = 0;
        state.hang_up();
    }

    /// How many connections are still to fail.
    pub fn left(&self) -> usize {
        locked(&self.state).left
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fail(mut client: TcpStream) {
    let mut request = vec![0; 64 << 10];
    let _ = client.read(&mut request);
    let answer =
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = client.write_all(answer.as_bytes());
    let _ = client.shutdown(Shutdown::Write);
    // What is still being sent is taken, so that the answer is not lost with a reset.
    while client.read(&mut request).is_ok_and(|count| count > 0) {}
}

fn pass(client: &TcpStream, server: u16, fault: Option<Fault>) {
    let ends = || {
        let upstream = TcpStream::connect(("127.0.0.1", server))?;
        Ok::<_, std::io::Error>([
            client.try_clone()?,
            upstream.try_clone()?,
            upstream,
            client.try_clone()?,
        ])
    };
    // A server that is not there hangs up.
    let Ok([from_client, to_server, from_server, to_client]) = ends() else { return };
    copy(from_client, to_server, usize::MAX, Duration::ZERO);
    let (most, wait) = match fault {
        Some(Fault::Cut(bytes)) => (bytes, Duration::ZERO),
        Some(Fault::Slow(wait)) => (usize::MAX, wait),
        _ => (usize::MAX, Duration::ZERO),
    };
    copy(from_server, to_client, most, wait);
}

fn copy(mut from: TcpStream, mut to: TcpStream, most: usize, wait: Duration) {
    std::thread::spawn(move || {
        let (mut buffer, mut left) = ([0; 16 << 10], most);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            std::thread::sleep(wait);
            let count = count.min(left);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            left -= count;
            if left == 0 {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
