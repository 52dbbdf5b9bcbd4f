//! Walks the workspace in GitHub's order.

use std::collections::HashSet;

use super::pattern::{Match, Pattern};
use super::{Entry, Files, Kind, Limits, Places};

/// Takes the path of each matching file, in order.
type Emit<'e> = dyn FnMut(&str) -> Result<(), String> + 'e;

pub(super) struct Walk<'a> {
    files: &'a dyn Files,
    patterns: &'a [Pattern],
    limits: Limits,
    follow: bool,
    /// The names of the workspace's own path.
    workspace: Vec<&'a str>,
    entries_seen: usize,
    /// The real paths of the directories entered on the way to the current one, to notice links
    /// that lead back up.
    entered: Vec<String>,
}

/// Something to look at, by its names below the workspace.
struct Item {
    names: Vec<String>,
    kind: Kind,
    /// How many directories have been entered to get here.
    level: usize,
    /// The path behind all links, for a search root; for others it follows from the directory they
    /// were found in.
    real: Option<String>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        files: &'a dyn Files,
        patterns: &'a [Pattern],
        places: Places<'a>,
        limits: Limits,
        follow: bool,
    ) -> Self {
        let workspace = places.workspace.split('/').filter(|name| !name.is_empty()).collect();
        Self { files, patterns, limits, follow, workspace, entries_seen: 0, entered: Vec::new() }
    }

    pub(super) fn run(mut self, emit: &mut Emit<'_>) -> Result<(), String> {
        for root in search_roots(self.patterns) {
            self.entered.clear();
            let shared = root.iter().zip(&self.workspace).take_while(|(a, b)| a == b).count();
            if shared == root.len() {
                self.walk_from_above(root.len(), emit)?;
            } else if shared == self.workspace.len() {
                self.walk_from_below(&root[shared..], emit)?;
            }
            // What lies elsewhere is not hashed, so there is no need to look at it.
        }
        Ok(())
    }

    /// Starts at the workspace or a directory above it, `depth` names from the file system's root.
    /// The way down has to fit the patterns too.
    fn walk_from_above(&mut self, depth: usize, emit: &mut Emit<'_>) -> Result<(), String> {
        for length in depth..self.workspace.len() {
            let above = &self.workspace[..length];
            if self.matching(above) == 0 && !self.may_match_below(above) {
                return Ok(());
            }
            self.entered.push(absolute(above));
        }
        let level = self.entered.len();
        let real = Some(absolute(&self.workspace));
        self.walk(Item { names: Vec::new(), kind: Kind::Dir, level, real }, emit)
    }

    /// Starts somewhere in the workspace, if that exists.
    fn walk_from_below(&mut self, names: &[String], emit: &mut Emit<'_>) -> Result<(), String> {
        let mut real = absolute(&self.workspace);
        let mut kind = Kind::Dir;
        for (depth, name) in names.iter().enumerate() {
            let above = names[..depth].join("/");
            match kind {
                Kind::Dir | Kind::SymlinkToDir(_) => {}
                Kind::BrokenSymlink => return Ok(()),
                Kind::EndlessSymlink => return Err(cannot_follow(&above)),
                _ => return Err(format!("hashFiles cannot look into `{above}`, a file")),
            }
            let found = self.list(&above)?.into_iter().find(|entry| entry.name == *name);
            let Some(entry) = found else {
                return Ok(());
            };
            real = real_path(&real, &entry.name, &entry.kind);
            kind = entry.kind;
        }
        self.walk(Item { names: names.to_vec(), kind, level: 0, real: Some(real) }, emit)
    }

    /// Visits an item and all below it.
    fn walk(&mut self, root: Item, emit: &mut Emit<'_>) -> Result<(), String> {
        let mut open = vec![root];
        while let Some(item) = open.pop() {
            let path: Vec<&str> = self
                .workspace
                .iter()
                .copied()
                .chain(item.names.iter().map(String::as_str))
                .collect();
            let matching = self.matching(&path);
            if matching == 0 && !self.may_match_below(&path) {
                continue;
            }
            if self.follow && item.kind == Kind::EndlessSymlink {
                return Err(cannot_follow(&item.names.join("/")));
            }
            if self.is_directory(&item.kind) {
                self.enter(item, &mut open)?;
            } else if matching & FILE != 0 {
                self.take(&item, emit)?;
            }
        }
        Ok(())
    }

    fn is_directory(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Dir => true,
            Kind::SymlinkToDir(_) => self.follow,
            _ => false,
        }
    }

    fn take(&self, item: &Item, emit: &mut Emit<'_>) -> Result<(), String> {
        let path = item.names.join("/");
        match item.kind {
            Kind::File | Kind::SymlinkToFile => emit(&path),
            Kind::BrokenSymlink if !self.follow => {
                Err(format!("hashFiles cannot read `{path}`, a link that leads nowhere"))
            }
            Kind::EndlessSymlink => Err(cannot_follow(&path)),
            Kind::Special => Err(format!("hashFiles cannot read `{path}`, which is not a file")),
            Kind::Dir | Kind::SymlinkToDir(_) | Kind::BrokenSymlink => Ok(()),
        }
    }

    /// Puts what the directory holds on the stack, so that the first name comes off first.
    fn enter(&mut self, item: Item, open: &mut Vec<Item>) -> Result<(), String> {
        let path = item.names.join("/");
        if item.names.len() > self.limits.depth {
            let depth = self.limits.depth;
            return Err(format!("hashFiles goes no deeper than {depth} directories: `{path}`"));
        }
        self.entered.truncate(item.level);
        let real = item.real.unwrap_or_else(|| {
            let parent = self.entered.last().map_or("", String::as_str);
            let name = item.names.last().map_or("", String::as_str);
            real_path(parent, name, &item.kind)
        });
        if self.follow && self.entered.contains(&real) {
            return Ok(());
        }
        self.entered.push(real);
        let mut entries = self.list(&path)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        open.extend(entries.into_iter().rev().map(|entry| Item {
            names: item.names.iter().cloned().chain([entry.name]).collect(),
            kind: entry.kind,
            level: item.level + 1,
            real: None,
        }));
        Ok(())
    }

    fn list(&mut self, dir: &str) -> Result<Vec<Entry>, String> {
        let entries = self.files.list(dir)?;
        self.entries_seen += entries.len();
        if self.entries_seen > self.limits.entries {
            return Err(format!(
                "hashFiles looks at no more than {} files; narrow its patterns",
                self.limits.entries
            ));
        }
        Ok(entries)
    }

    /// What the path matches as, with later patterns overruling earlier ones.
    fn matching(&self, path: &[&str]) -> u8 {
        self.patterns.iter().fold(0, |so_far, pattern| {
            let bits = match pattern.matches(path) {
                Match::No => 0,
                Match::DirectoryOnly => DIRECTORY,
                Match::Yes => DIRECTORY | FILE,
            };
            if pattern.is_negated() { so_far & !bits } else { so_far | bits }
        })
    }

    fn may_match_below(&self, path: &[&str]) -> bool {
        self.patterns.iter().any(|pattern| !pattern.is_negated() && pattern.may_match_below(path))
    }
}

const DIRECTORY: u8 = 1;
const FILE: u8 = 2;

/// Where to search, in the order of the patterns; a place below another one is part of that.
fn search_roots(patterns: &[Pattern]) -> Vec<&[String]> {
    let roots: Vec<&[String]> =
        patterns.iter().filter(|pattern| !pattern.is_negated()).map(Pattern::search_root).collect();
    let all: HashSet<&[String]> = roots.iter().copied().collect();
    let mut included = HashSet::new();
    roots
        .into_iter()
        .filter(|root| !(0..root.len()).any(|length| all.contains(&root[..length])))
        .filter(|root| included.insert(*root))
        .collect()
}

fn cannot_follow(path: &str) -> String {
    format!("hashFiles cannot follow `{path}`, a link that leads in a circle or through a file")
}

fn absolute(names: &[&str]) -> String {
    names.iter().fold(String::new(), |path, name| path + "/" + name)
}

fn real_path(parent: &str, name: &str, kind: &Kind) -> String {
    match kind {
        Kind::SymlinkToDir(real) => real.clone(),
        _ => format!("{parent}/{name}"),
    }
}
