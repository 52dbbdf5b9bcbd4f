//! Lines of a log for the page: a block, the first error, the beginning of a step, the end of a group.

use axum::http::StatusCode;
use futures_util::StreamExt as _;
use kiln_proto::log::Numbered;

use super::BLOCK;
use super::rows::{Past, Row};
use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::service::jobs::Seen;
use crate::service::log::{self, Form, Matcher, Reading, Selection};
use crate::web::parts::Look;

/// How many lines before a block are looked at for what they leave to it: their step, time and colours. Colours
/// that were begun still earlier, and never ended, are lost at the edge of a block.
const LOOK_BACK: u64 = BLOCK;

/// Some lines, one after the other.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) lines: Vec<Row>,
    /// How many lines there are now.
    pub(super) total: u64,
}

/// What the first screen shows.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) block: Block,
    /// The number of the block of lines that it begins with, from 0.
    pub(super) first: u64,
    /// Why nothing is there any more.
    pub(super) gone: Option<String>,
}

fn has_log(job: &Seen) -> bool {
    job.id.is_some() && job.claim > 0
}

/// What was read of a log.
#[derive(Debug, Default)]
struct Found {
    rows: Vec<Row>,
    total: u64,
    past: Past,
}

impl Found {
    /// Takes over whole lines. Those before one that is wanted are not shown.
    fn take(&mut self, lines: &[u8], wanted: u64) {
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for Numbered { number, line } in lines.filter_map(Numbered::parse) {
            if number < wanted {
                self.past.pass(&line);
            } else {
                self.rows.push(self.past.draw(number, &line));
            }
        }
    }
}

/// Reads what a selection finds, drawn line by line from one on, so that long logs and lines take no room.
async fn read(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    selection: Selection,
    wanted: u64,
) -> Answer<Found> {
    let mut found = Found::default();
    if !has_log(job) {
        return Ok(found);
    }
    let reading =
        Reading { claim, form: Form::Numbered, lines: Some(selection), ..Reading::default() };
    let opened = match log::read(Shared::clone(app), job, reading).await {
        // The page says so where the log would be.
        Err(failure) if failure.status() == StatusCode::GONE => return Ok(found),
        opened => opened?,
    };
    found.total = opened.lines.unwrap_or_default();
    let mut pieces = std::pin::pin!(opened.pieces);
    let mut rest = Vec::new();
    while let Some(piece) = pieces.next().await {
        rest.extend_from_slice(&piece.map_err(Failure::internal)?);
        let end = memchr::memrchr(b'\n', &rest).map_or(0, |at| at + 1);
        found.take(&rest[..end], wanted);
        rest.drain(..end);
    }
    found.take(&rest, wanted);
    Ok(found)
}

/// Lines from a number on, and some before them.
fn around(from: u64, count: u64) -> Selection {
    let first = from.saturating_sub(LOOK_BACK).max(1);
    Selection { from: first, count: Some(count + (from - first)), ..Selection::default() }
}

/// Lines from a number on.
pub(super) async fn block(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    from: u64,
    count: u64,
) -> Answer<Block> {
    let found = read(app, job, claim, around(from, count), from).await?;
    Ok(Block { lines: found.rows, total: found.total.max(from.saturating_sub(1)) })
}

/// What the lines before this one leave to it.
pub(super) async fn past(app: &Shared, job: &Seen, claim: u32, from: u64) -> Answer<Past> {
    Ok(read(app, job, Some(claim), around(from.max(1), 0), u64::MAX).await?.past)
}

/// Two blocks around the wanted line; the end of a log that grows, else its beginning.
pub(super) async fn screen(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    line: Option<u64>,
) -> Answer<Screen> {
    if !has_log(job) {
        return Ok(Screen::default());
    }
    let total = total(app, job, claim).await?;
    let wanted = match line {
        Some(line) => line.clamp(1, total.max(1)),
        None if job.conclusion.is_none() => total.max(1),
        None => 1,
    };
    let mut first = (wanted - 1) / BLOCK;
    // Some lines in front of it are worth seeing, too.
    if (wanted - 1) % BLOCK < BLOCK / 2 {
        first = first.saturating_sub(1);
    }
    let mut found = block(app, job, claim, first * BLOCK + 1, 2 * BLOCK).await?;
    // It may have grown while it was read.
    let last = found.lines.last().map_or(0, |row| row.number);
    found.total = found.total.max(total).max(last);
    let gone = log::expired(app, job).filter(|_| found.total == 0);
    let gone = gone.map(|gone| gone.detail().to_owned());
    Ok(Screen { block: found, first, gone })
}

async fn total(app: &Shared, job: &Seen, claim: Option<u32>) -> Answer<u64> {
    let none = Selection { from: u64::MAX, count: Some(0), ..Selection::default() };
    Ok(read(app, job, claim, none, 0).await?.total)
}

async fn first_line(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    selection: Selection,
) -> Answer<Option<u64>> {
    let found = read(app, job, claim, selection, 0).await?;
    Ok(found.rows.first().map(|row| row.number))
}

/// Where a step begins to print; `step` counts from 1.
pub(super) async fn first_of_step(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    step: u32,
) -> Answer<Option<u64>> {
    let steps = vec![step.saturating_sub(1)];
    first_line(app, job, claim, Selection { steps, count: Some(1), ..Selection::default() }).await
}

/// The first error of the first step that failed; its last line, if it said none.
pub(super) async fn first_error(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
) -> Answer<Option<u64>> {
    let failed = job.steps.iter().find(|step| Look::of_step(step).is_bad());
    let steps: Vec<u32> = failed.map(|step| step.number).into_iter().collect();
    let matcher = Some(Matcher::new("##[error]", false, false).map_err(Failure::internal)?);
    let errors =
        Selection { steps: steps.clone(), matcher, count: Some(1), ..Selection::default() };
    if let Some(line) = first_line(app, job, claim, errors).await? {
        return Ok(Some(line));
    }
    first_line(app, job, claim, Selection { steps, tail: Some(1), ..Selection::default() }).await
}

/// The last line of the group that begins in this line: the one that ends it, the one before the next group, or
/// the last one of its step so far.
pub(super) async fn end_of_group(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    from: u64,
) -> Answer<Option<u64>> {
    let first = Selection { from, count: Some(1), ..Selection::default() };
    let found = read(app, job, claim, first, 0).await?;
    let Some(step) = found.rows.first().map(|row| row.step) else { return Ok(None) };
    let mark = Matcher::new(r"^##\[(?:end)?group\]", true, false).map_err(Failure::internal)?;
    let next = Selection {
        from: from + 1,
        steps: vec![step],
        matcher: Some(mark),
        count: Some(1),
        ..Selection::default()
    };
    let found = read(app, job, claim, next, 0).await?;
    if let Some(row) = found.rows.first() {
        return Ok(Some(if row.ends_group() { row.number } else { row.number - 1 }));
    }
    let last = Selection { steps: vec![step], tail: Some(1), ..Selection::default() };
    first_line(app, job, claim, last).await
}
