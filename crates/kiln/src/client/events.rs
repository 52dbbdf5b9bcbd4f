//! What happens to a run, as it happens: a stream that is taken up again where it broke.

use std::time::Duration;

use kiln_core::id::RunId;
use reqwest::Response;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::Client;
use super::error::ClientError;
use super::sse::Reader;

/// A stream that says nothing for so long, not even that it is alive, is dead.
const SILENCE: Duration = Duration::from_secs(45);
/// How long the second and each later try waits.
const PAUSES: [u64; 5] = [100, 300, 1_000, 2_000, 3_000];

/// What came of listening.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something happened, or may have.
    News,
    /// Nobody answers; it is tried again.
    Lost(ClientError),
}

/// Listens to a run until nobody waits for it any more.
pub(crate) fn listen(client: Client, run: RunId) -> Receiver<Heard> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut reader = Reader::default();
        let mut failures = 0;
        while !sender.is_closed() {
            pause(failures).await;
            failures += 1;
            let heard = match open(&client, run, &reader).await {
                Ok(response) => {
                    // What happened while nobody listened is told by one look.
                    if sender.send(Heard::News).await.is_err() {
                        return;
                    }
                    if read(response, &mut reader, &sender).await {
                        failures = 0;
                    }
                    // The end of a stream may be the end of the run.
                    Heard::News
                }
                Err(error) => Heard::Lost(error),
            };
            reader.begin_again();
            if sender.send(heard).await.is_err() {
                return;
            }
        }
    });
    receiver
}

async fn open(client: &Client, run: RunId, reader: &Reader) -> Result<Response, ClientError> {
    let run = run.to_string();
    let call = client.get(&["runs", &run, "events"]).streamed("text/event-stream");
    call.after_event(reader.last_id.as_deref()).send().await
}

/// Reads a stream to its end, and says whether it brought anything.
async fn read(mut response: Response, reader: &mut Reader, to: &Sender<Heard>) -> bool {
    let mut useful = false;
    while let Ok(Ok(Some(piece))) = tokio::time::timeout(SILENCE, response.chunk()).await {
        match reader.take(&piece) {
            None => break,
            Some(events) if events.is_empty() => {}
            Some(_) => {
                useful = true;
                if to.send(Heard::News).await.is_err() {
                    break;
                }
            }
        }
        if to.is_closed() {
            break;
        }
    }
    useful
}

/// Waits the longer, the more often it went wrong.
pub(super) async fn pause(failures: usize) {
    if failures > 0 {
        let pause = PAUSES[(failures - 1).min(PAUSES.len() - 1)];
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
