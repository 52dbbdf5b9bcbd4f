//! The logs of an attempt as one archive, as GitHub gives them out: a file for each job, and a folder for each
//! job with a file for each of its steps. It is made while it is sent, a piece at a time.

use std::collections::HashSet;
use std::io;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;

use super::{Form, Reading, Selection, read};
use crate::app::Shared;
use crate::service::jobs::Seen;
use crate::zip::write::Zip;

/// How many pieces wait for a slow client.
const AHEAD: usize = 4;
/// The longest part of a name.
const LONGEST: usize = 100;

/// The archive, piece by piece. Whoever stops to listen ends it.
pub fn archive(app: Shared, jobs: Vec<Seen>) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let (send, receive) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut writer = Writer { app, send: send.clone(), zip: Zip::default() };
        let written = match writer.write(&jobs).await {
            Ok(()) => {
                let end = std::mem::take(&mut writer.zip).finish();
                writer.send(end).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            let _ = send.send(Err(error)).await;
        }
    });
    stream::unfold(receive, async |mut receive| Some((receive.recv().await?, receive)))
}

struct Writer {
    app: Shared,
    send: mpsc::Sender<io::Result<Bytes>>,
    zip: Zip,
}

impl Writer {
    async fn send(&self, bytes: Vec<u8>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.send.send(Ok(bytes.into())).await.map_err(gone)
    }

    async fn write(&mut self, jobs: &[Seen]) -> io::Result<()> {
        let mut taken = HashSet::new();
        for (at, job) in jobs.iter().enumerate() {
            if job.id.is_none() || job.claim == 0 {
                continue;
            }
            let mut name = clean(&job.name);
            if !taken.insert(name.to_lowercase()) {
                name = format!("{name}-{at}");
            }
            self.file(job, &format!("{at}_{name}.txt"), None).await?;
            for step in &job.steps {
                let number = step.number.saturating_add(1);
                let path = format!("{name}/{number}_{}.txt", clean(&step.name));
                let steps = vec![step.number];
                self.file(job, &path, Some(Selection { steps, ..Selection::default() })).await?;
            }
        }
        Ok(())
    }

    /// Some lines of a job's log; a file without any is left out.
    async fn file(&mut self, job: &Seen, name: &str, lines: Option<Selection>) -> io::Result<()> {
        let reading = Reading { form: Form::Timed, lines, ..Reading::default() };
        let opened = match read(Shared::clone(&self.app), job, reading).await {
            Err(failure) if failure.status() == StatusCode::GONE => return Ok(()),
            opened => opened.map_err(|failure| io::Error::other(failure.detail().to_owned()))?,
        };
        let mut pieces = std::pin::pin!(opened.pieces);
        let mut is_begun = false;
        while let Some(piece) = pieces.next().await.transpose()? {
            if !is_begun {
                let head = self.zip.begin(name);
                self.send(head).await?;
                is_begun = true;
            }
            let packed = self.zip.add(&piece)?;
            self.send(packed).await?;
        }
        let end = self.zip.end()?;
        self.send(end).await
    }
}

/// A part of a path that leads nowhere else, without what systems do not like in names.
fn clean(name: &str) -> String {
    let odd = |letter: &char| letter.is_control() || "/\\:*?\"<>|".contains(*letter);
    let plain: String = name.chars().filter(|letter| !odd(letter)).take(LONGEST).collect();
    let plain = plain.trim_matches([' ', '.']);
    if plain.is_empty() { "unnamed".to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere() {
        let check = |name: &str, expect: &str| assert_eq!(clean(name), expect);
        check("build (linux, 1.0)", "build (linux, 1.0)");
        check("call / build", "call  build");
        check("../../etc", "etc");
        check("..", "unnamed");
        check("a\0\n\\b", "ab");
        check("", "unnamed");
    }
}
