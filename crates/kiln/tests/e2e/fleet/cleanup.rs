//! What manifests own goes when their time is over, also when a server dies in the middle of it. (C5)

use std::fmt::Write as _;

use kiln_fault::Point;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::world::Server;
use super::{Kind, World, on_both};

/// More than go in one transaction.
const MANY: usize = 250;

/// How many objects are left.
fn left(world: &World, server: &Server) -> usize {
    let mut count = 0;
    let mut after = String::new();
    loop {
        let path = format!("/api/objects?owner=acme&type=thing&limit=100{after}");
        let page = world.get(server, &path);
        count += page["items"].as_array().expect("a page has items").len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return count,
        }
    }
}

fn draft(world: &World, server: &Server, new: &Value) -> String {
    let (status, made) = world.post(server, "/api/manifests", new);
    assert_eq!(status, 201, "{made}");
    made["slug"].as_str().expect("it has a slug").to_owned()
}

/// Bytes that nobody can guess or compress, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    next.flatten().take(length).collect()
}

/// Sends bytes for `acme`; says their hash.
fn send(world: &World, server: &Server, bytes: &[u8]) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(hash, "{byte:02x}");
    }
    let wish = json!({ "owner": "acme", "hash": hash, "size": bytes.len() });
    let (status, upload) = world.post(server, "/api/blobs/uploads", &wish);
    assert_eq!(status, 201, "{upload}");
    let url = upload["pieces"][0]["url"].as_str().expect("it is too large to come along");
    assert_eq!(world.put_bytes(url, bytes), 204);
    let complete = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    assert_eq!(world.post(server, &complete, &json!({})).0, 200);
    hash
}

/// How many files of a server have this many bytes, or a few more for what is said about them.
fn files(folder: &std::path::Path, length: u64) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => files(&entry.path(), length),
        Ok(found) => usize::from((length..length + 1_000).contains(&found.len())),
        Err(_) => 0,
    };
    entries.map(count).sum()
}

on_both! {
    /// C6
    fn a_collection_that_was_killed_between_rows_and_bytes_is_finished_by_the_next(world) {
        world.set("KILN_KEEP_UNUSED_BYTES", "1ms");
        let server = world.server("server");
        let (used, unused) = (noise(1, 100_000), noise(2, 200_000));
        let hash = send(&world, &server, &used);
        let new = json!({ "owner": "acme", "type": "thing", "hash": hash });
        assert_eq!(world.post(&server, "/api/objects", &new).0, 201);
        let gone = send(&world, &server, &unused);
        let listen = server.listen();
        server.program.kill();
        let count = |length: usize| files(&world.place.path().join("server"), length as u64);

        let fault = format!("{}:1", Point::DutySwept.name());
        world.set("KILN_FAULT", &*fault);
        let doomed = world.server_program("server", &["--listen", &listen]);
        world.unset("KILN_FAULT");
        doomed.died(&fault);
        assert_eq!((count(used.len()), count(unused.len())), (1, 1), "only rows are gone");

        let server = world.server_at("server", &listen);
        world.until(&server, "the bytes go, too", |_| (count(unused.len()) == 0).then_some(()));
        let ask = |hash: &str| {
            world.send(&server, "GET", &format!("/api/blobs/{hash}?owner=acme"), None).0
        };
        assert_eq!((ask(&gone), ask(&hash), count(used.len())), (404, 200, 1));
        server.program.kill();
        world.check_database();
    }

    fn a_clean_up_that_was_killed_goes_on_where_it_stopped(world) {
        let server = world.server("server");
        let due = draft(&world, &server, &json!({ "owner": "acme", "retention": 0 }));
        let heir = draft(&world, &server, &json!({ "owner": "acme", "for_ever": true }));
        let mut last = Value::Null;
        for _ in 0..MANY {
            let new = json!({ "owner": "acme", "type": "thing", "manifest": due });
            let (status, made) = world.post(&server, "/api/objects", &new);
            assert_eq!(status, 201, "{made}");
            last = made["id"].clone();
        }
        let (status, sealed) = world.post(&server, &format!("/api/manifests/{due}/seal"), &json!({}));
        assert_eq!((status, &sealed["state"]), (200, &json!("DUE")), "{sealed}");
        // What another took in time stays.
        let claim = json!({ "from": due, "type": "object", "id": last });
        let (status, claimed) =
            world.post(&server, &format!("/api/manifests/{heir}/claim"), &claim);
        assert_eq!(status, 200, "{claimed}");

        let listen = server.listen();
        server.program.kill();
        let fault = format!("{}:1", Point::DutyCleaned.name());
        world.set("KILN_FAULT", &*fault);
        let doomed = world.server_program("server", &["--listen", &listen]);
        world.unset("KILN_FAULT");
        doomed.died(&fault);

        let server = world.server_at("server", &listen);
        world.until(&server, "the rest is cleaned up", |world| {
            (left(world, &server) == 1).then_some(())
        });
        let (status, _) = world.send(&server, "GET", &format!("/api/manifests/{due}"), None);
        assert_eq!(status, 404);
        let kept = world.get(&server, &format!("/api/manifests/{heir}"));
        assert_eq!(kept["resources"][0]["id"], last);
        server.program.kill();
        world.check_database();
    }
}
