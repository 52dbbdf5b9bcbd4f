//! Files, variables and flags together.

use std::path::Path;

use super::*;

/// What is wrong with a file.
#[track_caller]
fn check(text: &str, expect: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiln.toml");
    std::fs::write(&path, text).unwrap();
    let settings = Settings::gather(Some(&path), &|_| None, &[]).unwrap();
    let (_, problems) = Config::of(&settings, Path::new("/data"));
    let prefix = format!("{}/", folder.path().display());
    let shown: Vec<_> = problems.iter().map(|it| it.to_string().replace(&prefix, "")).collect();
    assert_eq!(shown, expect, "{text}");
}

#[test]
fn a_good_file_has_no_problems() {
    check("", &[]);
    check(
        "listen = '0.0.0.0:1'\ntrusted_proxies = ['10.0.0.0/8', '::1']\n[limits]\njob = 60\n",
        &[],
    );
    check("[keep]\nruns = '90d'\n[limits]\nlog = '1MB'\nconnections = 10", &[]);
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_place() {
    check(
        "lisen = 'x'\nauthentication = 'perhaps'\n\n[limits]\njobs = 1\n  job = '4 hours'\nlog = 1.5\n[nonsense]\na = 1\n",
        &[
            "kiln.toml:1:1: there is no setting `lisen`; did you mean `listen`?",
            "kiln.toml:5:1: there is no setting `limits.jobs`; did you mean `limits.job`?",
            "kiln.toml:7:7: `limits.log` cannot be of type float; expected size",
            "kiln.toml:8:2: there is no setting `nonsense`; `kiln config show` lists all that there are",
            "kiln.toml:2:18: `authentication`: expected `true` or `false`",
            "kiln.toml:6:9: `limits.job`: expected a duration, such as `90s`, `30m`, `4h` or `7d`",
        ],
    );
}

#[test]
fn what_is_no_toml_is_said_with_its_place() {
    check(
        "listen = \n",
        &["kiln.toml:1:10: string values must be quoted, expected literal string"],
    );
}

/// Without authentication nobody beyond this machine may ask.
#[test]
fn without_authentication_it_does_not_listen_beyond_loopback() {
    check("authentication = false", &[]);
    check("authentication = false\nlisten = '[::1]:80'", &[]);
    check(
        "authentication = false\nlisten = '0.0.0.0:80'",
        &[
            "kiln.toml:1:18: `authentication`: without authentication everybody who reaches `0.0.0.0:80` \
           could run programs here; listen on 127.0.0.1, or set `authentication = true`",
        ],
    );
}

#[test]
fn flags_are_stronger_than_the_environment_and_that_than_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kiln.toml");
    std::fs::write(&path, "listen = '127.0.0.1:1'\ndata = '/file'\nlog = 'warn'").unwrap();
    let variable = |name: &str| match name {
        "KILN_LISTEN" => Some("127.0.0.1:2".to_owned()),
        "KILN_DATA" => Some("/variable".to_owned()),
        "KILN_LIMITS_LOG" => Some("10MB".to_owned()),
        "KILN_PUBLIC_URL" => Some(String::new()),
        _ => None,
    };
    let flags = [("listen", "127.0.0.1:3".to_owned()), ("limits.job", "1h".to_owned())];
    let settings = Settings::gather(Some(&path), &variable, &flags).unwrap();
    let (config, problems) = Config::of(&settings, Path::new("/usual"));
    assert_eq!(problems, []);
    assert_eq!(config.listen.to_string(), "127.0.0.1:3");
    assert_eq!(config.public_url, "http://127.0.0.1:3");
    assert_eq!(config.data, Path::new("/variable"));
    assert_eq!(config.database.to_string(), "/variable/kiln.db");
    assert_eq!((config.log.as_str(), config.log_bytes), ("warn", 10_000_000));
    let origin = |name: &str| settings.get(name).origin.to_string();
    assert_eq!(origin("listen"), "--listen");
    assert_eq!(origin("limits.job"), "--set limits.job", "as it was typed");
    assert_eq!(origin("data"), "KILN_DATA");
    assert!(origin("log").ends_with("kiln.toml:3:7"), "{}", origin("log"));
    assert_eq!(origin("no_proxy"), "default");
}

#[test]
fn passwords_are_not_shown() {
    let flags = [
        ("database", "postgres://kiln:secret@db/ci".to_owned()),
        ("proxy", "http://me:secret@proxy:3128".to_owned()),
        ("storage.s3_secret", "secret".to_owned()),
        ("nothing", "secret".to_owned()),
    ];
    let settings = Settings::gather(None, &|_| None, &flags).unwrap();
    let (config, problems) = Config::of(&settings, Path::new("/data"));
    let shown: Vec<_> = settings.iter().filter_map(Setting::shown).collect();
    assert!(shown.contains(&"postgres://kiln@db:5432/ci".to_owned()), "{shown:?}");
    assert!(shown.contains(&"http://…@proxy:3128".to_owned()), "{shown:?}");
    assert!(!shown.concat().contains("secret"));
    // There is no such setting, and a key of S3 without its id and a bucket.
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(config.outbound.proxy.as_deref(), Some("http://me:secret@proxy:3128"));
}

#[test]
fn every_default_is_good_and_every_key_is_used() {
    let config = Config::in_folder(Path::new("/data"));
    assert_eq!(config.keep, Keep::default());
    assert_eq!(config.limits.silence, Duration::from_mins(30));
    for key in KEYS {
        // A value that nothing accepts must be refused, or nobody looks at the key.
        let flags = [(key.name, "\0".to_owned())];
        let settings = Settings::gather(None, &|_| None, &flags).unwrap();
        let (_, problems) = Config::of(&settings, Path::new("/data"));
        assert_eq!(problems.is_empty(), key.name == "log", "{}", key.name);
    }
}
