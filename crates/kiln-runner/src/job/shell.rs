//! Shells: which program runs the text of `run`, and what the script file holds.

use std::path::{Path, PathBuf};

/// A script that is ready to be written and started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Where `contents` belong.
    pub path: PathBuf,
    pub contents: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    /// What the log says about the shell, such as `/usr/bin/bash -e {0}`.
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    #[error(
        "shell `{0}` has no `{{0}}`: name one of bash, sh, python, pwsh, powershell, cmd, or give a \
         command in which `{{0}}` stands for the script file"
    )]
    NoPlaceholder(String),
    #[error("shell `{0}` was not found on PATH")]
    NotFound(String),
}

/// A shell that is known by name.
struct BuiltIn {
    name: &'static str,
    args: &'static str,
    extension: &'static str,
    before: &'static str,
    after: &'static str,
}

const fn plain(name: &'static str, args: &'static str, extension: &'static str) -> BuiltIn {
    BuiltIn { name, args, extension, before: "", after: "" }
}

const fn power(name: &'static str) -> BuiltIn {
    BuiltIn {
        name,
        args: "-command \". '{0}'\"",
        extension: "ps1",
        before: "$ErrorActionPreference = 'stop'\n",
        after: "\nif ((Test-Path -LiteralPath variable:\\LASTEXITCODE)) { exit $LASTEXITCODE }",
    }
}

const BUILT_IN: [BuiltIn; 6] = [
    plain("bash", "--noprofile --norc -e -o pipefail {0}", "sh"),
    plain("sh", "-e {0}", "sh"),
    plain("python", "{0}", "py"),
    power("pwsh"),
    power("powershell"),
    BuiltIn {
        name: "cmd",
        args: "/D /E:ON /V:OFF /S /C \"CALL \"{0}\"\"",
        extension: "cmd",
        before: "@echo off\n",
        after: "",
    },
];

impl Script {
    /// The script for the text of `run`. `shell` is what the step or its defaults say; without it,
    /// bash when there is one, else sh, and neither with `pipefail`. `stem` is the path of the file
    /// without an extension; `which` looks a name up on the step's `PATH`.
    pub fn new(
        shell: Option<&str>,
        run: &str,
        stem: &Path,
        which: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, ShellError> {
        let (name, args, program) = match shell.map(str::trim).filter(|text| !text.is_empty()) {
            None => {
                let sh = built_in("sh").expect("sh is in the table");
                let program = which("bash").or_else(|| which(sh.name));
                (sh.name, sh.args, program)
            }
            Some(text) => {
                let (name, args) = text.split_once(' ').unwrap_or((text, ""));
                let args = match args.trim_start() {
                    "" => built_in(name).map_or("", |known| known.args),
                    args => args,
                };
                // A doubled brace is a brace, so that `{{0}}` names no file.
                if !split(args).iter().any(|arg| arg.replace("{{", "").contains("{0}")) {
                    return Err(ShellError::NoPlaceholder(text.to_owned()));
                }
                (name, args, which(name))
            }
        };
        let program = program.ok_or_else(|| ShellError::NotFound(name.to_owned()))?;
        let known = built_in(name);
        let mut path = stem.to_owned().into_os_string();
        let mut contents = run.to_owned();
        if let Some(known) = known {
            path.push(".");
            path.push(known.extension);
            contents = format!("{}{run}{}", known.before, known.after);
        }
        let path = PathBuf::from(path);
        let description = format!("{} {args}", program.display());
        let args = split(args).iter().map(|arg| fill(arg, &path.to_string_lossy())).collect();
        Ok(Self { path, contents, program, args, description })
    }
}

fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// Splits a command line as GitHub's runner does: blanks separate, double quotes join and may
/// stand anywhere, a backslash counts only before a double quote, single quotes are ordinary.
/// Nothing is expanded.
fn split(text: &str) -> Vec<String> {
    let mut args = Vec::new();
    let mut arg: Option<String> = None;
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' if !quoted => args.extend(arg.take()),
            '"' => {
                // Two quotes within quotes are one that is meant.
                if quoted && chars.next_if_eq(&'"').is_some() {
                    arg.get_or_insert_default().push('"');
                    continue;
                }
                quoted = !quoted;
                arg.get_or_insert_default();
            }
            '\\' => {
                let mut count = 1;
                while chars.next_if_eq(&'\\').is_some() {
                    count += 1;
                }
                let arg = arg.get_or_insert_default();
                if chars.peek() == Some(&'"') {
                    arg.extend(std::iter::repeat_n('\\', count / 2));
                    if count % 2 == 1 {
                        chars.next();
                        arg.push('"');
                    }
                } else {
                    arg.extend(std::iter::repeat_n('\\', count));
                }
            }
            _ => arg.get_or_insert_default().push(c),
        }
    }
    args.extend(arg);
    args
}

/// Puts the path where `{0}` stands; doubled braces are one brace. The path is filled in after the
/// splitting, so that a blank in it does no harm.
fn fill(arg: &str, path: &str) -> String {
    let mut filled = String::with_capacity(arg.len() + path.len());
    let mut rest = arg;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let (text, length) = if from.starts_with("{0}") {
            (path, 3)
        } else {
            (&from[..1], if from.starts_with("{{") || from.starts_with("}}") { 2 } else { 1 })
        };
        filled.push_str(text);
        rest = &from[length..];
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [&str; 7] = ["bash", "sh", "python", "pwsh", "powershell", "cmd", "perl"];

    fn script(shell: Option<&str>, installed: &[&str]) -> Result<Script, ShellError> {
        Script::new(shell, "echo hi\n", Path::new("/t/my dir/1"), |name| {
            installed.contains(&name).then(|| Path::new("/bin").join(name))
        })
    }

    #[track_caller]
    fn check(shell: &str, program: &str, args: &[&str], file: &str) -> Script {
        let script = script((!shell.is_empty()).then_some(shell), &EVERY).unwrap();
        assert_eq!(script.program, Path::new(program), "{shell}");
        assert_eq!(script.args, args, "{shell}");
        assert_eq!(script.path, Path::new(file), "{shell}");
        script
    }

    /// P8
    #[test]
    fn without_a_shell_it_is_bash_or_sh_and_no_pipefail() {
        let bash = check("", "/bin/bash", &["-e", "/t/my dir/1.sh"], "/t/my dir/1.sh");
        assert_eq!(bash.contents, "echo hi\n");
        assert_eq!(bash.description, "/bin/bash -e {0}");
        let sh = script(None, &["sh"]).unwrap();
        assert_eq!((sh.program, sh.args[0].as_str()), ("/bin/sh".into(), "-e"));
        assert_eq!(script(None, &[]), Err(ShellError::NotFound("sh".into())));
    }

    /// P8
    #[test]
    fn named_shells_have_their_arguments_and_extensions() {
        let bash = ["--noprofile", "--norc", "-e", "-o", "pipefail", "/t/my dir/1.sh"];
        check("bash", "/bin/bash", &bash, "/t/my dir/1.sh");
        check("sh", "/bin/sh", &["-e", "/t/my dir/1.sh"], "/t/my dir/1.sh");
        check("python", "/bin/python", &["/t/my dir/1.py"], "/t/my dir/1.py");
        let dot = ["-command", ". '/t/my dir/1.ps1'"];
        for name in ["pwsh", "powershell"] {
            let script = check(name, &format!("/bin/{name}"), &dot, "/t/my dir/1.ps1");
            assert!(script.contents.starts_with("$ErrorActionPreference = 'stop'\necho hi\n"));
            assert!(script.contents.ends_with("{ exit $LASTEXITCODE }"));
        }
        let script = script(Some("cmd"), &EVERY).unwrap();
        assert_eq!(script.contents, "@echo off\necho hi\n");
        assert_eq!(script.path, Path::new("/t/my dir/1.cmd"));
    }

    /// P8
    #[test]
    fn a_command_with_a_placeholder_is_a_shell() {
        check("perl {0}", "/bin/perl", &["/t/my dir/1"], "/t/my dir/1");
        check("bash -l {0}", "/bin/bash", &["-l", "/t/my dir/1.sh"], "/t/my dir/1.sh");
        check("perl  -w -x={0} a", "/bin/perl", &["-w", "-x=/t/my dir/1", "a"], "/t/my dir/1");
        check("perl -c \"bash {0}\"", "/bin/perl", &["-c", "bash /t/my dir/1"], "/t/my dir/1");
        check("perl {{x}} {0} {1}", "/bin/perl", &["{x}", "/t/my dir/1", "{1}"], "/t/my dir/1");
    }

    /// P8
    #[test]
    fn a_shell_that_cannot_be_used_is_an_error_that_says_why() {
        for shell in ["perl", "bash -x", "perl {1}", "perl {{0}}"] {
            let refused = script(Some(shell), &EVERY).unwrap_err();
            assert_eq!(refused, ShellError::NoPlaceholder(shell.to_owned()));
            assert!(refused.to_string().contains("has no `{0}`"), "{refused}");
        }
        let missing = script(Some("fish {0}"), &EVERY).unwrap_err();
        assert_eq!(missing.to_string(), "shell `fish` was not found on PATH");
    }

    #[test]
    fn command_lines_are_split_as_githubs_runner_does() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split(text), expected, "{text}");
        check("", &[]);
        check("  a  b\tc ", &["a", "b", "c"]);
        check("\"a b\"c d", &["a bc", "d"]);
        check("\"\" x", &["", "x"]);
        check("'a b'", &["'a", "b'"]);
        check("a\\b \\\"c\\\" \"d \\\"e\\\" f\"", &["a\\b", "\"c\"", "d \"e\" f"]);
        check("\"a\\\\\" b", &["a\\", "b"]);
        check("\"a\"\"b\"", &["a\"b"]);
        check("\"open end", &["open end"]);
        check("$HOME `x` *", &["$HOME", "`x`", "*"]);
    }

    proptest::proptest! {
        #[test]
        fn any_shell_text_is_read_without_panic(shell in "[a-z{}0 \"'\\\\\tä]{0,30}") {
            if let Ok(script) = script(Some(&shell), &EVERY) {
                proptest::prop_assert!(script.args.iter().any(|arg| arg.contains("/t/my dir/1")));
            }
        }
    }
}
