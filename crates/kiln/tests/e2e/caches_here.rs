//! `kiln cache key`, and what `kiln cache --local` says of the caches that `kiln run` keeps.

use std::env;
use std::process::Command;

use serde_json::Value;

use crate::Place;
use crate::run::{commit_all, jobs};

/// Document A's generator, word for word what it says.
const GENERATOR: &str = r#"
import glob, hashlib, json, os, sys
spec = json.loads(sys.argv[1])
files = []
for pattern in spec["files"]:
    files.extend(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
files.sort()
hasher = hashlib.sha256()
for path in files:
    hasher.update(path.encode())
    with open(path, "rb") as file:
        hasher.update(file.read())
parts = [spec["prefix"]] if spec.get("prefix") else []
parts += [spec["os"] + "-" + spec["arch"], hasher.hexdigest()[:16]]
parts += [name + "=" + os.environ.get(name, "") for name in spec["env"]]
print("-".join(parts))
"#;

const VARIABLE: (&str, &str) = ("KILN_KEY_TEST", "20.1 lts");

fn python() -> String {
    env::var("KILN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// R8: the keys of document A.
#[test]
fn a_key_is_the_one_of_the_document() {
    let place = Place::new();
    for (path, text) in [
        ("package-lock.json", "root"),
        ("web/package-lock.json", "web"),
        ("web/app/package-lock.json", "app"),
        ("web/.hidden/package-lock.json", "hidden"),
        (".npmrc", "rc"),
        ("B/x.lock", "1"),
        ("a/x.lock", "2"),
        ("a/[x].lock", "3"),
    ] {
        place.file(path, text);
    }
    let check = |prefix: Option<&str>, files: &[&str], variables: &[&str]| {
        let mut arguments = vec!["cache", "key", "--os", "Linux", "--arch", "X64"];
        if let Some(prefix) = prefix {
            arguments.extend(["--prefix", prefix]);
        }
        for file in files {
            arguments.extend(["--files", *file]);
        }
        for name in variables {
            arguments.extend(["--env", *name]);
        }
        let own = place.kiln_with(&[VARIABLE], &arguments).code(0).out.clone();
        let spec = serde_json::json!({
            "prefix": prefix, "files": files, "env": variables, "os": "Linux", "arch": "X64",
        });
        let output = Command::new(python())
            .args(["-c", GENERATOR, &spec.to_string()])
            .env(VARIABLE.0, VARIABLE.1)
            .current_dir(place.path())
            .output()
            .expect("there is a Python");
        let theirs = String::from_utf8(output.stdout).expect("it is text");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(own, theirs, "{prefix:?} {files:?} {variables:?}");
        own
    };
    check(Some("npm"), &["package-lock.json", "**/package-lock.json"], &[]);
    check(None, &["**/*.lock"], &["KILN_NOT_SET"]);
    check(Some("x"), &[], &[]);
    check(Some("x"), &["nothing/**"], &[]);
    for pattern in [
        "*",
        "**",
        ".*",
        "web/**",
        "*/x.lock",
        "a/[x].lock",
        "a/[[]x].lock",
        "[aB]/?.lock",
        "web/*/*.json",
    ] {
        check(Some("x"), &[pattern], &[VARIABLE.0]);
    }
    let json = place.kiln(&["cache", "key", "--prefix", "npm", "--files", "*.json", "--json"]);
    let json: Value = serde_json::from_str(&json.code(0).out).expect("it is JSON");
    let (key, restore) = (json["key"].as_str().expect("it is text"), &json["restore_keys"]);
    assert!(key.starts_with("npm-Linux-"), "{key}");
    assert_eq!((&restore[0], &restore[2]), (&json["key"], &Value::from("npm-")));
    for wrong in
        [&["--files", "/etc/*"][..], &["--files", "../x"], &["--prefix", "a,b"], &["--env", "A=B"]]
    {
        place.kiln(&[&["cache", "key"], wrong].concat()).code(2);
    }
}

/// R8
#[test]
fn caches_of_this_machine_are_listed_counted_and_removed() {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        jobs(
            "  a:\n    runs-on: x\n    steps:\n      - uses: actions/cache@v4\n        with: {path: deps, key: deps-1}\n      \
             - uses: actions/cache@v4\n        with: {path: other, key: other}\n      \
             - run: mkdir -p deps other && echo one > deps/a && echo two > other/b\n",
        ),
    );
    commit_all(place.path());
    let list = |more: &[&str]| -> Vec<Value> {
        let answer = place.kiln(&[&["cache", "ls", "--local", "--json"], more].concat());
        let lines = answer.code(0).out.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("it writes JSON")
    };
    assert!(list(&[]).is_empty());
    place.kiln(&["run"]).code(0);
    place.kiln(&["run"]).code(0);
    let found = list(&["--key", "deps-"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["key"], &found[0]["hits"]), (&Value::from("deps-1"), &Value::from(1)));
    assert!(found[0]["size_in_bytes"].as_u64() > Some(0));
    assert_eq!(list(&["--ref", "main"]).len(), 2);
    assert!(list(&["--ref", "nowhere"]).is_empty());
    let stats = place.kiln(&["cache", "stats", "--local", "--json"]);
    let stats: Value = serde_json::from_str(&stats.code(0).out).expect("it writes JSON");
    assert_eq!((&stats["count"], &stats["hits"]), (&Value::from(2), &Value::from(2)), "{stats}");
    place.kiln(&["cache", "rm", "deps-1", "--local"]).code(0);
    place.kiln(&["cache", "rm", "deps-1", "--local"]).code(2);
    assert_eq!(list(&[]).len(), 1);
    // It is gone for jobs as well, and the other one is as it was.
    let answer = place.kiln(&["run"]);
    let out = &answer.code(0).out;
    assert!(out.contains("Cache not found for input keys: deps-1"), "{out}");
    assert!(out.contains("Cache restored from key: other"), "{out}");
    place.kiln(&["cache", "ls", "--local", "--repo", "a/b"]).code(2);
}

/// L1
#[test]
fn earlier_runs_go_when_they_are_too_much() {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        jobs(
            "  a:\n    runs-on: x\n    steps:\n      - run: head -c 100000 /dev/urandom > big\n      \
             - uses: actions/upload-artifact@v4\n        with: {path: big}\n",
        ),
    );
    commit_all(place.path());
    let runs = || {
        let runs = place.path().join(".git/kiln-state/runs");
        std::fs::read_dir(runs).expect("there were runs").count()
    };
    for expect in [1, 2] {
        place.kiln(&["run"]).code(0);
        assert_eq!(runs(), expect);
    }
    // The run itself stays, whatever it takes.
    place.kiln(&["run", "--runs-limit", "1KB"]).code(0);
    assert_eq!(runs(), 1);
    place.kiln(&["run", "--keep-runs", "0s"]).code(0);
    assert_eq!(runs(), 1);
}
