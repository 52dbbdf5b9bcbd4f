//! Lines of a log for the page: a block, the first error, the beginning of a step.

use futures_util::StreamExt as _;
use kiln_proto::log::Numbered;

use super::BLOCK;
use super::rows::Row;
use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::service::jobs::Seen;
use crate::service::log::{self, Form, Matcher, Reading, Selection};
use crate::web::parts::Look;

/// Some lines, one after the other.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) lines: Vec<Row>,
    /// The step of the line before them.
    pub(super) before: Option<u32>,
    /// How many lines there are now.
    pub(super) total: u64,
}

/// What the first screen shows.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) block: Block,
    /// The number of the block of lines that it begins with, from 0.
    pub(super) first: u64,
}

fn has_log(job: &Seen) -> bool {
    job.id.is_some() && job.claim > 0
}

/// Reads what a selection finds, drawn line by line, so that long logs and lines take no room.
async fn read(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    selection: Selection,
) -> Answer<(Vec<Row>, u64)> {
    if !has_log(job) {
        return Ok((Vec::new(), 0));
    }
    let reading =
        Reading { claim, form: Form::Numbered, lines: Some(selection), ..Reading::default() };
    let opened = log::read(Shared::clone(app), job, reading).await?;
    let total = opened.lines.unwrap_or_default();
    let mut pieces = std::pin::pin!(opened.pieces);
    let (mut rows, mut rest) = (Vec::new(), Vec::new());
    while let Some(piece) = pieces.next().await {
        rest.extend_from_slice(&piece.map_err(Failure::internal)?);
        let end = memchr::memrchr(b'\n', &rest).map_or(0, |at| at + 1);
        let lines = rest[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        rows.extend(lines.filter_map(Numbered::parse).map(|line| Row::of(&line)));
        rest.drain(..end);
    }
    if let Some(line) = Numbered::parse(&rest) {
        rows.push(Row::of(&line));
    }
    Ok((rows, total))
}

/// Lines from a number on.
pub(super) async fn block(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    from: u64,
    count: u64,
) -> Answer<Block> {
    // One more in front, whose step says whether a step begins here.
    let first = from.saturating_sub(1).max(1);
    let selection =
        Selection { from: first, count: Some(count + (from - first)), ..Selection::default() };
    let (mut lines, total) = read(app, job, claim, selection).await?;
    let mut before = None;
    if lines.first().is_some_and(|row| row.number < from) {
        before = Some(lines.remove(0).step);
    }
    Ok(Block { lines, before, total: total.max(from.saturating_sub(1)) })
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
    Ok(Screen { block: found, first })
}

async fn total(app: &Shared, job: &Seen, claim: Option<u32>) -> Answer<u64> {
    let none = Selection { from: u64::MAX, count: Some(0), ..Selection::default() };
    Ok(read(app, job, claim, none).await?.1)
}

async fn first_line(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    selection: Selection,
) -> Answer<Option<u64>> {
    let (rows, _) = read(app, job, claim, selection).await?;
    Ok(rows.first().map(|row| row.number))
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

pub(super) async fn end_of_group(
    app: &Shared,
    job: &Seen,
    claim: Option<u32>,
    from: u64,
) -> Answer<Option<u64>> {
    let matcher = Some(Matcher::new("##[endgroup]", false, false).map_err(Failure::internal)?);
    let selection = Selection { from, matcher, count: Some(1), ..Selection::default() };
    let (rows, _) = read(app, job, claim, selection).await?;
    Ok(rows.first().map(|row| row.number))
}
