//! Jobs with the time at which they come, and whose they are.

use std::collections::HashMap;
use std::fmt;

use kiln_core::queue::{Class, Demand, NotRequirements, Requirements};

use super::numbers::number;

/// More jobs than this are refused: they would not fit into memory everywhere.
pub const MOST_JOBS: usize = 10_000_000;
/// More organizations or repositories than any server has.
const MOST_NAMES: usize = 1_000_000;
/// Sets of labels; each is compared with each kind of runner.
const MOST_KINDS: usize = 1_000;
const MOST_CHARACTERS: usize = 256;

/// One job. Times are milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    pub submitted: i64,
    pub millis: u32,
    /// Its place in [`Load::lanes`].
    pub lane: u32,
}

/// What the jobs of one line have in common. Numbers are places in the lists of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lane {
    pub kind: u32,
    pub priority: i64,
    pub organization: u32,
    pub repository: u32,
    pub class: Class,
    /// The place in [`Load::cells`].
    pub cell: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    pub name: String,
    pub shares: u32,
    /// How many of its jobs may run at a time.
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub name: String,
    pub organization: u32,
}

/// The jobs of one organization for one kind of runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) kind: u32,
    pub(super) organization: u32,
}

/// Jobs in the order in which they come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    pub jobs: Vec<Job>,
    pub lanes: Vec<Lane>,
    pub organizations: Vec<Organization>,
    pub repositories: Vec<Repository>,
    /// The different sets of requirements.
    pub kinds: Vec<Requirements>,
    pub(super) cells: Vec<Cell>,
}

impl Load {
    pub(super) fn lane(&self, job: u32) -> &Lane {
        &self.lanes[self.jobs[job as usize].lane as usize]
    }

    /// All the time that runners will work, in milliseconds.
    pub fn work(&self) -> i64 {
        self.jobs.iter().map(|job| i64::from(job.millis)).sum()
    }

    /// When the first job comes, and when the last.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((self.jobs.first()?.submitted, self.jobs.last()?.submitted))
    }

    /// No way to hand the jobs out takes less time, from the first submission to the last end.
    pub fn makespan_at_least(&self, runners: u32) -> i64 {
        let Some((first, _)) = self.span() else { return 0 };
        let ends = self.jobs.iter().map(|job| job.submitted + i64::from(job.millis) - first);
        let even = self.work() / i64::from(runners.max(1));
        ends.max().unwrap_or(0).max(even)
    }

    /// The organization with this name.
    pub fn organization_mut(&mut self, name: &str) -> Option<&mut Organization> {
        self.organizations.iter_mut().find(|organization| organization.name == name)
    }
}

/// Gives names their numbers while a load is made.
#[derive(Debug, Default)]
pub struct LoadBuilder {
    load: Load,
    organizations: HashMap<String, u32>,
    repositories: HashMap<(u32, String), u32>,
    kinds: HashMap<Requirements, u32>,
    lanes: HashMap<(u32, i64, u32, Class), u32>,
    cells: HashMap<(u32, u32), u32>,
}

impl LoadBuilder {
    pub fn organization(&mut self, name: &str) -> Result<u32, TooMuch> {
        if let Some(&known) = self.organizations.get(name) {
            return Ok(known);
        }
        let next = place(&self.load.organizations, MOST_NAMES, "organizations")?;
        let name = checked("organization", name)?;
        self.organizations.insert(name.clone(), next);
        self.load.organizations.push(Organization { name, shares: 100, limit: None });
        Ok(next)
    }

    pub fn repository(&mut self, organization: u32, name: &str) -> Result<u32, TooMuch> {
        let key = (organization, name.to_owned());
        if let Some(&known) = self.repositories.get(&key) {
            return Ok(known);
        }
        let next = place(&self.load.repositories, MOST_NAMES, "repositories")?;
        let name = checked("repository", name)?;
        self.load.repositories.push(Repository { name, organization });
        self.repositories.insert(key, next);
        Ok(next)
    }

    /// What jobs with these labels need.
    pub fn kind(&mut self, labels: &[String]) -> Result<u32, TooMuch> {
        let demand = Demand { labels: labels.to_vec(), ..Demand::default() };
        let requirements = Requirements::new(demand)?;
        if let Some(&known) = self.kinds.get(&requirements) {
            return Ok(known);
        }
        let next = place(&self.load.kinds, MOST_KINDS, "different sets of labels")?;
        self.kinds.insert(requirements.clone(), next);
        self.load.kinds.push(requirements);
        Ok(next)
    }

    pub fn lane(&mut self, kind: u32, priority: i64, repository: u32, class: Class) -> u32 {
        let load = &mut self.load;
        let organization = load.repositories[repository as usize].organization;
        let cell = *self.cells.entry((kind, organization)).or_insert_with(|| {
            load.cells.push(Cell { kind, organization });
            number(load.cells.len() - 1)
        });
        *self.lanes.entry((kind, priority, repository, class)).or_insert_with(|| {
            load.lanes.push(Lane { kind, priority, organization, repository, class, cell });
            number(load.lanes.len() - 1)
        })
    }

    pub fn job(&mut self, submitted: i64, millis: u32, lane: u32) -> Result<(), TooMuch> {
        place(&self.load.jobs, MOST_JOBS, "jobs")?;
        // A job that takes no time at all would make the utilization of nothing a question.
        self.load.jobs.push(Job { submitted, millis: millis.max(1), lane });
        Ok(())
    }

    /// In the order in which they come; those that come together in the order in which they were added.
    pub fn build(mut self) -> Load {
        self.load.jobs.sort_by_key(|job| job.submitted);
        self.load
    }
}

fn place<T>(list: &[T], most: usize, what: &str) -> Result<u32, TooMuch> {
    if list.len() >= most {
        return Err(TooMuch(format!(
            "there are more than {most} {what}; expected at most so many"
        )));
    }
    Ok(number(list.len()))
}

fn checked(what: &str, name: &str) -> Result<String, TooMuch> {
    let name = name.trim();
    if name.is_empty() {
        return Err(TooMuch(format!("the {what} has no name; expected text")));
    }
    if name.chars().any(char::is_control) {
        return Err(TooMuch(format!(
            "the name of the {what} has a control character; expected plain text"
        )));
    }
    if name.chars().nth(MOST_CHARACTERS).is_some() {
        return Err(TooMuch(format!(
            "the name of the {what} is too long; expected at most {MOST_CHARACTERS} characters"
        )));
    }
    Ok(name.to_owned())
}

/// A load that breaks a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooMuch(String);

impl From<NotRequirements> for TooMuch {
    fn from(error: NotRequirements) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TooMuch {}
