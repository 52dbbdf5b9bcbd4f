//! `kiln artifacts` and `kiln cache` against a real `kiln up`, as they are typed.

use std::fs;

use reqwest::Client;

use crate::client::Up;

/// An archive of these files, not packed.
fn archive(files: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let (mut all, mut list) = (Vec::new(), Vec::new());
    for (name, content, mode) in files {
        let at = u32::try_from(all.len()).expect("it is small");
        let size = u32::try_from(content.len()).expect("it is small").to_le_bytes();
        let length = u16::try_from(name.len()).expect("it is short").to_le_bytes();
        let sum = crc32fast::hash(content).to_le_bytes();
        let middle =
            [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &sum, &size, &size, &length, &[0, 0]].concat();
        all.extend([&[0x50, 0x4b, 3, 4][..], &middle, name.as_bytes(), content].concat());
        let tail = [&[0; 6][..], &(mode << 16).to_le_bytes(), &at.to_le_bytes()].concat();
        list.extend([&[0x50, 0x4b, 1, 2, 20, 3][..], &middle, &tail, name.as_bytes()].concat());
    }
    let from = u32::try_from(all.len()).expect("it is small").to_le_bytes();
    let size = u32::try_from(list.len()).expect("it is small").to_le_bytes();
    let count = u16::try_from(files.len()).expect("they are few").to_le_bytes();
    all.extend(&list);
    all.extend(
        [&[0x50, 0x4b, 5, 6, 0, 0, 0, 0][..], &count, &count, &size, &from, &[0, 0]].concat(),
    );
    all
}

/// Adds an artifact to a run, as `curl -F` does.
fn upload(up: &Up, run: &str, name: &str, kind: &str, bytes: &[u8]) {
    let file = fs::read_to_string(up.data.join("client.toml")).expect("the server is ours");
    let value = |key: &str| {
        let line = file.lines().find(|line| line.starts_with(key)).expect("the server is ours");
        line.split('"').nth(1).expect("the server is ours").to_owned()
    };
    let repo = up.kiln(&["repo", "list", "--json"]).code(0).json();
    let repo = format!(
        "{}/{}",
        repo["owner"].as_str().expect("the server is ours"),
        repo["name"].as_str().expect("the server is ours")
    );
    let url = format!("{}/repos/{repo}/actions/runs/{run}/artifacts", value("server"));
    let head = format!(
        "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n{name}\r\n--b\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\nContent-Type: {kind}\r\n\r\n"
    );
    let body = [head.as_bytes(), bytes, b"\r\n--b--\r\n"].concat();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the server is ours");
    let status = runtime.block_on(async {
        let client = Client::builder().no_proxy().build().expect("the server is ours");
        let ask = client.post(url).bearer_auth(value("token")).body(body);
        ask.header("content-type", "multipart/form-data; boundary=b")
            .send()
            .await
            .expect("the server is ours")
            .status()
    });
    assert_eq!(status, 201);
}

const ZIP: &str = "application/zip";

/// R9
#[test]
fn artifacts_are_listed_looked_into_downloaded_kept_and_deleted() {
    let up = Up::new();
    let run = up.trigger("slow.yml");
    let large: Vec<u8> =
        (0..5_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let files: [(&str, &[u8], u32); 3] = [
        ("a.txt", b"hello\n", 0o100_644),
        ("bin/run", b"#!/bin/sh\n", 0o100_755),
        ("large", &large, 0),
    ];
    upload(&up, &run, "dist", ZIP, &archive(&files));
    upload(&up, &run, "notes.txt", "text/plain", b"some notes");
    let listed = up.kiln(&["artifacts", "list", &run]);
    assert!(listed.code(0).out.contains("dist") && listed.out.contains("4.7 MiB"), "{listed:#?}");
    let one = up.kiln(&["artifacts", "list", &run, "--name", "dist", "--json"]).code(0).json();
    let slug = one["slug"].as_str().unwrap().to_owned();

    let files = up.kiln(&["artifacts", "browse", &slug]);
    assert!(files.code(0).out.contains("bin/run") && files.out.contains("4.7 MiB"), "{files:#?}");
    let text = up.kiln(&["artifacts", "browse", &run, "a.txt", "--name", "dist"]);
    assert_eq!(text.code(0).out, "hello\n");
    let place = up.place.path().join("app");
    up.kiln(&["artifacts", "browse", &slug, "large", "-o", "got"]).code(0);
    assert!(fs::read(place.join("got")).unwrap() == large);
    let missing = up.kiln(&["artifacts", "browse", &slug, "none"]);
    assert!(missing.code(2).err.contains("has no file `none`"), "{missing:#?}");
    let several = up.kiln(&["artifacts", "browse", &run]);
    assert!(several.code(2).err.contains("--name dist"), "{several:#?}");

    up.kiln(&["artifacts", "download", &run, "--dir", "out"]).code(0);
    assert!(fs::read(place.join("out/dist/large")).unwrap() == large);
    assert_eq!(fs::read(place.join("out/dist/bin/run")).unwrap(), b"#!/bin/sh\n");
    assert_eq!(fs::read(place.join("out/notes.txt")).unwrap(), b"some notes");
    let again = up.kiln(&["artifacts", "download", &slug, "--dir", "out"]);
    assert!(again.code(2).err.contains("exists"), "{again:#?}");
    up.kiln(&["artifacts", "download", &slug, "--dir", "zips", "--zip"]).code(0);
    assert_eq!(
        fs::metadata(place.join("zips/dist.zip")).unwrap().len(),
        one["size"].as_u64().unwrap()
    );
    let bomb = up.kiln(&["artifacts", "download", &slug, "--dir", "small", "--max-size", "1MB"]);
    assert!(bomb.code(2).err.contains("--max-size"), "{bomb:#?}");
    assert_eq!(fs::read_dir(place.join("small")).unwrap().count(), 0);

    up.kiln(&["artifacts", "keep", &slug]).code(0);
    assert!(up.kiln(&["artifacts", "list", &run]).code(0).out.contains("kept"));
    let kept = up.kiln(&["artifacts", "keep", &slug, "--off", "--json"]).code(0).json();
    assert_eq!(kept["keep"], false);
    up.kiln(&["artifacts", "delete", &slug]).code(0);
    assert!(up.kiln(&["artifacts", "browse", &slug]).code(2).err.contains("no such artifact"));
    let left = up.kiln(&["artifacts", "list", &run, "--json"]).code(0).json();
    assert_eq!(left["name"], "notes.txt");
    up.kiln(&["cancel", &run]).code(0);
}

/// PEERS 23
#[test]
fn an_archive_that_means_harm_is_refused_and_leaves_nothing() {
    let up = Up::new();
    let run = up.trigger("slow.yml");
    upload(&up, &run, "slip", ZIP, &archive(&[("good", b"x", 0), ("../../evil", b"x", 0)]));
    upload(&up, &run, "link", ZIP, &archive(&[("link", b"/etc/passwd", 0o120_777)]));
    upload(&up, &run, "none", ZIP, b"this is no archive");
    for (name, why) in [("slip", "may be an attack"), ("link", "link"), ("none", "no zip archive")]
    {
        let refused =
            up.kiln(&["artifacts", "download", &run, "--name", name, "--dir", "deep/out"]);
        assert!(refused.code(2).err.contains(why), "{refused:#?}");
        let left = fs::read_dir(up.place.path().join("app/deep/out")).unwrap().count();
        assert_eq!(left, 0, "{name}");
    }
    assert!(!up.place.path().join("app/evil").exists());
    up.kiln(&["cancel", &run]).code(0);
}

/// PEERS 23: a real archive of a million files is had whole; who would have to look at all of them says that it does not.
#[test]
fn an_archive_of_a_million_files_is_refused_with_a_clear_word() {
    let up = Up::new();
    let run = up.trigger("slow.yml");
    let million = kiln_testkit::zip::of_many(1_000_000);
    upload(&up, &run, "many", ZIP, &million);
    let why = "has 1000000 entries; up to 250000 are looked at";
    let slug = up.kiln(&["artifacts", "list", &run, "--json"]).code(0).json();
    let slug = slug["slug"].as_str().expect("every artifact has one").to_owned();
    let browsed = up.kiln(&["artifacts", "browse", &slug]);
    assert!(browsed.code(2).err.contains(why), "{browsed:#?}");
    let unpacked = up.kiln(&["artifacts", "download", &slug, "--dir", "out"]);
    assert!(unpacked.code(2).err.contains(why), "{unpacked:#?}");
    assert_eq!(fs::read_dir(up.place.path().join("app/out")).unwrap().count(), 0);
    up.kiln(&["artifacts", "download", &slug, "--dir", "out", "--zip"]).code(0);
    let whole = fs::read(up.place.path().join("app/out/many.zip")).unwrap();
    assert!(whole == million, "it is had as it is");
    up.kiln(&["cancel", &run]).code(0);
}

/// R8
#[test]
fn caches_are_listed_and_counted() {
    let up = Up::new();
    let run = up.trigger("slow.yml");
    let none = up.kiln(&["cache", "ls"]);
    assert!(none.code(0).err.contains("no such caches"), "{none:#?}");
    assert!(up.kiln(&["cache", "stats", "--json"]).code(0).json()["active_caches_count"] == 0);
    for what in ["some-key", "c-7"] {
        let missing = up.kiln(&["cache", "rm", what]);
        assert!(missing.code(2).err.contains("no such cache"), "{missing:#?}");
    }
    up.kiln(&["cancel", &run]).code(0);
}
