//! Who does something.

use crate::words::words;

words! {
    /// What kind of somebody it is.
    ActorKind: "a kind of actor" {
        Person = "person",
        Token = "token",
        Runner = "runner",
        Job = "job",
        System = "system",
    }
}

/// Who does something, for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub kind: ActorKind,
    pub name: String,
    /// Where the request came from.
    pub address: Option<String>,
}

impl Actor {
    pub fn new(kind: ActorKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), address: None }
    }

    /// Kiln itself, in one of its duties.
    pub fn system(name: impl Into<String>) -> Self {
        Self::new(ActorKind::System, name)
    }

    /// The name as rows keep it: PostgreSQL cannot keep the character 0.
    pub(crate) fn shown(&self) -> String {
        self.name.replace('\0', "")
    }

    #[must_use]
    pub fn at(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }
}
