//! The environment of a step: which of several values of a variable wins.
//!
//! From weak to strong: what the runner inherited, `env` of the workflow and of the job with what
//! `GITHUB_ENV` changed since, `env` of the step, the inputs and the state of an action, and last
//! the runner's own `GITHUB_*` and `RUNNER_*`. Names are case-sensitive, as on every Unix.

use std::ffi::{OsStr, OsString};

use indexmap::IndexMap;

use crate::git::BINDING_VARIABLES;

/// Variables that came from a workflow, in the order in which they were set.
pub type Variables = IndexMap<String, String>;
/// A whole environment; inherited variables need not be text.
pub type Environment = IndexMap<OsString, OsString>;

/// Everything that decides about the environment of one step.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// What the runner's own process inherited.
    pub inherited: &'a Environment,
    /// See [`job_variables`].
    pub job: &'a Variables,
    /// `env` of the step; in a composite action that of its callers, too.
    pub step: &'a Variables,
    /// `INPUT_*` and `STATE_*` of an action.
    pub action: &'a Variables,
    /// The runner's own variables, which nothing overrides.
    pub protected: &'a Variables,
    pub path: &'a PathAdditions,
}

impl Layers<'_> {
    pub fn environment(&self) -> Environment {
        let mut all = self.inherited.clone();
        for layer in [self.job, self.step, self.action] {
            set_all(&mut all, layer);
        }
        if let Some(path) = self.path.before(all.get(OsStr::new("PATH")).map(OsString::as_os_str)) {
            all.insert("PATH".into(), path);
        }
        // A workflow may say `CI: false`, but nobody may deny that this is a workflow.
        all.entry("CI".into()).or_insert_with(|| "true".into());
        all.insert("GITHUB_ACTIONS".into(), "true".into());
        set_all(&mut all, self.protected);
        all
    }

    /// The `env` context of the step's expressions: what the workflow said, not what was inherited.
    pub fn context(&self) -> Variables {
        let mut context = self.job.clone();
        context.extend(self.step.iter().map(|(name, value)| (name.clone(), value.clone())));
        context
    }
}

/// Names and values that no process can be given are left out: a NUL byte, an empty name or one
/// with `=` would stop every later step from starting.
fn set_all(all: &mut Environment, layer: &Variables) {
    for (name, value) in layer {
        if !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') {
            all.insert(name.into(), value.into());
        }
    }
}

/// What of a process's own environment jobs may see. They must not see what Kiln itself is told, nor
/// another run's variables, nor the repository whose hook Kiln may have been started by, nor what is
/// `hidden` from them.
pub fn inheritable(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    hidden: &[String],
) -> Environment {
    const FOREIGN: [&str; 5] = ["KILN_", "GITHUB_", "RUNNER_", "INPUT_", "ACTIONS_"];
    let is_foreign = |name: &OsString| {
        let name = name.to_string_lossy();
        FOREIGN.iter().any(|prefix| name.starts_with(prefix))
            || BINDING_VARIABLES.contains(&&*name)
            || hidden.iter().any(|hidden| *hidden == name)
    };
    let mut inherited = own.into_iter().filter(|(name, _)| !is_foreign(name)).collect();
    keep_from_proxies(&mut inherited);
    inherited
}

/// What a run serves on loopback must not be looked for behind a proxy.
pub(super) fn keep_from_proxies(environment: &mut Environment) {
    const LOOPBACK: &str = "localhost,.localhost,127.0.0.1";
    let is_proxy = |name: &OsString| name.to_string_lossy().to_lowercase().ends_with("_proxy");
    if !environment.keys().any(is_proxy) {
        return;
    }
    // Some programs read one, some the other.
    for name in ["no_proxy", "NO_PROXY"] {
        let exceptions = environment.entry(name.into()).or_default();
        if exceptions.to_string_lossy().ends_with(LOOPBACK) {
            continue;
        }
        if !exceptions.is_empty() {
            exceptions.push(",");
        }
        exceptions.push(LOOPBACK);
    }
}

/// The variables of a job that its steps share: `env` of the workflow beneath `env` of the job,
/// and what steps wrote to `GITHUB_ENV` above both.
pub fn job_variables(workflow: &Variables, job: &Variables) -> Variables {
    let mut all = workflow.clone();
    all.extend(job.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

/// What steps added to `PATH`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathAdditions {
    /// The newest last.
    entries: Vec<String>,
}

impl PathAdditions {
    /// Puts an entry before all others; one that was there moves.
    pub fn add(&mut self, entry: &str) {
        self.entries.retain(|known| known != entry);
        self.entries.push(entry.to_owned());
    }

    /// The entries in the order in which they are searched.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().rev().map(String::as_str)
    }

    /// The additions before what was there; nothing when there are none.
    pub fn before(&self, path: Option<&OsStr>) -> Option<OsString> {
        if self.entries.is_empty() {
            return None;
        }
        let mut joined = OsString::from(self.iter().collect::<Vec<_>>().join(":"));
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            joined.push(":");
            joined.push(path);
        }
        Some(joined)
    }
}

/// The variable in which an action finds an input: `INPUT_` and the name in capitals, with
/// underscores for blanks.
pub fn input_name(name: &str) -> String {
    format!("INPUT_{}", name.replace(' ', "_").to_uppercase())
}

/// The variable in which the post part of an action finds what its main part saved.
pub fn state_name(name: &str) -> String {
    format!("STATE_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn inherited(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[derive(Default)]
    struct Case {
        inherited: Environment,
        job: Variables,
        step: Variables,
        action: Variables,
        protected: Variables,
        path: PathAdditions,
    }

    impl Case {
        fn layers(&self) -> Layers<'_> {
            Layers {
                inherited: &self.inherited,
                job: &self.job,
                step: &self.step,
                action: &self.action,
                protected: &self.protected,
                path: &self.path,
            }
        }

        #[track_caller]
        fn check(&self, name: &str, expected: Option<&str>) {
            let all = self.layers().environment();
            assert_eq!(
                all.get(OsStr::new(name)).and_then(|value| value.to_str()),
                expected,
                "{name}"
            );
        }
    }

    /// P8
    #[test]
    fn the_nearer_value_wins_and_github_env_stands_between_job_and_step() {
        let mut case = Case {
            inherited: inherited(&[("A", "runner"), ("B", "runner"), ("HOME", "/root")]),
            job: job_variables(
                &variables(&[("B", "workflow"), ("C", "workflow"), ("D", "workflow")]),
                &variables(&[("C", "job"), ("D", "job"), ("E", "job")]),
            ),
            step: variables(&[("D", "step"), ("E", "step")]),
            ..Case::default()
        };
        case.job.insert("C".into(), "file".into());
        case.job.insert("E".into(), "file".into());
        case.check("A", Some("runner"));
        case.check("B", Some("workflow"));
        case.check("C", Some("file"));
        case.check("D", Some("step"));
        case.check("E", Some("step"));
        case.check("HOME", Some("/root"));
        case.check("F", None);
        let context = case.layers().context();
        assert_eq!(context.get("E").map(String::as_str), Some("step"));
        assert_eq!(context.get("HOME"), None, "the context holds what the workflow said");
    }

    /// P8
    #[test]
    fn the_runners_own_variables_cannot_be_overwritten_but_others_can() {
        let case = Case {
            step: variables(&[("GITHUB_SHA", "mine"), ("GITHUB_TOKEN", "t"), ("CI", "false")]),
            action: variables(&[("INPUT_X", "1"), ("GITHUB_ACTIONS", "no")]),
            protected: variables(&[("GITHUB_SHA", "abc"), ("RUNNER_OS", "Linux")]),
            ..Case::default()
        };
        case.check("GITHUB_SHA", Some("abc"));
        case.check("RUNNER_OS", Some("Linux"));
        case.check("GITHUB_TOKEN", Some("t"));
        case.check("CI", Some("false"));
        case.check("GITHUB_ACTIONS", Some("true"));
        case.check("INPUT_X", Some("1"));
        Case::default().check("CI", Some("true"));
    }

    /// P8
    #[test]
    fn later_paths_come_first_and_duplicates_move() {
        let mut path = PathAdditions::default();
        for entry in ["/a", "/b", "/c", "/a"] {
            path.add(entry);
        }
        let mut case = Case { path, ..Case::default() };
        case.check("PATH", Some("/a:/c:/b"));
        case.inherited = inherited(&[("PATH", "/usr/bin:/bin")]);
        case.check("PATH", Some("/a:/c:/b:/usr/bin:/bin"));
        case.step = variables(&[("PATH", "/only")]);
        case.check("PATH", Some("/a:/c:/b:/only"));
        case.path = PathAdditions::default();
        case.check("PATH", Some("/only"));
    }

    #[test]
    fn jobs_inherit_neither_what_is_kilns_nor_what_is_hidden() {
        let own = inherited(&[
            ("HOME", "/root"),
            ("KILN_RUNNER_KEY", "k"),
            ("GIT_DIR", "/x"),
            ("SECRET", "s"),
            ("HTTPS_PROXY", "http://proxy"),
            ("NO_PROXY", "intern"),
        ]);
        let seen = inheritable(own, &["SECRET".to_owned()]);
        let expect = inherited(&[
            ("HOME", "/root"),
            ("HTTPS_PROXY", "http://proxy"),
            ("NO_PROXY", "intern,localhost,.localhost,127.0.0.1"),
            ("no_proxy", "localhost,.localhost,127.0.0.1"),
        ]);
        assert_eq!(seen, expect);
    }

    #[test]
    fn names_are_case_sensitive() {
        let case = Case { step: variables(&[("a", "1"), ("A", "2")]), ..Case::default() };
        case.check("a", Some("1"));
        case.check("A", Some("2"));
    }

    #[test]
    fn what_no_process_can_be_given_is_left_out() {
        let step = variables(&[("", "x"), ("A=B", "x"), ("N", "a\0b"), ("OK", "y")]);
        let case = Case { step, ..Case::default() };
        assert_eq!(case.layers().environment().len(), 3, "OK, CI and GITHUB_ACTIONS");
    }

    #[test]
    fn inputs_are_named_as_the_toolkit_reads_them() {
        assert_eq!(input_name("my input-x"), "INPUT_MY_INPUT-X");
        assert_eq!(state_name("isPost"), "STATE_isPost");
    }
}
