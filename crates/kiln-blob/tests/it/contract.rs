//! What every backend does, alone and in every wrapper. (C1)

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use kiln_blob::{
    Backend, BlobError, Content, Digest, Memory, Name, Span, Verified, of_bytes, of_pieces,
};

use crate::support::{Place, all, content, name, noise, peak, read};

macro_rules! on_every {
    ($test:ident) => {
        mod $test {
            #[tokio::test]
            async fn memory() {
                super::each(super::Place::memory(), super::$test).await;
            }

            #[tokio::test]
            async fn disk() {
                super::each(super::Place::disk(), super::$test).await;
            }

            #[tokio::test]
            async fn s3() {
                super::each(super::Place::s3(), super::$test).await;
            }
        }
    };
}

/// In each wrapper; objects that one left behind do not matter to the next, which has another folder.
async fn each<F: Future<Output = ()>>(place: Place, test: impl Fn(Arc<dyn Backend>, Name) -> F) {
    for (wrapper, backend) in place.wrapped() {
        test(backend, name(&format!("{wrapper}-folder"))).await;
    }
}

fn below(folder: &Name, rest: &str) -> Name {
    name(&format!("{folder}/{rest}"))
}

async fn what_was_put_comes_back(backend: Arc<dyn Backend>, folder: Name) {
    let text = "the same line again and again\n".repeat(40_000);
    let bodies = [Vec::new(), vec![7], noise(1, 300_000), text.into_bytes(), noise(2, 9 << 20)];
    for (number, body) in bodies.iter().enumerate() {
        let name = below(&folder, &format!("deep/er/{number}"));
        assert_eq!(backend.size(&name).await.unwrap(), None);
        assert_eq!(backend.put(&name, content(body)).await.unwrap(), body.len() as u64);
        assert_eq!(backend.size(&name).await.unwrap(), Some(body.len() as u64));
        let found = backend.get(&name, Span::All).await.unwrap();
        assert_eq!((found.size, found.range.clone()), (body.len() as u64, 0..body.len() as u64));
        assert!(all(found).await.unwrap() == *body, "{name}");
    }
    // Another content under the same name takes its place.
    let name = below(&folder, "deep/er/3");
    backend.put(&name, of_bytes("new")).await.unwrap();
    assert_eq!(read(&*backend, &name).await.unwrap(), "new");
}
on_every!(what_was_put_comes_back);

async fn any_part_can_be_read(backend: Arc<dyn Backend>, folder: Name) {
    let name = below(&folder, "parts");
    // Half of it can be compressed, the other half cannot.
    let body = [vec![b'x'; 600_000], noise(3, 5 << 20)].concat();
    backend.put(&name, content(&body)).await.unwrap();
    let size = body.len() as u64;
    let spans = [
        (0, 1),
        (0, size),
        (262_143, 262_145),
        (599_999, 600_001),
        (size - 1, size),
        (size - 5, u64::MAX),
        (size, size + 1),
        (4 << 20, (4 << 20) + 3),
        (7, 7),
    ];
    for (from, to) in spans {
        let found = backend.get(&name, Span::Between(from, to)).await.unwrap();
        let range = from..to.min(size).max(from);
        assert_eq!((found.size, found.range.clone()), (size, range.clone()));
        let expected = &body[usize::try_from(from).unwrap()..usize::try_from(range.end).unwrap()];
        assert!(all(found).await.unwrap() == *expected, "{from} {to}");
    }
    let found = backend.get(&name, Span::Last(70_000)).await.unwrap();
    assert!(all(found).await.unwrap() == body[body.len() - 70_000..]);
    let found = backend.get(&name, Span::Last(u64::MAX)).await.unwrap();
    assert_eq!(found.range, 0..size);
    let beyond = backend.get(&name, Span::Between(size + 1, size + 2)).await.unwrap_err();
    assert!(matches!(beyond, BlobError::OutOfRange { .. }), "{beyond}");
}
on_every!(any_part_can_be_read);

async fn what_is_not_there_is_said_to_be_missing(backend: Arc<dyn Backend>, folder: Name) {
    let (there, missing) = (below(&folder, "a/there"), below(&folder, "a/missing"));
    backend.put(&there, of_bytes("x")).await.unwrap();
    is_missing(&*backend, &missing).await;
    let many: Vec<Name> =
        (0..40)
            .map(|number| {
                if number % 3 == 0 { there.clone() } else { below(&folder, &format!("m{number}")) }
            })
            .collect();
    let expected: Vec<bool> = (0..40).map(|number| number % 3 == 0).collect();
    assert_eq!(backend.exist(&many).await.unwrap(), expected);
    backend.delete(&there).await.unwrap();
    assert_eq!(backend.exist(std::slice::from_ref(&there)).await.unwrap(), [false]);
    assert!(matches!(backend.get(&there, Span::All).await, Err(BlobError::NotFound(_))));
}
on_every!(what_is_not_there_is_said_to_be_missing);

async fn is_missing(backend: &dyn Backend, name: &Name) {
    let error = backend.get(name, Span::All).await.unwrap_err();
    assert!(matches!(&error, BlobError::NotFound(found) if found == name), "{error}");
    assert_eq!(backend.size(name).await.unwrap(), None, "{name}");
    backend.delete(name).await.unwrap();
}

/// S3 has no folders; the server of the tests has, and does not like to be asked for one.
#[tokio::test]
async fn a_folder_is_no_object_and_nothing_lies_below_one() {
    for place in [Place::memory(), Place::disk()] {
        place.backend.put(&name("a/there"), of_bytes("x")).await.unwrap();
        for missing in ["a", "a/there/below"] {
            is_missing(&*place.backend, &name(missing)).await;
        }
        assert_eq!(read(&*place.backend, &name("a/there")).await.unwrap(), "x");
    }
}

/// A content that ends with an error after some bytes.
fn broken(good: usize) -> Content {
    let pieces = of_pieces(vec![Bytes::from(noise(4, good))]);
    pieces.chain(stream::iter([Err(BlobError::Cut("gone".to_owned()))])).boxed()
}

async fn what_breaks_off_leaves_nothing(backend: Arc<dyn Backend>, folder: Name) {
    let name = below(&folder, "half");
    for good in [0, 10, 300_000, 20 << 20] {
        let error = backend.put(&name, broken(good)).await.unwrap_err();
        assert!(matches!(error, BlobError::Cut(_)), "{error}");
        assert_eq!(backend.size(&name).await.unwrap(), None, "{good}");
    }
    // Also when whoever writes does not wait for the end.
    let endless = of_pieces(vec![Bytes::from(noise(5, 9 << 20))]).chain(stream::pending()).boxed();
    let cut = tokio::time::timeout(Duration::from_millis(300), backend.put(&name, endless)).await;
    assert!(cut.is_err());
    assert_eq!(backend.size(&name).await.unwrap(), None);
    // What was there before stays as it was.
    backend.put(&name, of_bytes("old")).await.unwrap();
    backend.put(&name, broken(1 << 20)).await.unwrap_err();
    assert_eq!(read(&*backend, &name).await.unwrap(), "old");
    assert_eq!(backend.list(&folder, None, 10).await.unwrap().len(), 1);
}
on_every!(what_breaks_off_leaves_nothing);

async fn many_may_write_the_same_at_once(backend: Arc<dyn Backend>, folder: Name) {
    let body = noise(6, 400_000);
    let digest = Digest::of(&body);
    let [same, own] = [below(&folder, "same"), Name::of_blob(folder.as_str(), digest)];
    let writers = (0..12).map(|_| async {
        backend.put(&same, content(&body)).await.unwrap();
        let other = Name::of_blob(folder.as_str(), digest);
        backend.put(&other, content(&body)).await.unwrap();
        assert!(read(&*backend, &same).await.unwrap() == body);
    });
    futures_util::future::join_all(writers).await;
    backend.put(&own, content(&body)).await.unwrap();
    let listed = backend.list(&folder, None, 100).await.unwrap();
    assert_eq!(listed.len(), 14);
    for entry in listed {
        assert!(read(&*backend, &entry.name).await.unwrap() == body);
    }
}
on_every!(many_may_write_the_same_at_once);

async fn a_list_goes_on_where_it_stopped(backend: Arc<dyn Backend>, folder: Name) {
    let mut names: Vec<Name> = ["a", "a-b", "a.b/c", "a/b", "a/b2/c", "a0", "b/1", "b/10", "b/2"]
        .iter()
        .filter(|rest| **rest != "a" && **rest != "a/b2/c")
        .map(|rest| below(&folder, rest))
        .collect();
    for name in &names {
        backend.put(name, of_bytes("x")).await.unwrap();
    }
    // Folders that only begin alike are others.
    backend.put(&name(&format!("{folder}2/z")), of_bytes("x")).await.unwrap();
    names.sort();
    for most in [1, 2, 3, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = backend.list(&folder, after.as_ref(), most).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            found.extend(page.into_iter().map(|entry| entry.name));
        }
        assert_eq!(found, names, "{most}");
    }
    let entry = backend.list(&folder, None, 1).await.unwrap().remove(0);
    let age = SystemTime::now().duration_since(entry.modified).unwrap_or_default();
    assert!(entry.stored > 0 && age < Duration::from_mins(10), "{entry:?}");
    assert_eq!(backend.list(&name("nothing/here"), None, 9).await.unwrap(), []);
    assert_eq!(backend.list(&below(&folder, "b"), None, 9).await.unwrap().len(), 3);
}
on_every!(a_list_goes_on_where_it_stopped);

/// Piece by piece, made as it is asked for.
fn long(pieces: u64) -> Content {
    let piece = |seed| Ok(Bytes::from(noise(seed + 1, 1 << 20)));
    stream::iter((0..pieces).map(piece)).boxed()
}

/// C1: 192 MiB in and out.
async fn a_huge_object_takes_little_memory(place: Place) {
    let backend = Verified(Arc::clone(&place.backend));
    let name = name("huge/one");
    let before = peak();
    let (content, passed) = kiln_blob::hashed(long(192));
    assert_eq!(backend.put(&name, content).await.unwrap(), 192 << 20);
    let found = backend.get(&name, Span::All).await.unwrap();
    let (content, read) = kiln_blob::hashed(found.content);
    content.for_each(|piece| async { drop(piece.unwrap()) }).await;
    assert_eq!(read.seen(), passed.seen());
    let more = peak() - before;
    assert!(more < 96 << 20, "it took {more} bytes");
}

#[tokio::test]
async fn a_huge_object_on_disk_takes_little_memory() {
    a_huge_object_takes_little_memory(Place::disk()).await;
}

#[tokio::test]
async fn a_huge_object_in_s3_takes_little_memory() {
    a_huge_object_takes_little_memory(Place::s3()).await;
}

#[tokio::test]
async fn wrong_bytes_are_refused_and_cannot_be_read() {
    for place in [Place::memory(), Place::disk(), Place::s3()] {
        let backend = Verified(Arc::clone(&place.backend));
        let name = Name::of_blob("blobs", Digest::of(b"right"));
        for wrong in [&b"wrong"[..], b"", b"right and more"] {
            let error = backend.put(&name, content(wrong)).await.unwrap_err();
            assert!(matches!(error, BlobError::WrongDigest { .. }), "{error}");
            assert_eq!(backend.size(&name).await.unwrap(), None);
        }
        // What rotted where it lies does not pass for what it was.
        place.backend.put(&name, of_bytes("wrong")).await.unwrap();
        let error = read(&backend, &name).await.unwrap_err();
        assert!(matches!(error, BlobError::WrongDigest { .. }), "{error}");
        backend.put(&name, of_bytes("right")).await.unwrap();
        assert_eq!(read(&backend, &name).await.unwrap(), "right");
    }
}

#[tokio::test]
async fn what_shrinks_is_kept_small_and_what_does_not_as_it_is() {
    let memory = Memory::default();
    let backend = kiln_blob::Compressed(memory.clone());
    let stored = async |name: &Name, body: &[u8]| {
        backend.put(name, content(body)).await.unwrap();
        memory.size(name).await.unwrap().unwrap()
    };
    assert!(stored(&name("text"), &vec![b'a'; 1 << 20]).await < 10_000);
    let plain = stored(&name("noise"), &noise(7, 1 << 20)).await;
    assert!((1 << 20..(1 << 20) + 100).contains(&plain), "{plain}");
    // A byte that changed is noticed, wherever it is.
    let good = read(&memory, &name("text")).await.unwrap();
    for at in 0..good.len() {
        let mut bad = good.to_vec();
        bad[at] ^= 0xff;
        memory.put(&name("text"), of_bytes(bad)).await.unwrap();
        let error = read(&backend, &name("text")).await;
        let same = matches!(&error, Ok(bytes) if *bytes == vec![b'a'; 1 << 20]);
        assert!(error.is_err() || same, "{at}");
    }
}
