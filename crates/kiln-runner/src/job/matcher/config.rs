//! The JSON files that describe problem matchers, and what is wrong with them.

use serde_json::{Map, Value};

use super::super::annotations::Severity;
use super::pattern::Pattern;

/// Bounds of one file. Published ones have a few matchers of a few patterns.
const MAX_FILE_BYTES: usize = 1 << 20;
const MAX_MATCHERS: usize = 100;
const MAX_PATTERNS: usize = 32;

/// Why a file of matchers is refused; it fails the step that named it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("a file of problem matchers has at most {} MiB", MAX_FILE_BYTES >> 20)]
    TooLarge,
    #[error("not JSON: {0}")]
    Json(String),
    #[error("expected {expected} as `{key}`")]
    Type { key: String, expected: &'static str },
    #[error("the file has more than {MAX_MATCHERS} problem matchers")]
    TooManyMatchers,
    #[error("a problem matcher needs an `owner`")]
    NoOwner,
    #[error("two problem matchers have the owner `{0}`")]
    TwiceOwner(String),
    #[error("problem matcher `{owner}`: {fault}")]
    Matcher { owner: String, fault: MatcherFault },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatcherFault {
    #[error("unknown severity `{0}`: expected error, warning or notice")]
    Severity(String),
    #[error("it has no `pattern`")]
    NoPattern,
    #[error("it has more than {MAX_PATTERNS} patterns")]
    TooManyPatterns,
    #[error("only the last of several patterns may set `loop`")]
    Loop,
    #[error("a pattern with `loop` must set `message`")]
    LoopWithoutMessage,
    #[error("no pattern sets `message`")]
    NoMessage,
    #[error("`{0}` is set twice")]
    Twice(&'static str),
    #[error("`{property}` is {value}, but the expression has {groups} groups, counted from 0")]
    Group { property: &'static str, value: u64, groups: usize },
    #[error("`regexp` cannot be used: {0}")]
    Expression(String),
    #[error("expected {expected} as `{key}`")]
    Type { key: &'static str, expected: &'static str },
}

/// One matcher of a file.
#[derive(Debug, Clone)]
pub struct Config {
    pub owner: String,
    pub(super) severity: Option<Severity>,
    pub(super) from_path: Option<String>,
    pub(super) patterns: Vec<Step>,
}

/// One pattern of a matcher, and which group holds what, by the index in [`PROPERTIES`].
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub pattern: Pattern,
    pub groups: [Option<usize>; PROPERTIES.len()],
    pub repeats: bool,
}

/// What a pattern can find.
pub(super) const PROPERTIES: [&str; 7] =
    ["file", "line", "column", "severity", "code", "message", "fromPath"];
const MESSAGE: usize = 5;

/// Reads a file. A file without matchers is not a mistake.
pub fn parse(json: &[u8]) -> Result<Vec<Config>, ConfigError> {
    if json.len() > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge);
    }
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let root: Value =
        serde_json::from_slice(json).map_err(|error| ConfigError::Json(error.to_string()))?;
    let wrong = |key: &str, expected| ConfigError::Type { key: key.to_owned(), expected };
    let root = root.as_object().ok_or_else(|| wrong("the file", "an object"))?;
    let list = match get(root, "problemMatcher") {
        None => return Ok(Vec::new()),
        Some(value) => value.as_array().ok_or_else(|| wrong("problemMatcher", "a list"))?,
    };
    if list.len() > MAX_MATCHERS {
        return Err(ConfigError::TooManyMatchers);
    }
    let mut configs: Vec<Config> = Vec::new();
    for item in list {
        let item = item.as_object().ok_or_else(|| wrong("problemMatcher", "a list of objects"))?;
        let config = matcher(item)?;
        if configs.iter().any(|known| super::same_owner(&known.owner, &config.owner)) {
            return Err(ConfigError::TwiceOwner(config.owner));
        }
        configs.push(config);
    }
    Ok(configs)
}

/// A key, in any case, unless its value is null.
fn get<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let value = object.get(key).or_else(|| {
        object.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
    });
    value.filter(|value| !value.is_null())
}

fn matcher(object: &Map<String, Value>) -> Result<Config, ConfigError> {
    let owner = get(object, "owner").and_then(Value::as_str).filter(|owner| !owner.is_empty());
    let owner = owner.ok_or(ConfigError::NoOwner)?.to_owned();
    match matcher_body(object) {
        Ok((severity, from_path, patterns)) => Ok(Config { owner, severity, from_path, patterns }),
        Err(fault) => Err(ConfigError::Matcher { owner, fault }),
    }
}

type Body = (Option<Severity>, Option<String>, Vec<Step>);

fn matcher_body(object: &Map<String, Value>) -> Result<Body, MatcherFault> {
    let severity = match text(object, "severity")? {
        None | Some("") => None,
        Some(name) => match Severity::from_name(name) {
            None => return Err(MatcherFault::Severity(name.to_owned())),
            known => known,
        },
    };
    let from_path = text(object, "fromPath")?.map(str::to_owned);
    let list = match get(object, "pattern").map(Value::as_array) {
        None => return Err(MatcherFault::NoPattern),
        Some(None) => return Err(MatcherFault::Type { key: "pattern", expected: "a list" }),
        Some(Some(list)) => list,
    };
    if list.is_empty() {
        return Err(MatcherFault::NoPattern);
    }
    if list.len() > MAX_PATTERNS {
        return Err(MatcherFault::TooManyPatterns);
    }
    let mut patterns: Vec<Step> = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let kind = MatcherFault::Type { key: "pattern", expected: "a list of objects" };
        let step = step(item.as_object().ok_or(kind)?)?;
        if step.repeats && (index == 0 || index + 1 < list.len()) {
            return Err(MatcherFault::Loop);
        }
        for (property, name) in PROPERTIES.into_iter().enumerate() {
            let is_set = |step: &Step| step.groups[property].is_some();
            if is_set(&step) && patterns.iter().any(is_set) {
                return Err(MatcherFault::Twice(name));
            }
        }
        patterns.push(step);
    }
    if !patterns.iter().any(|step| step.groups[MESSAGE].is_some()) {
        return Err(MatcherFault::NoMessage);
    }
    Ok((severity, from_path, patterns))
}

fn step(object: &Map<String, Value>) -> Result<Step, MatcherFault> {
    let expression = text(object, "regexp")?.unwrap_or_default();
    let pattern = Pattern::new(expression).map_err(MatcherFault::Expression)?;
    let mut groups = [None; PROPERTIES.len()];
    for (group, property) in groups.iter_mut().zip(PROPERTIES) {
        *group = match number(object, property)? {
            None => None,
            Some(value) => {
                let index = usize::try_from(value).ok().filter(|index| *index < pattern.groups());
                let fault = MatcherFault::Group { property, value, groups: pattern.groups() };
                Some(index.ok_or(fault)?)
            }
        };
    }
    let repeats = match get(object, "loop") {
        None => false,
        Some(value) => {
            value.as_bool().ok_or(MatcherFault::Type { key: "loop", expected: "true or false" })?
        }
    };
    if repeats && groups[MESSAGE].is_none() {
        return Err(MatcherFault::LoopWithoutMessage);
    }
    Ok(Step { pattern, groups, repeats })
}

fn text<'a>(
    object: &'a Map<String, Value>,
    key: &'static str,
) -> Result<Option<&'a str>, MatcherFault> {
    let fault = MatcherFault::Type { key, expected: "text" };
    get(object, key).map(|value| value.as_str().ok_or(fault)).transpose()
}

/// A number, or text that is one.
fn number(object: &Map<String, Value>, key: &'static str) -> Result<Option<u64>, MatcherFault> {
    let Some(value) = get(object, key) else { return Ok(None) };
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    number.map(Some).ok_or(MatcherFault::Type { key, expected: "the number of a group" })
}
