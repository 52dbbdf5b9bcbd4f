//! Annotations: what a step says about a place in the source, and how much of it is kept.

use std::path::{Component, Path, PathBuf};

use super::mask::Masker;

/// How many annotations of one severity a step may leave behind.
pub const MAX_PER_SEVERITY: usize = 10;
/// How many characters of a message are kept.
pub const MAX_MESSAGE_CHARS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    Notice,
    Warning,
    Error,
}

impl Severity {
    /// Reads `notice`, `warning` or `error`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Notice, Self::Warning, Self::Error]
            .into_iter()
            .find(|severity| severity.as_str().eq_ignore_ascii_case(name))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// What stands before the text in the log, such as `##[error]`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Notice => "##[notice]",
            Self::Warning => "##[warning]",
            Self::Error => "##[error]",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    pub severity: Severity,
    pub message: String,
    pub title: Option<String>,
    /// Relative to the repository when it lies beneath it.
    pub file: Option<String>,
    pub line: Option<u32>,
    pub end_line: Option<u32>,
    pub column: Option<u32>,
    pub end_column: Option<u32>,
    /// The code of a compiler or linter, such as `E0308`; only problem matchers find one.
    pub code: Option<String>,
}

impl Annotation {
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            severity,
            message: message.into(),
            title: None,
            file: None,
            line: None,
            end_line: None,
            column: None,
            end_column: None,
            code: None,
        }
    }

    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let optional = [&mut self.title, &mut self.file, &mut self.code];
        std::iter::once(&mut self.message).chain(optional.into_iter().flatten())
    }
}

/// Counts the annotations of one step.
#[derive(Debug, Clone, Default)]
pub struct Quota {
    used: [usize; 3],
}

impl Quota {
    /// The annotation as it may be stored, without secrets and cut to size; nothing when the step
    /// has used up its share of this severity.
    pub fn admit(&mut self, mut annotation: Annotation, masker: &Masker) -> Option<Annotation> {
        let used = &mut self.used[annotation.severity as usize];
        if *used == MAX_PER_SEVERITY {
            return None;
        }
        *used += 1;
        for text in annotation.texts() {
            // Masked first: a cut through the middle of a secret would hide it from the masker.
            *text = masker.mask_text(text).into_owned();
            if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE_CHARS) {
                text.truncate(end);
            }
        }
        Some(annotation)
    }
}

/// The path below `root` without `.` and `..`, or nothing when `file` lies elsewhere.
/// A relative `file` is taken from `root`.
pub fn beneath(root: &Path, file: &Path) -> Option<String> {
    let full = normalise(&root.join(file));
    let relative = full.strip_prefix(normalise(root)).ok()?;
    (!relative.as_os_str().is_empty()).then(|| relative.to_string_lossy().into_owned())
}

/// Removes `.` and `..` by the text alone, as the paths may not exist.
fn normalise(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_severity_has_its_own_ten() {
        let (mut quota, masker) = (Quota::default(), Masker::default());
        let mut admitted = |severity| {
            (0..15).filter_map(|_| quota.admit(Annotation::new(severity, "x"), &masker)).count()
        };
        assert_eq!(admitted(Severity::Error), 10);
        assert_eq!(admitted(Severity::Warning), 10);
        assert_eq!(admitted(Severity::Notice), 10);
        assert_eq!(admitted(Severity::Error), 0);
    }

    #[test]
    fn messages_are_masked_and_then_cut_by_characters() {
        let mut masker = Masker::default();
        masker.add("hunter2secret").unwrap();
        let text = format!("{}hunter2secret", "ä".repeat(MAX_MESSAGE_CHARS - 5));
        let mut annotation = Annotation::new(Severity::Error, text);
        annotation.title = Some("about hunter2secret".into());
        let admitted = Quota::default().admit(annotation, &masker).unwrap();
        assert!(admitted.message.ends_with("ä***"), "nothing of the secret is left by the cut");
        assert_eq!(admitted.title.as_deref(), Some("about ***"));
        let long = Annotation::new(Severity::Error, "ä".repeat(5000));
        let admitted = Quota::default().admit(long, &masker).unwrap();
        assert_eq!(admitted.message.chars().count(), MAX_MESSAGE_CHARS);
    }

    #[test]
    fn paths_become_relative_only_beneath_the_root() {
        let check = |file: &str, expected: Option<&str>| {
            assert_eq!(beneath(Path::new("/w/repo"), Path::new(file)).as_deref(), expected);
        };
        check("src/main.rs", Some("src/main.rs"));
        check("./src/../lib.rs", Some("lib.rs"));
        check("/w/repo/a/b.c", Some("a/b.c"));
        check("/w/repo", None);
        check("/w/repository/a", None);
        check("../other/a", None);
        check("/etc/passwd", None);
    }

    #[test]
    fn severities_are_read_in_any_case() {
        assert_eq!(Severity::from_name("WARNING"), Some(Severity::Warning));
        assert_eq!(Severity::from_name("info"), None);
    }
}
