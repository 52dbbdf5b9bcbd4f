//! What a job needs of a runner, what a runner has, and whether that is enough.
//!
//! Both are put into one form when they are made, so that equal requirements are equal texts: the
//! store finds a queue by the hash of [`Requirements::canonical`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::{Preference, Requires};

/// How many labels, features or tools there may be; each kind is counted by itself.
const MOST_WORDS: usize = 64;
/// How long one may be, in characters. GitHub has the same limit for labels.
const MOST_CHARACTERS: usize = 256;
/// How many entries a preference list may have.
pub const MOST_PREFERENCES: usize = 16;
/// More than the longest canonical text.
const MOST_TEXT: usize = 1 << 20;

/// What a job asks for, as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Demand {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_cores: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_memory_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_disk_mb: Option<u64>,
    /// Who is to take it first, and who after how long; in the order that was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<Preference>,
}

impl Demand {
    /// What a companion asks for besides `runs-on`.
    pub fn of(requires: &Requires, prefer: &[Preference]) -> Self {
        Self {
            system: requires.system.clone(),
            features: requires.features.clone(),
            tools: requires.tools.clone(),
            min_cores: requires.cores,
            min_memory_mb: requires.memory_mb,
            min_disk_mb: requires.disk_mb,
            prefer: prefer.to_vec(),
            ..Self::default()
        }
    }
}

/// What a job needs, in the one form that equal requirements have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requirements(Demand);

impl Requirements {
    /// Labels in lower case (GitHub does not tell them apart), lists sorted, nothing twice.
    pub fn new(demand: Demand) -> Result<Self, NotRequirements> {
        Ok(Self(Demand {
            labels: labels(&demand.labels)?,
            pool: name("pool", demand.pool)?,
            system: name("system", demand.system)?,
            features: words("feature", &demand.features)?,
            tools: words("tool", &demand.tools)?,
            min_cores: demand.min_cores.filter(|&cores| cores > 0),
            min_memory_mb: demand.min_memory_mb.filter(|&size| size > 0),
            min_disk_mb: demand.min_disk_mb.filter(|&size| size > 0),
            prefer: preferences(demand.prefer)?,
        }))
    }

    /// Reads what [`canonical`](Self::canonical) wrote. A field it does not know is an error: a
    /// requirement must not be passed over.
    pub fn parse(text: &str) -> Result<Self, NotRequirements> {
        Self::new(read("requirements", text)?)
    }

    /// The same text for the same requirements, for ever: queues are found by its hash.
    pub fn canonical(&self) -> String {
        serde_json::to_string(&self.0).expect("strings and numbers are always JSON")
    }

    pub fn demand(&self) -> &Demand {
        &self.0
    }
}

/// For people: `linux, x64; pool big; 4 cores; prefers warm`.
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let need = &self.0;
        let words = |kind: &str, words: &[String]| match words.len() {
            0 => None,
            1 => Some(format!("{kind} {}", words[0])),
            _ => Some(format!("{kind}s {}", words.join(", "))),
        };
        let size = |size: Option<u64>, unit: &str| size.map(|size| format!("{size} {unit}"));
        let prefer = need.prefer.iter().map(|entry| {
            let pool = entry.pool.iter().map(|pool| format!("pool {pool}"));
            entry.labels.iter().cloned().chain(pool).collect::<Vec<_>>().join(", ")
        });
        let prefer = prefer.collect::<Vec<_>>().join(", then ");
        let parts = [
            Some(need.labels.join(", ")).filter(|labels| !labels.is_empty()),
            need.pool.as_ref().map(|pool| format!("pool {pool}")),
            need.system.as_ref().map(|system| format!("system {system}")),
            words("feature", &need.features),
            words("tool", &need.tools),
            size(need.min_cores.map(u64::from), "cores"),
            size(need.min_memory_mb, "MB of memory"),
            size(need.min_disk_mb, "MB of disk"),
            Some(prefer).filter(|list| !list.is_empty()).map(|list| format!("prefers {list}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { f.write_str("any runner") } else { f.write_str(&parts.join("; ")) }
    }
}

/// What a runner says it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    pub labels: Vec<String>,
    pub pool: Option<String>,
    pub systems: Vec<String>,
    pub features: Vec<String>,
    pub tools: Vec<String>,
    pub cores: u32,
    pub memory_mb: u64,
    pub disk_mb: u64,
}

/// What a runner has, in the same form as [`Requirements`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities(Offer);

impl Capabilities {
    pub fn new(offer: Offer) -> Result<Self, NotRequirements> {
        Ok(Self(Offer {
            labels: labels(&offer.labels)?,
            pool: name("pool", offer.pool)?,
            systems: words("system", &offer.systems)?,
            features: words("feature", &offer.features)?,
            tools: words("tool", &offer.tools)?,
            ..offer
        }))
    }

    /// Reads what [`canonical`](Self::canonical) wrote. What it does not know is passed over: a newer
    /// runner may have more than this server can ask for.
    pub fn parse(text: &str) -> Result<Self, NotRequirements> {
        Self::new(read("capabilities", text)?)
    }

    pub fn canonical(&self) -> String {
        serde_json::to_string(&self.0).expect("strings and numbers are always JSON")
    }

    pub fn offer(&self) -> &Offer {
        &self.0
    }
}

fn read<'a, T: Deserialize<'a>>(what: &'static str, text: &'a str) -> Result<T, NotRequirements> {
    if text.len() > MOST_TEXT {
        return Err(NotRequirements(format!("these {what} are longer than {MOST_TEXT} bytes")));
    }
    // Serde would read a list as the fields in their order.
    if !text.trim_start().starts_with('{') {
        return Err(NotRequirements(format!("these {what} cannot be read: expected an object")));
    }
    serde_json::from_str(text)
        .map_err(|error| NotRequirements(format!("these {what} cannot be read: {error}")))
}

fn preferences(given: Vec<Preference>) -> Result<Vec<Preference>, NotRequirements> {
    if given.len() > MOST_PREFERENCES {
        let count = given.len();
        return Err(NotRequirements(format!(
            "{count} preferences are too many; at most {MOST_PREFERENCES}"
        )));
    }
    let one = |entry: Preference| {
        let (labels, pool) = (labels(&entry.labels)?, name("pool", entry.pool)?);
        Ok(Preference { labels, pool, ..entry })
    };
    given.into_iter().map(one).collect()
}

fn labels(given: &[String]) -> Result<Vec<String>, NotRequirements> {
    let lower: Vec<String> = given.iter().map(|word| word.to_lowercase()).collect();
    words("label", &lower)
}

fn words(kind: &str, given: &[String]) -> Result<Vec<String>, NotRequirements> {
    let mut words = given.iter().map(|word| checked(kind, word)).collect::<Result<Vec<_>, _>>()?;
    words.sort_unstable();
    words.dedup();
    if words.len() > MOST_WORDS {
        let count = words.len();
        return Err(NotRequirements(format!("{count} {kind}s are too many; at most {MOST_WORDS}")));
    }
    Ok(words)
}

fn name(kind: &str, given: Option<String>) -> Result<Option<String>, NotRequirements> {
    given.map(|name| checked(kind, &name)).transpose()
}

fn checked(kind: &str, word: &str) -> Result<String, NotRequirements> {
    let word = word.trim();
    if word.is_empty() {
        return Err(NotRequirements(format!("a {kind} is empty; leave it out or name one")));
    }
    let plain = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    let shown: String = word.chars().take(40).map(plain).collect();
    if word.chars().nth(MOST_CHARACTERS).is_some() {
        return Err(NotRequirements(format!(
            "the {kind} `{shown}…` is too long; at most {MOST_CHARACTERS} characters"
        )));
    }
    if word.chars().any(char::is_control) {
        return Err(NotRequirements(format!(
            "the {kind} `{shown}` has a control character; expected plain text"
        )));
    }
    Ok(word.to_owned())
}

/// Requirements or capabilities that break a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRequirements(String);

impl fmt::Display for NotRequirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotRequirements {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn demand(labels: &[&str]) -> Demand {
        Demand { labels: strings(labels), ..Demand::default() }
    }

    fn prefer(labels: &[&str], after_seconds: u32) -> Preference {
        Preference { labels: strings(labels), pool: None, after_seconds }
    }

    fn runner() -> Capabilities {
        Capabilities::new(Offer {
            labels: strings(&["self-hosted", "Linux", "X64"]),
            pool: Some("big".to_owned()),
            systems: strings(&["x86_64-linux", "i686-linux"]),
            features: strings(&["kvm", "big-parallel"]),
            tools: strings(&["docker"]),
            cores: 4,
            memory_mb: 8192,
            disk_mb: 100_000,
        })
        .unwrap()
    }

    /// S2
    #[test]
    fn equal_requirements_have_equal_texts() {
        let check = |demand, expect: &str| {
            let requirements = Requirements::new(demand).unwrap();
            assert_eq!(requirements.canonical(), expect);
            assert_eq!(Requirements::parse(expect), Ok(requirements));
        };
        check(Demand::default(), "{}");
        check(demand(&[" Linux", "gpu", "linux", "GPU "]), r#"{"labels":["gpu","linux"]}"#);
        check(Demand { min_cores: Some(0), ..demand(&["a"]) }, r#"{"labels":["a"]}"#);
        check(
            Demand {
                pool: Some("Big one".to_owned()),
                system: Some("x86_64-linux".to_owned()),
                features: strings(&["kvm", "Kvm", "kvm"]),
                tools: strings(&["\"quoted\""]),
                min_cores: Some(2),
                min_memory_mb: Some(u64::MAX),
                min_disk_mb: Some(1),
                prefer: vec![prefer(&["Warm", "a"], 60), prefer(&["spot"], 0)],
                ..Demand::default()
            },
            concat!(
                r#"{"pool":"Big one","system":"x86_64-linux","features":["Kvm","kvm"],"#,
                r#""tools":["\"quoted\""],"min_cores":2,"min_memory_mb":18446744073709551615,"#,
                r#""min_disk_mb":1,"prefer":[{"labels":["a","warm"],"after_seconds":60},"#,
                r#"{"labels":["spot"]}]}"#
            ),
        );
    }

    /// S16
    #[test]
    fn requirements_are_said_in_words() {
        let check = |demand, expect: &str| {
            assert_eq!(Requirements::new(demand).unwrap().to_string(), expect);
        };
        check(Demand::default(), "any runner");
        check(demand(&["linux", "X64"]), "linux, x64");
        let all = Demand {
            pool: Some("big".to_owned()),
            system: Some("x86_64-linux".to_owned()),
            features: strings(&["kvm"]),
            tools: strings(&["docker", "nix"]),
            min_cores: Some(4),
            min_memory_mb: Some(8000),
            min_disk_mb: Some(1),
            prefer: vec![
                prefer(&["warm"], 1),
                Preference { pool: Some("spot".to_owned()), ..prefer(&["a", "b"], 1) },
            ],
            ..demand(&["linux"])
        };
        check(
            all,
            "linux; pool big; system x86_64-linux; feature kvm; tools docker, nix; 4 cores; \
             8000 MB of memory; 1 MB of disk; prefers warm, then a, b, pool spot",
        );
    }

    #[test]
    fn capabilities_lead_back() {
        assert_eq!(Capabilities::parse(&runner().canonical()), Ok(runner()));
        assert!(Capabilities::parse(r#"{"labels":["a"],"wings":2}"#).is_ok());
    }

    #[test]
    fn what_breaks_a_bound_is_refused() {
        let check = |demand, expect: &str| {
            assert_eq!(Requirements::new(demand).unwrap_err().to_string(), expect);
        };
        check(demand(&["a", " "]), "a label is empty; leave it out or name one");
        check(
            demand(&["a\nb"]),
            "the label `a\u{fffd}b` has a control character; expected plain text",
        );
        check(
            demand(&[&"ü".repeat(257)]),
            &format!("the label `{}…` is too long; at most 256 characters", "ü".repeat(40)),
        );
        assert!(Requirements::new(demand(&[&"ü".repeat(256)])).is_ok());
        let many = |count: usize| Demand {
            tools: (0..count).map(|number| number.to_string()).collect(),
            ..Demand::default()
        };
        check(many(65), "65 tools are too many; at most 64");
        assert!(Requirements::new(many(64)).is_ok());
        check(
            Demand { prefer: vec![prefer(&["a"], 1); 17], ..Demand::default() },
            "17 preferences are too many; at most 16",
        );
        let empty = Some(String::new());
        check(
            Demand { pool: empty, ..Demand::default() },
            "a pool is empty; leave it out or name one",
        );
    }

    #[test]
    fn a_text_that_is_none_is_refused() {
        let check = |text: &str, expect| {
            let error = Requirements::parse(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("", "these requirements cannot be read");
        check("[]", "these requirements cannot be read");
        check(r#"{"min_gpus":1}"#, "unknown field `min_gpus`");
        check(r#"{"min_cores":-1}"#, "cannot be read");
        check(&"[".repeat(10_000), "cannot be read");
        check(&" ".repeat((1 << 20) + 1), "longer than 1048576 bytes");
    }

    proptest! {
        /// S2
        #[test]
        fn every_text_leads_back(
            labels in prop::collection::vec("\\PC{1,8}", 0..5),
            features in prop::collection::vec("\\PC{1,8}", 0..5),
            system in prop::option::of("\\PC{1,8}"),
            min_cores in prop::option::of(any::<u32>()),
        ) {
            let demand = Demand { labels, system, features, min_cores, ..Demand::default() };
            if let Ok(requirements) = Requirements::new(demand) {
                prop_assert_eq!(Requirements::parse(&requirements.canonical()), Ok(requirements));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = Requirements::parse(&text);
            let _ = Capabilities::parse(&text);
        }
    }
}
