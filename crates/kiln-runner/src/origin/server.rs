//! A server on loopback: connections, their number and their end.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// git opens one or two at a time; a job that opens more than this has gone wild.
const MAX_CONNECTIONS: usize = 64;
/// How long the end of the run waits for answers that were cut off.
const PATIENCE: Duration = Duration::from_secs(5);

/// What answers a connection, in a thread of its own.
pub(super) type Answer = dyn Fn(&TcpStream) + Send + Sync;

#[derive(Debug)]
pub(super) struct Server {
    port: u16,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    stopping: AtomicBool,
    open: Mutex<HashMap<u64, TcpStream>>,
    closed: Condvar,
}

impl Server {
    pub(super) fn start(answer: Arc<Answer>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("origin".to_owned())
            .spawn(move || theirs.accept(&listener, &answer))?;
        Ok(Self { port, shared, acceptor })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections and waits until nobody answers any more.
    pub(super) fn stop(self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Whoever waits for a connection gets one. When even this fails, the thread ends with the
        // process.
        if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
            let _ = self.acceptor.join();
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
        for (number, stream) in (0_u64..).zip(listener.incoming()) {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match stream {
                Ok(stream) => self.admit(number, stream, Arc::clone(answer)),
                // Too many open files, most likely: others may close theirs.
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Answers in a new thread; one connection too many is closed without a word.
    fn admit(self: &Arc<Self>, number: u64, stream: TcpStream, answer: Arc<Answer>) {
        let Ok(twin) = stream.try_clone() else { return };
        let mut open = self.open();
        if open.len() >= MAX_CONNECTIONS {
            return;
        }
        open.insert(number, twin);
        drop(open);
        let entry = Entry { shared: Arc::clone(self), number };
        // When no thread can be started, the entry goes with the closure.
        let _ = thread::Builder::new().name(format!("origin {number}")).spawn(move || {
            let _entry = entry;
            answer(&stream);
        });
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
