//! The files of one repository as the compiler asks for them.

use std::fmt;

use crate::workflow::uses::CallTarget;

use super::{Library, LoadedFile, Lookup};

/// Gives the text of another file of the repository, named by its path from the root.
pub type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A library of what one repository has at one commit.
pub struct Repository<'a>(pub Files<'a>);

impl fmt::Debug for Repository<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repository(…)")
    }
}

impl Repository<'_> {
    fn load(&self, path: &str) -> Option<LoadedFile> {
        Some(LoadedFile { path: path.to_owned(), text: (self.0)(path)? })
    }
}

impl Library for Repository<'_> {
    fn workflow(&self, target: &CallTarget) -> Lookup {
        match target {
            CallTarget::Local(path) => self.load(path).map_or(Lookup::Missing, Lookup::Found),
            CallTarget::Remote { .. } => Lookup::OutOfReach,
        }
    }

    fn companion(&self, workflow_path: &str) -> Option<LoadedFile> {
        let (before, name) = workflow_path.rsplit_once(".github/workflows/")?;
        self.load(&format!("{before}.kiln/workflows/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_companion_lies_beside_the_folder_of_workflows() {
        let files = |path: &str| path.starts_with("sub/.kiln/").then(String::new);
        let repository = Repository(&files);
        let found = repository.companion("sub/.github/workflows/ci.yml");
        assert_eq!(found.map(|file| file.path).as_deref(), Some("sub/.kiln/workflows/ci.yml"));
        assert!(repository.companion("ci.yml").is_none());
    }
}
