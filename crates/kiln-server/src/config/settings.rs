//! Where values come from, and which of them counts.

use std::fmt;
use std::path::{Path, PathBuf};

use kiln_lang::suggest::closest;

use super::file;
use super::keys::{KEYS, Key, find};

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { path: PathBuf, line: usize, column: usize },
    Variable(String),
    Flag(String),
}

impl Origin {
    /// Line and column in the file.
    pub(super) fn place(&self) -> (usize, usize) {
        match self {
            Self::File { line, column, .. } => (*line, *column),
            _ => (0, 0),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// Something that is wrong with what was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub origin: Origin,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default => f.write_str(&self.message),
            origin => write!(f, "{origin}: {}", self.message),
        }
    }
}

/// A key, its value as a text, and where that came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub key: &'static Key,
    /// Nothing when it is not set and has no default.
    pub text: Option<String>,
    pub origin: Origin,
}

impl Setting {
    pub(super) fn problem(&self, why: &str) -> Problem {
        let name = self.key.name;
        Problem { origin: self.origin.clone(), message: format!("`{name}`: {why}") }
    }

    /// The text, without passwords.
    pub fn shown(&self) -> Option<String> {
        let text = self.text.as_deref()?;
        Some(match self.key.name {
            "database" => match text.parse::<kiln_store::Options>() {
                Ok(options) => options.to_string(),
                Err(_) => "…".to_owned(),
            },
            "proxy" => without_password(text),
            "storage.s3_secret" => "…".to_owned(),
            _ => text.to_owned(),
        })
    }
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".to_owned() };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => url.to_owned(),
    }
}

/// Settings with a flag of their own; the others are typed as `--set NAME=VALUE`.
const FLAGS: [&str; 6] = ["listen", "data", "database", "public_url", "tls_cert", "tls_key"];

/// All settings, each from the strongest place that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    settings: Vec<Setting>,
    problems: Vec<Problem>,
}

impl Default for Settings {
    fn default() -> Self {
        let default = |key: &'static Key| Setting {
            key,
            text: key.default.filter(|text| !text.is_empty()).map(str::to_owned),
            origin: Origin::Default,
        };
        Self { settings: KEYS.iter().map(default).collect(), problems: Vec::new() }
    }
}

impl Settings {
    /// Gathers what the file, the environment and flags say. Fails only when the file cannot be read.
    pub fn gather(
        path: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<String>,
        flags: &[(&str, String)],
    ) -> Result<Self, Problem> {
        let mut settings = Self::default();
        if let Some(path) = path {
            let text = std::fs::read_to_string(path).map_err(|error| Problem {
                origin: Origin::Default,
                message: format!("cannot read `{}`: {error}", path.display()),
            })?;
            let (found, problems) = file::read(path, &text);
            settings.problems = problems;
            for (name, text, origin) in found {
                settings.set(name, text, origin);
            }
        }
        for key in KEYS {
            // A variable that is set to nothing says nothing.
            if let Some(text) = variable(&key.variable()).filter(|text| !text.is_empty()) {
                settings.set(key.name, text, Origin::Variable(key.variable()));
            }
        }
        for (name, text) in flags {
            settings.flag(name, text);
        }
        Ok(settings)
    }

    fn flag(&mut self, name: &str, text: &str) {
        let is_own = FLAGS.contains(&name);
        let typed = if is_own { name.replace('_', "-") } else { format!("set {name}") };
        let origin = Origin::Flag(typed);
        if find(name).is_some() {
            return self.set(name, text.to_owned(), origin);
        }
        let near = closest(name, KEYS.iter().map(|key| key.name));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let message = format!("there is no setting `{name}`{hint}");
        self.problems.push(Problem { origin: Origin::Flag("set".to_owned()), message });
    }

    fn set(&mut self, name: &str, text: String, origin: Origin) {
        let found = self.settings.iter_mut().find(|setting| setting.key.name == name);
        if let Some(setting) = found {
            setting.text = Some(text);
            setting.origin = origin;
        }
    }

    /// One of [`KEYS`].
    pub(super) fn get(&self, name: &str) -> &Setting {
        let found = self.settings.iter().find(|setting| setting.key.name == name);
        found.expect("only settings of the table are asked for")
    }

    /// All of them, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter()
    }

    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }
}
