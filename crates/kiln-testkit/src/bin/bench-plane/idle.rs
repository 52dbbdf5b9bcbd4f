//! Runners that wait for work that does not come, and come back when their server does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_proto::runner::LONGEST_POLL;
use tokio::sync::watch;

use crate::row;
use crate::talk::{Runner, Server};

/// How long one waits before it tries again: at first, and at most. As `kiln runner` does, each adds a
/// part of its own so that they do not all come at once.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(2);

/// What all of them know.
#[derive(Debug)]
struct Crowd {
    /// How many the server has answered since it was last gone.
    here: AtomicUsize,
    /// When the server was first missed.
    gone: watch::Sender<Option<Instant>>,
    count: usize,
}

/// Registers, waits with all of them, and prints a row when all are there and when all are back. Ends
/// only when it is stopped.
pub(crate) async fn stay(server: &Server, owner: &str, count: usize) -> Result<(), String> {
    let key = server.key(owner, count).await?;
    let crowd = Arc::new(Crowd { here: AtomicUsize::new(0), gone: watch::channel(None).0, count });
    for number in 0..count {
        let runner = server.register(&key, format!("idle-{number}"), 1).await?;
        tokio::spawn(wait_for_work(runner, number, Arc::clone(&crowd)));
    }
    std::future::pending().await
}

async fn wait_for_work(mut runner: Runner, number: usize, crowd: Arc<Crowd>) {
    let mut pause = FIRST;
    let mut is_here = false;
    loop {
        // The first question of a connection is answered at once, and shows that the server is there.
        let wait = if is_here { LONGEST_POLL } else { 0 };
        match runner.claim(wait).await {
            Ok(_) if is_here => {}
            Ok(_) => {
                is_here = true;
                pause = FIRST;
                crowd.came();
            }
            Err(_) => {
                if std::mem::take(&mut is_here) {
                    crowd.missed();
                }
                let own = u32::try_from(number % 100).unwrap_or(0);
                tokio::time::sleep(pause + pause * own / 100).await;
                pause = (pause * 2).min(LAST);
            }
        }
    }
}

impl Crowd {
    fn came(&self) {
        if self.here.fetch_add(1, Ordering::SeqCst) + 1 < self.count {
            return;
        }
        match self.gone.send_replace(None) {
            Some(gone) => row("idle_back", gone.elapsed().as_secs_f64(), "s"),
            None => row("idle_here", 1.0, "x"),
        }
    }

    fn missed(&self) {
        self.here.fetch_sub(1, Ordering::SeqCst);
        self.gone.send_if_modified(|gone| {
            let is_first = gone.is_none();
            gone.get_or_insert_with(Instant::now);
            is_first
        });
    }
}
