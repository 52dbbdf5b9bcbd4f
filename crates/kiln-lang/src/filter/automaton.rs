//! Walks a pattern over a name with a set of states.

/// The characters one step accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Accepts {
    One(char),
    /// Any of these inclusive ranges.
    Class(Vec<(char, char)>),
    /// `*`: anything within a directory.
    NotSlash,
    /// `**`: anything.
    Any,
}

impl Accepts {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::One(only) => *only == c,
            Self::Class(ranges) => ranges.iter().any(|&(low, high)| low <= c && c <= high),
            Self::NotSlash => c != '/',
            Self::Any => true,
        }
    }
}

/// One element of a pattern: what it accepts and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) accepts: Accepts,
    /// The step may be left out (`?`, `*`).
    pub(super) optional: bool,
    /// The step may be taken again (`+`, `*`).
    pub(super) repeats: bool,
    /// How many steps after this one are left out together with it.
    pub(super) group: usize,
}

impl Step {
    pub(super) fn once(accepts: Accepts) -> Self {
        Self { accepts, optional: false, repeats: false, group: 0 }
    }

    pub(super) fn any_number(accepts: Accepts) -> Self {
        Self { accepts, optional: true, repeats: true, group: 0 }
    }

    /// `**/` at the start of a segment: directories with their slash, or nothing at all. The first
    /// step carries the choice, so none of these steps both repeats and skips others.
    pub(super) fn directories() -> [Self; 3] {
        let first = Self { optional: true, group: 2, ..Self::once(Accepts::Any) };
        [first, Self::any_number(Accepts::Any), Self::once(Accepts::One('/'))]
    }
}

/// The compiled steps; state `n` means that steps before `n` are done.
#[derive(Debug, Clone)]
pub(super) struct Automaton {
    steps: Vec<Step>,
}

impl Automaton {
    pub(super) fn new(steps: Vec<Step>) -> Self {
        Self { steps }
    }

    pub(super) fn accepts(&self, name: &str) -> bool {
        let mut now = States::new(self.steps.len() + 1);
        let mut next = States::new(self.steps.len() + 1);
        self.reach(0, &mut now);
        for c in name.chars() {
            for at in 0..now.active.len() {
                let state = now.active[at];
                let Some(step) = self.steps.get(state).filter(|step| step.accepts.takes(c)) else {
                    continue;
                };
                if step.repeats {
                    next.add(state);
                }
                self.reach(state + 1, &mut next);
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
            if now.active.is_empty() {
                return false;
            }
        }
        now.contains(self.steps.len())
    }

    /// Adds a state and those behind it that can be reached by leaving optional steps out. A state
    /// that is already there came with those behind it, so the walk may stop.
    fn reach(&self, mut state: usize, states: &mut States) {
        while states.add(state) {
            match self.steps.get(state) {
                Some(step) if step.optional => state += 1 + step.group,
                _ => break,
            }
        }
    }
}

/// A set of states that is cheap to fill, walk and empty.
struct States {
    active: Vec<usize>,
    member: Vec<bool>,
}

impl States {
    fn new(count: usize) -> Self {
        Self { active: Vec::new(), member: vec![false; count] }
    }

    /// Whether the state is new to the set.
    fn add(&mut self, state: usize) -> bool {
        let new = !self.member[state];
        if new {
            self.member[state] = true;
            self.active.push(state);
        }
        new
    }

    fn contains(&self, state: usize) -> bool {
        self.member[state]
    }

    fn clear(&mut self) {
        for state in self.active.drain(..) {
            self.member[state] = false;
        }
    }
}
