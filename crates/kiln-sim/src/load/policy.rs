//! What can be compared: the policies of a server, and a baseline.

use std::fmt;
use std::str::FromStr;

use kiln_core::queue;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// One that a server can have.
    Real(queue::Policy),
    /// First in, first out, whoever asks and however urgent it is: what a server without any policy
    /// would do.
    Fifo,
}

impl Policy {
    pub const ALL: [Self; 3] =
        [Self::Real(queue::Policy::Fair), Self::Real(queue::Policy::Score), Self::Fifo];

    pub fn word(self) -> &'static str {
        match self {
            Self::Real(policy) => policy.word(),
            Self::Fifo => "fifo",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.word() == word.trim());
        found.ok_or_else(|| {
            let known = Self::ALL.map(|policy| format!("`{policy}`")).join(", ");
            format!("there is no policy `{word}`; expected one of {known}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_a_server_can_be_compared() {
        for policy in queue::Policy::ALL {
            assert_eq!(policy.word().parse(), Ok(Policy::Real(policy)));
        }
        assert_eq!(" fifo".parse(), Ok(Policy::Fifo));
        let error = "lifo".parse::<Policy>().unwrap_err();
        assert!(error.ends_with("one of `fair`, `score`, `fifo`"), "{error}");
    }
}
