//! The systemd unit of a runner.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use kiln_runner::agent::Bounds;

use crate::cli::{AgentOptions, LogFormat, RunnerBackend};

use super::settings;

/// What `--min-disk` and `--min-memory` are unless they are given.
const MIN_DISK: u64 = 1_000_000_000;
const MIN_MEMORY: u64 = 128_000_000;

/// A unit that runs this program with what was typed. A key does not belong into it: it is needed once.
pub(super) fn text(args: &AgentOptions) -> Result<String> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut words = vec![program.to_string_lossy().into_owned(), "runner".to_owned()];
    words.extend(options(args)?);
    let words = words.iter().map(|word| quoted(word)).collect::<Result<Vec<_>>>()?;
    Ok(format!(
        "\
[Unit]
Description=Kiln runner
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={}
# KILN_RUNNER_KEY=krk_… for the first start; nobody but root should be able to read it.
EnvironmentFile=-/etc/kiln/runner.env
User=kiln
StateDirectory=kiln-runner
StateDirectoryMode=0700
# Lets the runner limit what jobs use.
Delegate=cpu memory pids
# The first signal drains: what runs is finished, however long that takes.
KillMode=mixed
TimeoutStopSec=infinity
Restart=on-failure
RestartSec=5
# A refused key does not become better by trying again.
RestartPreventExitStatus=2
SuccessExitStatus=1

[Install]
WantedBy=multi-user.target
",
        words.join(" ")
    ))
}

/// Every option as it was typed; those that stand at their defaults are left out.
fn options(args: &AgentOptions) -> Result<Vec<String>> {
    // All of them by name, so that a new one is not forgotten here.
    let AgentOptions {
        server,
        key: _,
        name,
        label,
        only_labels,
        jobs,
        data,
        work,
        once,
        unregister_on_exit,
        grace,
        ca,
        min_disk,
        min_memory,
        max_load,
        backend,
        actions,
        log_format,
        print_unit: _,
    } = args;
    let path = |path: &Option<PathBuf>| -> Result<Option<String>> {
        // systemd starts it elsewhere.
        let path = path.as_deref().map(std::path::absolute).transpose()?;
        Ok(path.map(|path| path.to_string_lossy().into_owned()))
    };
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    };
    add("--server", server.clone().or_else(|| settings::set("KILN_SERVER")));
    add("--name", name.clone());
    for label in label {
        add("--label", Some(label.clone()));
    }
    add("--jobs", jobs.map(|jobs| jobs.to_string()));
    add("--data", path(&data.data)?.or_else(|| Some("/var/lib/kiln-runner".to_owned())));
    add("--work", path(work)?);
    add("--grace", grace.map(|grace| (grace.as_secs_f64() / 60.0).to_string()));
    add("--ca", path(ca)?);
    add("--min-disk", Some(min_disk.to_string()).filter(|_| *min_disk != MIN_DISK));
    add("--min-memory", Some(min_memory.to_string()).filter(|_| *min_memory != MIN_MEMORY));
    let usual_load = Bounds::default().most_load.to_string();
    add("--max-load", Some(max_load.to_string()).filter(|load| *load != usual_load));
    let backend = match backend {
        RunnerBackend::Host => None,
        RunnerBackend::Dummy => Some("dummy".to_owned()),
    };
    add("--backend", backend);
    add("--actions", actions.clone().or_else(|| settings::set("KILN_ACTIONS")));
    let log_format = match log_format {
        LogFormat::Text => None,
        LogFormat::Json => Some("json".to_owned()),
    };
    add("--log-format", log_format);
    let flags = [
        ("--only-labels", only_labels),
        ("--once", once),
        ("--unregister-on-exit", unregister_on_exit),
    ];
    words.extend(flags.into_iter().filter(|(_, set)| **set).map(|(name, _)| name.to_owned()));
    Ok(words)
}

/// A word as systemd reads it.
fn quoted(word: &str) -> Result<String> {
    if word.contains(['\n', '\r']) {
        bail!("`{}` cannot be written into a unit: it has a line break", word.escape_default());
    }
    let escaped = word.replace('%', "%%").replace('$', "$$");
    if escaped.contains([' ', '\t', '"', '\'', '\\', ';']) {
        return Ok(format!("\"{}\"", escaped.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn typed(words: &[&str]) -> AgentOptions {
        let all = ["kiln", "runner"].iter().chain(words);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Runner(args) => args.options,
            other => panic!("{other:?} is another command"),
        }
    }

    /// S15: what is typed with `--print-unit` is what the service does.
    #[test]
    fn a_unit_has_every_option_that_was_typed() {
        let words = [
            "--server",
            "https://ci.example",
            "--name",
            "big",
            "--label",
            "gpu",
            "--jobs",
            "2",
            "--data",
            "/srv/runner",
            "--work",
            "/srv/work",
            "--grace",
            "1.5",
            "--ca",
            "/etc/ca.pem",
            "--min-disk",
            "5000000000",
            "--min-memory",
            "1000000",
            "--max-load",
            "2.5",
            "--actions",
            "/srv/actions",
            "--log-format",
            "json",
            "--only-labels",
            "--once",
            "--unregister-on-exit",
        ];
        let typed_too = [&words[..], &["--key", "krk_secret", "--print-unit"]].concat();
        assert_eq!(options(&typed(&typed_too)).unwrap(), words);
        let unit = text(&typed(&typed_too)).unwrap();
        assert!(!unit.contains("krk_secret") && unit.contains("--grace 1.5 --ca"), "{unit}");
        // What a relative path means changes with the place.
        let here = options(&typed(&["--work", "work"])).unwrap();
        let at = here.iter().position(|word| word == "--work").unwrap();
        assert!(std::path::Path::new(&here[at + 1]).is_absolute(), "{here:?}");
        for usual in
            ["--min-disk", "--min-memory", "--max-load", "--backend", "--log-format", "--once"]
        {
            assert!(!here.contains(&usual.to_owned()), "{usual}: {here:?}");
        }
    }

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        let check = |word: &str, expect: &str| assert_eq!(quoted(word).unwrap(), expect);
        check("http://a:8420", "http://a:8420");
        check("a b", "\"a b\"");
        check("50%$HOME", "50%%$$HOME");
        check("a\"b\\", "\"a\\\"b\\\\\"");
        assert!(quoted("a\nb").is_err());
    }
}
