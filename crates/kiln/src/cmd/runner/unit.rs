//! The systemd unit of a runner.

use anyhow::{Context as _, Result, bail};

use crate::cli::AgentOptions;

use super::settings;

/// A unit that runs this program with what was typed. A key does not belong into it: it is needed once.
pub(super) fn text(args: &AgentOptions) -> Result<String> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut words = vec![program.to_string_lossy().into_owned(), "runner".to_owned()];
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    };
    add("--server", args.server.clone().or_else(|| settings::set("KILN_SERVER")));
    add("--name", args.name.clone());
    for label in &args.label {
        add("--label", Some(label.clone()));
    }
    add("--jobs", args.jobs.map(|jobs| jobs.to_string()));
    add("--data", Some("/var/lib/kiln-runner".to_owned()));
    add("--work", args.work.as_ref().map(|work| work.to_string_lossy().into_owned()));
    add("--ca", args.ca.as_ref().map(|file| file.to_string_lossy().into_owned()));
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
    use super::*;

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
