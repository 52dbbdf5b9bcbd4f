//! A server on loopback: connections, their number and their end.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// git opens one or two at a time, uploads open eight; a job that opens more than this has gone wild.
const MAX_CONNECTIONS: usize = 64;
/// How long the end of the run waits for answers that were cut off.
const PATIENCE: Duration = Duration::from_secs(5);

/// What answers a connection, in a thread of its own.
pub(crate) type Answer = dyn Fn(&TcpStream) + Send + Sync;

#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    shared: Arc<Shared>,
    acceptors: Vec<(SocketAddr, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicU64,
    stopping: AtomicBool,
    open: Mutex<HashMap<u64, TcpStream>>,
    closed: Condvar,
}

impl Server {
    pub(crate) fn start(name: &str, answer: &Arc<Answer>) -> io::Result<Self> {
        let (port, listeners) = listen()?;
        let shared = Arc::<Shared>::default();
        let mut acceptors = Vec::new();
        for listener in listeners {
            let (theirs, answer) = (Arc::clone(&shared), Arc::clone(answer));
            let address = listener.local_addr()?;
            let acceptor = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || theirs.accept(&listener, &answer))?;
            acceptors.push((address, acceptor));
        }
        Ok(Self { port, shared, acceptors })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections and waits until nobody answers any more.
    pub(crate) fn stop(self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Whoever waits for a connection gets one. When even this fails, the thread ends with the
        // process.
        for (address, acceptor) in self.acceptors {
            if TcpStream::connect(address).is_ok() {
                let _ = acceptor.join();
            }
        }
        let open = self.shared.open();
        for stream in open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let is_open = |open: &mut HashMap<_, _>| !open.is_empty();
        let _ = self.shared.closed.wait_timeout_while(open, PATIENCE, is_open);
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, answer: &Arc<Answer>) {
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match stream {
                Ok(stream) => self.admit(stream, Arc::clone(answer)),
                // Too many open files, most likely: others may close theirs.
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Answers in a new thread; one connection too many is closed without a word.
    fn admit(self: &Arc<Self>, stream: TcpStream, answer: Arc<Answer>) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let Ok(twin) = stream.try_clone() else { return };
        let mut open = self.open();
        if open.len() >= MAX_CONNECTIONS {
            return;
        }
        open.insert(number, twin);
        drop(open);
        let entry = Entry { shared: Arc::clone(self), number };
        // When no thread can be started, the entry goes with the closure.
        let _ = thread::Builder::new().name(format!("loopback {number}")).spawn(move || {
            let _entry = entry;
            answer(&stream);
        });
    }
}

/// A free port on loopback, in both versions of it where the machine has both: a client tries either,
/// and the token must not reach somebody else who listens on the other.
fn listen() -> io::Result<(u16, Vec<TcpListener>)> {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(other) => return Ok((port, vec![listener, other])),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(_) => return Ok((port, vec![listener])),
        }
    }
}

/// A connection in the list of open ones, until its thread has ended, however it ends.
struct Entry {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.open().remove(&self.number);
        self.shared.closed.notify_all();
    }
}
