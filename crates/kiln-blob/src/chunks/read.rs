//! Puts an archive together again, or any part of it, with little of it in memory at a time.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::pack::unpack;
use super::recipe::{Line, Recipe};
use super::split::LARGEST;
use crate::backend::{Backend, Found, Span};
use crate::buffers::{Buffer, Buffers};
use crate::compressed::cut;
use crate::content::of_pieces;
use crate::disk::blocking;
use crate::{BlobError, Name};

/// Lines of a recipe that are read at a time.
const PAGE: u64 = 1024;
/// How much is read of a pack at a time, and how many such reads are under way.
const RUN: u32 = 1 << 20;
const AHEAD: usize = 2;

/// Chunks that lie side by side in a pack.
#[derive(Debug)]
struct Run {
    pack: u32,
    from: u32,
    to: u32,
    lines: Vec<Line>,
}

/// A part of an archive, or all of it. Every chunk is checked before it is given away.
pub async fn open_recipe(
    backend: Arc<dyn Backend>,
    name: &Name,
    span: Span,
) -> Result<Found, BlobError> {
    let recipe = Arc::new(Recipe::open(&*backend, name).await?);
    let (size, range) = (recipe.size, span.of(name, recipe.size)?);
    if range.is_empty() {
        return Ok(Found { size, range, content: of_pieces([]) });
    }
    let first = line_at(&*backend, &recipe, range.start).await?;
    let start = recipe.page(&*backend, first, 1).await?.first().map_or(0, |line| line.start);
    let (pages, end) = ((Arc::clone(&backend), Arc::clone(&recipe)), range.end);
    let pages = stream::unfold(Some(first), move |at| {
        let (backend, recipe) = (Arc::clone(&pages.0), Arc::clone(&pages.1));
        async move { next_page(&*backend, &recipe, at?, end).await }
    });
    let runs = pages.flat_map(|page| {
        let runs: Vec<Result<Run, BlobError>> = match page {
            Ok(lines) => runs_of(lines).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(runs)
    });
    // Those that are being read, and the one that is being sent.
    let buffers = Buffers::new(RUN as usize + LARGEST, AHEAD + 1);
    let fetched =
        runs.map(move |run| fetch(Arc::clone(&backend), Arc::clone(&recipe), run, buffers.clone()));
    let content = fetched.buffered(AHEAD).flat_map(|pieces| {
        let pieces: Vec<Result<Bytes, BlobError>> = match pieces {
            Ok(pieces) => pieces.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces)
    });
    let content = cut(content.boxed(), range.start - start, range.end - range.start);
    Ok(Found { size, range, content })
}

type Page = (Result<Vec<Line>, BlobError>, Option<u64>);

/// The lines from one on that lie before the end, and where to go on.
async fn next_page(backend: &dyn Backend, recipe: &Recipe, from: u64, end: u64) -> Option<Page> {
    if from >= recipe.lines {
        return None;
    }
    let mut lines = match recipe.page(backend, from, PAGE).await {
        Ok(lines) => lines,
        Err(error) => return Some((Err(error), None)),
    };
    lines.retain(|line| line.start < end);
    let is_last = (lines.len() as u64) < PAGE;
    Some((Ok(lines), (!is_last).then_some(from + PAGE)))
}

/// The line with this byte of the archive.
async fn line_at(backend: &dyn Backend, recipe: &Recipe, place: u64) -> Result<u64, BlobError> {
    if place == 0 {
        return Ok(0);
    }
    let (mut low, mut high) = (0, recipe.lines);
    while low + 1 < high {
        let middle = low.midpoint(high);
        let lines = recipe.page(backend, middle, 1).await?;
        if lines.first().is_some_and(|line| line.start <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Lines whose chunks follow each other in a pack become one read.
fn runs_of(lines: Vec<Line>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for line in lines {
        let to = line.offset.saturating_add(line.stored);
        let follows = |run: &&mut Run| {
            run.pack == line.pack && run.to == line.offset && run.to - run.from < RUN
        };
        if let Some(run) = runs.last_mut().filter(follows) {
            run.to = to;
            run.lines.push(line);
        } else {
            runs.push(Run { pack: line.pack, from: line.offset, to, lines: vec![line] });
        }
    }
    runs
}

async fn fetch(
    backend: Arc<dyn Backend>,
    recipe: Arc<Recipe>,
    run: Result<Run, BlobError>,
    buffers: Buffers,
) -> Result<Vec<Bytes>, BlobError> {
    let run = run?;
    let name = recipe.packs[run.pack as usize].clone();
    let found = backend.get(&name, Span::Between(run.from.into(), run.to.into())).await?;
    let pieces: Vec<Bytes> = found.content.try_collect().await?;
    // Runs side by side are opened on several processors, and keep nobody else waiting.
    let open = move || {
        let length = (run.to - run.from) as usize;
        let bytes = joined(&pieces, length, buffers.take());
        let bytes = bytes.ok_or_else(|| "it is not as long as its chunks".to_owned());
        Ok(bytes
            .and_then(|bytes| run.lines.iter().map(|line| chunk(&bytes, run.from, line)).collect()))
    };
    let opened: Result<Vec<Bytes>, String> = match blocking(open).await {
        Ok(opened) => opened,
        Err(error) => Err(error.to_string()),
    };
    opened.map_err(|why| BlobError::damaged(&name, why))
}

/// All bytes of a run in a buffer; nothing if there are more or fewer.
fn joined(pieces: &[Bytes], length: usize, mut buffer: Buffer) -> Option<Bytes> {
    let mut filled = 0;
    for piece in pieces {
        let end = filled + piece.len();
        buffer.as_mut()[..length].get_mut(filled..end)?.copy_from_slice(piece);
        filled = end;
    }
    (filled == length).then(|| buffer.freeze(length))
}

fn chunk(bytes: &Bytes, from: u32, line: &Line) -> Result<Bytes, String> {
    let from = (line.offset - from) as usize;
    let stored = bytes.slice(from..from + line.stored as usize);
    unpack(stored, line.size as usize, line.digest)
}
