//! Whether a runner has what a job needs, and what is missing when it has not.

use std::fmt;

use super::requirements::{Capabilities, Requirements};

/// Something that a job needs and a runner does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lack<'r> {
    Pool(&'r str),
    Word { kind: &'static str, word: &'r str },
    Size { unit: &'static str, least: u64, have: u64 },
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(pool) => write!(f, "not in the pool `{pool}`"),
            Self::Word { kind, word } => write!(f, "no {kind} `{word}`"),
            Self::Size { unit, least, have } => {
                write!(f, "{have} {unit} where {least} are needed")
            }
        }
    }
}

impl Lack<'_> {
    /// Whether it is about the same thing, however much of it a runner has.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Size { unit: left, .. }, Self::Size { unit: right, .. }) => left == right,
            _ => self == other,
        }
    }

    /// What to say when no runner has it; the largest one has `most`.
    fn nobody(&self, most: u64) -> String {
        match self {
            Self::Pool(pool) => format!("no runner is in the pool `{pool}`"),
            Self::Word { kind, word } => format!("no runner has the {kind} `{word}`"),
            Self::Size { unit, least, .. } => {
                format!("no runner has {least} {unit}; the largest has {most}")
            }
        }
    }
}

/// Whether a runner can take jobs with these requirements.
pub fn matches(requirements: &Requirements, capabilities: &Capabilities) -> bool {
    lacks(requirements, capabilities).next().is_none()
}

/// The first thing that a runner lacks, in words.
pub fn why_not(requirements: &Requirements, capabilities: &Capabilities) -> Option<String> {
    lacks(requirements, capabilities).next().map(|lack| lack.to_string())
}

/// Why none of these runners can take jobs with these requirements, in words; nothing if one can. It names
/// what nobody has; if somebody has each single thing, it says what the nearest one lacks.
pub fn why_nobody(requirements: &Requirements, runners: &[&Capabilities]) -> Option<String> {
    let lacks: Vec<Vec<Lack<'_>>> =
        runners.iter().map(|runner| lacks(requirements, runner).collect()).collect();
    let Some(nearest) = lacks.iter().min_by_key(|lacks| lacks.len()) else {
        return Some("no runner is there".to_owned());
    };
    let first = nearest.first()?;
    let everybodys = |lack: &&Lack<'_>| {
        lacks.iter().all(|theirs| theirs.iter().any(|other| other.is_same(lack)))
    };
    Some(match nearest.iter().find(everybodys) {
        Some(lack) => {
            let sizes = lacks.iter().flatten().filter(|other| other.is_same(lack));
            let have =
                sizes.map(|other| if let Lack::Size { have, .. } = other { *have } else { 0 });
            lack.nobody(have.max().unwrap_or(0))
        }
        None => format!("no runner has all that it needs; the nearest one has {first}"),
    })
}

fn lacks<'r>(
    requirements: &'r Requirements,
    capabilities: &'r Capabilities,
) -> impl Iterator<Item = Lack<'r>> {
    let (need, have) = (requirements.demand(), capabilities.offer());
    let pool = need.pool.as_deref().filter(|&pool| have.pool.as_deref() != Some(pool));
    pool.map(Lack::Pool)
        .into_iter()
        .chain(missing("system", need.system.as_slice(), &have.systems))
        .chain(missing("label", &need.labels, &have.labels))
        .chain(missing("feature", &need.features, &have.features))
        .chain(missing("tool", &need.tools, &have.tools))
        .chain(too_small("cores", need.min_cores.map(u64::from), have.cores.into()))
        .chain(too_small("MB of memory", need.min_memory_mb, have.memory_mb))
        .chain(too_small("MB of disk", need.min_disk_mb, have.disk_mb))
}

fn missing<'r>(
    kind: &'static str,
    need: &'r [String],
    have: &'r [String],
) -> impl Iterator<Item = Lack<'r>> {
    let missing = need.iter().filter(|&word| have.binary_search(word).is_err());
    missing.map(move |word| Lack::Word { kind, word })
}

fn too_small<'r>(unit: &'static str, least: Option<u64>, have: u64) -> Option<Lack<'r>> {
    let least = least.filter(|&least| have < least)?;
    Some(Lack::Size { unit, least, have })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Demand, Offer};

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn demand(labels: &[&str]) -> Demand {
        Demand { labels: strings(labels), ..Demand::default() }
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
    fn a_runner_takes_what_it_has_everything_for() {
        let check = |demand, expect: Option<&str>| {
            let requirements = Requirements::new(demand).unwrap();
            assert_eq!(why_not(&requirements, &runner()).as_deref(), expect);
            assert_eq!(matches(&requirements, &runner()), expect.is_none());
        };
        let any = Demand::default;
        check(any(), None);
        check(demand(&["LINUX", "self-hosted"]), None);
        check(demand(&["linux", "gpu"]), Some("no label `gpu`"));
        check(Demand { pool: Some("big".to_owned()), ..any() }, None);
        check(Demand { pool: Some("Big".to_owned()), ..any() }, Some("not in the pool `Big`"));
        check(Demand { system: Some("i686-linux".to_owned()), ..any() }, None);
        check(
            Demand { system: Some("aarch64-linux".to_owned()), ..any() },
            Some("no system `aarch64-linux`"),
        );
        check(Demand { features: strings(&["kvm"]), ..any() }, None);
        check(Demand { features: strings(&["KVM"]), ..any() }, Some("no feature `KVM`"));
        check(Demand { tools: strings(&["podman"]), ..any() }, Some("no tool `podman`"));
        check(Demand { min_cores: Some(4), ..any() }, None);
        check(Demand { min_cores: Some(5), ..any() }, Some("4 cores where 5 are needed"));
        check(
            Demand { min_memory_mb: Some(8193), ..any() },
            Some("8192 MB of memory where 8193 are needed"),
        );
        check(Demand { min_memory_mb: Some(8192), min_disk_mb: Some(100_000), ..any() }, None);
        check(
            Demand { min_disk_mb: Some(u64::MAX), ..any() },
            Some("100000 MB of disk where 18446744073709551615 are needed"),
        );
    }

    /// S2
    #[test]
    fn a_runner_that_says_nothing_takes_only_what_needs_nothing() {
        let nothing = Capabilities::parse("{}").unwrap();
        assert!(matches(&Requirements::default(), &nothing));
        let one_core = Demand { min_cores: Some(1), ..Demand::default() };
        assert!(!matches(&Requirements::new(one_core).unwrap(), &nothing));
    }

    /// S10, S16
    #[test]
    fn what_nobody_has_is_named() {
        let small = Capabilities::new(Offer {
            labels: strings(&["linux", "gpu"]),
            cores: 2,
            ..Offer::default()
        })
        .unwrap();
        let check = |demand, runners: &[&Capabilities], expect: Option<&str>| {
            let requirements = Requirements::new(demand).unwrap();
            assert_eq!(why_nobody(&requirements, runners).as_deref(), expect);
        };
        let big = runner();
        let both = &[&big, &small][..];
        check(demand(&["linux"]), &[], Some("no runner is there"));
        check(demand(&["linux"]), both, None);
        check(demand(&["gpu"]), both, None);
        check(demand(&["linux", "mac"]), both, Some("no runner has the label `mac`"));
        check(
            demand(&["gpu", "x64"]),
            both,
            Some("no runner has all that it needs; the nearest one has no label `gpu`"),
        );
        check(
            Demand { tools: strings(&["docker", "nix"]), ..demand(&["gpu"]) },
            both,
            Some("no runner has the tool `nix`"),
        );
        check(
            Demand { min_cores: Some(64), ..Demand::default() },
            both,
            Some("no runner has 64 cores; the largest has 4"),
        );
        check(
            Demand { pool: Some("cheap".to_owned()), ..demand(&["mac"]) },
            &[&big],
            Some("no runner is in the pool `cheap`"),
        );
    }
}
