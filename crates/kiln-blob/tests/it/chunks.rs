//! Archives in chunks. (C7)

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use kiln_blob::{
    Backend as _, BlobError, Chunked, Digest, Index, Located, Name, Packed, Span, Work, of_bytes,
    open_recipe, store_chunked,
};

use crate::support::{Place, all, content, name, noise, peak};

/// The chunks of one organization.
#[derive(Debug, Default)]
struct Known(Mutex<HashMap<Digest, Located>>);

impl Index for Known {
    fn find<'a>(&'a self, chunks: &'a [Digest]) -> Work<'a, Vec<Option<Located>>> {
        let known = self.0.lock().unwrap();
        let found = chunks.iter().map(|chunk| known.get(chunk).cloned()).collect();
        Box::pin(async move { Ok(found) })
    }

    fn add<'a>(&'a self, pack: &'a Packed) -> Work<'a, Name> {
        self.0.lock().unwrap().extend(pack.chunks.iter().cloned());
        Box::pin(async move { Ok(pack.name.clone()) })
    }
}

async fn save(place: &Place, known: &Known, bytes: &[u8]) -> Chunked {
    let saved = store_chunked(&*place.backend, content(bytes), known).await.unwrap();
    assert_eq!((saved.digest, saved.size), (Digest::of(bytes), bytes.len() as u64));
    saved
}

async fn restored(place: &Place, saved: &Chunked, span: Span) -> Result<Bytes, BlobError> {
    all(open_recipe(Arc::clone(&place.backend), &saved.recipe, span).await?).await
}

async fn a_second_save_keeps_only_what_changed_on(place: Place) {
    let known = Known::default();
    let mut tree = noise(1, 64 << 20);
    let first = save(&place, &known, &tree).await;
    assert!(restored(&place, &first, Span::All).await.unwrap() == tree);
    let all = first.new_bytes;
    assert!(all >= 64 << 20, "{all}");
    // The same again takes nothing.
    assert_eq!(save(&place, &known, &tree).await.new_bytes, 0);
    // 1 % changed: some is overwritten, some put in, some taken out.
    let part = tree.len() / 200;
    tree[1_000_000..1_000_000 + part].copy_from_slice(&noise(2, part));
    tree.splice(15_000_000..15_000_000, noise(4, part));
    tree.drain(40_000_000..40_000_000 + part);
    let second = save(&place, &known, &tree).await;
    let share = second.new_bytes * 1000 / all;
    assert!(share <= 20, "{share} of a thousand");
    assert!(restored(&place, &second, Span::All).await.unwrap() == tree);
    let size = tree.len() as u64;
    for (from, to) in [(0, 10), (999_990, 1_100_000), (size - 3, size), (5, 20 << 20), (size, size)]
    {
        let part = restored(&place, &second, Span::Between(from, to)).await.unwrap();
        let expected = &tree[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
        assert!(part == *expected, "{from} {to}");
    }
    let used: BTreeSet<&Name> = second.packs.iter().collect();
    assert!(first.packs.iter().any(|pack| used.contains(pack)));
}

#[tokio::test]
async fn a_second_save_keeps_only_what_changed() {
    a_second_save_keeps_only_what_changed_on(Place::disk()).await;
}

#[tokio::test]
async fn a_second_save_keeps_only_what_changed_in_s3() {
    a_second_save_keeps_only_what_changed_on(Place::s3()).await;
}

#[tokio::test]
async fn small_and_odd_archives_come_back_too() {
    let place = Place::memory();
    let known = Known::default();
    for body in [Vec::new(), vec![1], vec![0; 5 << 20], noise(5, 100), noise(6, 256 << 10)] {
        let saved = save(&place, &known, &body).await;
        assert!(restored(&place, &saved, Span::All).await.unwrap() == body, "{}", body.len());
    }
    // The same chunk many times is kept once.
    let zeroes = save(&place, &Known::default(), &vec![0; 64 << 20]).await;
    assert!(zeroes.new_bytes < 10_000, "{}", zeroes.new_bytes);
    assert!(restored(&place, &zeroes, Span::Last(9)).await.unwrap() == vec![0; 9]);
}

#[tokio::test]
async fn an_archive_that_breaks_off_has_no_recipe_and_its_packs_are_used_again() {
    let place = Place::disk();
    let known = Known::default();
    let body = noise(7, 20 << 20);
    let broken =
        content(&body).chain(stream::iter([Err(BlobError::Cut("gone".to_owned()))])).boxed();
    let error = store_chunked(&*place.backend, broken, &known).await.unwrap_err();
    assert!(matches!(error, BlobError::Cut(_)), "{error}");
    assert_eq!(place.backend.list(&name("recipes"), None, 9).await.unwrap(), []);
    let again = save(&place, &known, &body).await;
    assert!(again.new_bytes < 12 << 20, "{}", again.new_bytes);
    assert!(restored(&place, &again, Span::All).await.unwrap() == body);
}

#[tokio::test]
async fn what_rotted_is_not_given_away() {
    let place = Place::memory();
    let body = noise(8, 3 << 20);
    let saved = save(&place, &Known::default(), &body).await;
    let pack = &saved.packs[0];
    let good = all(place.backend.get(pack, Span::All).await.unwrap()).await.unwrap();
    let mut bad = good.to_vec();
    bad[1 << 20] ^= 1;
    place.backend.put(pack, of_bytes(bad)).await.unwrap();
    let error = restored(&place, &saved, Span::All).await.unwrap_err();
    assert!(matches!(error, BlobError::Damaged { .. }), "{error}");
    // Parts that lie elsewhere are still good.
    assert!(restored(&place, &saved, Span::Between(0, 9)).await.unwrap() == body[..9]);
    place.backend.put(pack, of_bytes(good.slice(..good.len() - 1))).await.unwrap();
    assert!(restored(&place, &saved, Span::Last(9)).await.is_err());
    place.backend.delete(pack).await.unwrap();
    let error = restored(&place, &saved, Span::All).await.unwrap_err();
    assert!(matches!(error, BlobError::NotFound(_)), "{error}");
    let recipe = all(place.backend.get(&saved.recipe, Span::All).await.unwrap()).await.unwrap();
    for cut in [1, 8, 40, recipe.len() - 1] {
        place.backend.put(&saved.recipe, of_bytes(recipe.slice(cut..))).await.unwrap();
        assert!(restored(&place, &saved, Span::All).await.is_err(), "{cut}");
    }
}

#[tokio::test]
async fn a_huge_archive_takes_little_memory() {
    let place = Place::disk();
    let before = peak();
    let pieces = (0..192_u64).map(|seed| Ok(Bytes::from(noise(seed + 1, 1 << 20))));
    let (content, passed) = kiln_blob::hashed(stream::iter(pieces).boxed());
    let saved = store_chunked(&*place.backend, content, &Known::default()).await.unwrap();
    assert_eq!(passed.seen(), (saved.digest, 192 << 20));
    let found = open_recipe(Arc::clone(&place.backend), &saved.recipe, Span::All).await.unwrap();
    let (content, read) = kiln_blob::hashed(found.content);
    content.for_each(|piece| async { drop(piece.unwrap()) }).await;
    assert_eq!(read.seen(), passed.seen());
    let more = peak() - before;
    assert!(more < 128 << 20, "it took {more} bytes");
}
