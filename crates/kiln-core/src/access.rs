//! Who may do what. Everything that is not allowed here is refused.
//!
//! A principal has a role in some organizations, and perhaps in the whole installation; what it holds in
//! its hand, such as a token, may allow less than that. What somebody may not even see does not exist for
//! them.

use std::fmt;

use crate::id::OrgId;

/// What a request needs. Each route names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Look at things.
    Read,
    /// Start, cancel and repeat runs; pause repositories.
    Write,
    /// Let runners in, drain them, send them away.
    Runners,
    /// Change who and what there is.
    Admin,
}

impl Right {
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Runners, Self::Admin];

    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Runners => "runners",
            Self::Admin => "admin",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.word() == word)
    }

    /// Whether whoever has this right has the other one with it.
    fn includes(self, other: Self) -> bool {
        self == other || other == Self::Read || self == Self::Admin
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a member of an organization is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Viewer,
    Developer,
    Admin,
}

impl Role {
    fn gives(self, right: Right) -> bool {
        match self {
            Self::Viewer => right == Right::Read,
            Self::Developer => matches!(right, Right::Read | Right::Write),
            Self::Admin => true,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewers",
            Self::Developer => "developers",
            Self::Admin => "administrators",
        }
    }
}

/// What somebody has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Of the whole installation.
    pub administrator: bool,
    pub roles: Vec<(OrgId, Role)>,
    /// What the token in their hand allows. Nothing of it is nothing at all.
    pub rights: Vec<Right>,
    /// The only organization that it is good for.
    pub only: Option<OrgId>,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// They may not know that it exists.
    Unseen,
    /// In words.
    Forbidden(String),
}

impl Grants {
    /// Somebody who may do everything.
    pub fn everything() -> Self {
        Self { administrator: true, rights: vec![Right::Admin], ..Self::default() }
    }

    /// Whether this is allowed in an organization; without one, in the whole installation.
    pub fn allow(&self, right: Right, org: Option<OrgId>) -> Result<(), Denied> {
        match org {
            Some(org) => self.allow_in(right, org),
            None => self.allow_everywhere(right),
        }
    }

    fn allow_in(&self, right: Right, org: OrgId) -> Result<(), Denied> {
        if self.only.is_some_and(|only| only != org) {
            return Err(Denied::Unseen);
        }
        let role = self.role_in(org).ok_or(Denied::Unseen)?;
        self.token_allows(right)?;
        if role.gives(right) {
            return Ok(());
        }
        let message = format!("{} may not do this; it needs the right `{right}`", role.word());
        Err(Denied::Forbidden(message))
    }

    fn allow_everywhere(&self, right: Right) -> Result<(), Denied> {
        if !self.administrator || self.only.is_some() {
            let message = "only an administrator of the whole installation may do this";
            return Err(Denied::Forbidden(message.to_owned()));
        }
        self.token_allows(right)
    }

    fn role_in(&self, org: OrgId) -> Option<Role> {
        if self.administrator {
            return Some(Role::Admin);
        }
        self.roles.iter().find(|(own, _)| *own == org).map(|(_, role)| *role)
    }

    fn token_allows(&self, right: Right) -> Result<(), Denied> {
        if self.rights.iter().any(|own| own.includes(right)) {
            return Ok(());
        }
        Err(Denied::Forbidden(format!("the token lacks the scope `{right}`")))
    }

    /// Whether everything can be seen at once, without naming an organization.
    pub fn sees_everything(&self) -> bool {
        self.allow_everywhere(Right::Read).is_ok()
    }

    /// The organizations in which this is allowed, for those who do not see everything.
    pub fn organizations(&self, right: Right) -> Vec<OrgId> {
        let own = self.roles.iter().map(|(org, _)| *org);
        let named = self.only.filter(|_| self.administrator);
        let mut orgs: Vec<OrgId> =
            own.chain(named).filter(|org| self.allow_in(right, *org).is_ok()).collect();
        orgs.sort_unstable();
        orgs.dedup();
        orgs
    }

    /// Whether somebody with these may hand a right on to a token.
    pub fn may_give(&self, right: Right) -> bool {
        self.token_allows(right).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: OrgId = OrgId(1);
    const FOREIGN: OrgId = OrgId(2);

    fn member(role: Role, rights: &[Right]) -> Grants {
        Grants { roles: vec![(OWN, role)], rights: rights.to_vec(), ..Grants::default() }
    }

    fn check(grants: &Grants, right: Right, org: Option<OrgId>, expect: Result<(), &str>) {
        let answer = match grants.allow(right, org) {
            Ok(()) => Ok(()),
            Err(Denied::Unseen) => Err("unseen".to_owned()),
            Err(Denied::Forbidden(message)) => Err(message),
        };
        match (answer, expect) {
            (Ok(()), Ok(())) => {}
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (answer, _) => panic!("{grants:?} {right} {org:?}: {answer:?}, expected {expect:?}"),
        }
    }

    /// S24
    #[test]
    fn nobody_may_do_anything_unless_it_is_said() {
        for right in Right::ALL {
            check(&Grants::default(), right, Some(OWN), Err("unseen"));
            check(&Grants::default(), right, None, Err("only an administrator"));
            let empty_hand = Grants { administrator: true, ..Grants::default() };
            check(&empty_hand, right, Some(OWN), Err("lacks the scope"));
            check(&empty_hand, right, None, Err("lacks the scope"));
        }
    }

    #[test]
    fn a_role_and_a_token_must_both_allow_it() {
        let viewer = member(Role::Viewer, &[Right::Admin]);
        check(&viewer, Right::Read, Some(OWN), Ok(()));
        check(&viewer, Right::Write, Some(OWN), Err("viewers may not"));
        let developer = member(Role::Developer, &[Right::Write]);
        check(&developer, Right::Read, Some(OWN), Ok(()));
        check(&developer, Right::Write, Some(OWN), Ok(()));
        check(&developer, Right::Runners, Some(OWN), Err("lacks the scope `runners`"));
        let runners = member(Role::Admin, &[Right::Runners]);
        check(&runners, Right::Runners, Some(OWN), Ok(()));
        check(&runners, Right::Read, Some(OWN), Ok(()));
        check(&runners, Right::Write, Some(OWN), Err("lacks the scope `write`"));
        check(&member(Role::Admin, &[Right::Admin]), Right::Runners, Some(OWN), Ok(()));
    }

    #[test]
    fn what_is_foreign_does_not_exist() {
        let admin = member(Role::Admin, &[Right::Admin]);
        check(&admin, Right::Read, Some(FOREIGN), Err("unseen"));
        check(&admin, Right::Admin, None, Err("only an administrator"));
        let limited = Grants { only: Some(OWN), ..Grants::everything() };
        check(&limited, Right::Admin, Some(OWN), Ok(()));
        check(&limited, Right::Read, Some(FOREIGN), Err("unseen"));
        check(&limited, Right::Read, None, Err("only an administrator"));
        assert!(!limited.sees_everything());
        assert_eq!(limited.organizations(Right::Read), [OWN]);
        assert!(Grants::everything().sees_everything());
        assert_eq!(admin.organizations(Right::Write), [OWN]);
    }

    #[test]
    fn words_lead_back_to_rights() {
        for right in Right::ALL {
            assert_eq!(Right::parse(right.word()), Some(right));
        }
        assert_eq!(Right::parse("root"), None);
    }
}
