//! The transition: what happened, applied to the rows around it.

use std::collections::{BTreeMap, VecDeque};

use crate::plan;
use crate::time::Timestamp;

use super::footprint::{AtHand, Wanted};
use super::{
    Conclusion, Effect, Evaluator, Event, Group, JobContext, Leg, LegNo, LegState, Member, Need,
    Node, NodeNo, NodeState, Rejected, Run, RunState, Scope, ScopeNo, Status, Step, Wait,
};

/// How many steps of propagation one call takes before it hands the rest back.
pub const MAX_STEPS: usize = 2_000;

/// The rows that an event touches: the job, its direct dependents, its siblings, its group, the
/// counters above it. Holding more of the run does no harm.
#[derive(Debug, Clone)]
pub struct Neighbourhood {
    pub run: Run,
    pub scopes: BTreeMap<ScopeNo, Scope>,
    pub nodes: BTreeMap<NodeNo, Node>,
    pub legs: BTreeMap<LegNo, Leg>,
    /// By lower-cased name.
    pub groups: BTreeMap<String, Group>,
}

impl Neighbourhood {
    pub fn new(run: Run) -> Self {
        Self {
            run,
            scopes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            legs: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// The job of the plan that a node stands for.
    pub fn job_of(&self, node: NodeNo) -> &plan::Job {
        let node = &self.nodes[&node];
        let workflow = self.scopes[&node.scope].workflow;
        &self.run.plan.workflows[workflow].jobs[node.job]
    }

    /// The triggered workflow, once it was opened.
    pub(super) fn root(&self) -> Option<ScopeNo> {
        self.scopes.values().find(|scope| scope.caller.is_none()).map(|scope| scope.number)
    }

    /// Adds a workflow with all its jobs, none of which has started.
    pub(super) fn add_scope(
        &mut self,
        workflow: plan::WorkflowIndex,
        caller: Option<LegNo>,
        inputs: crate::value::Object,
    ) -> ScopeNo {
        let plan = self.run.plan.clone();
        let jobs = &plan.workflows[workflow].jobs;
        let number = self.run.scopes;
        let first = self.run.nodes;
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        self.run.scopes += 1;
        self.run.nodes += count;
        let node_of = |job: usize| first + u32::try_from(job).unwrap_or(u32::MAX);
        for (index, job) in jobs.iter().enumerate() {
            let needs: Vec<NodeNo> = job.needs.iter().map(|need| node_of(*need)).collect();
            let node = Node::new(node_of(index), number, index, needs, self.run.attempt);
            self.nodes.insert(node.number, node);
        }
        // Jobs may be written before what they need, so dependents are linked once all are there.
        for number in first..first + count {
            for need in self.nodes[&number].needs.clone() {
                let need = self.nodes.get_mut(&need).expect("needs are of the same scope");
                need.dependents.push(number);
            }
        }
        let scope = Scope {
            number,
            workflow,
            caller,
            inputs,
            nodes: (first..first + count).collect(),
            open: count,
            tally: super::Tally::default(),
            cancelled: false,
        };
        self.scopes.insert(number, scope);
        number
    }

    pub(super) fn is_cancelled(&self, node: NodeNo) -> bool {
        let scope = self.nodes[&node].scope;
        self.run.cancel.is_some() || self.scopes[&scope].cancelled
    }

    /// What the expressions of a job may see.
    pub fn context(&self, node: NodeNo, leg: Option<LegNo>) -> JobContext<'_> {
        let cancelled = self.is_cancelled(node);
        let number = node;
        let node = &self.nodes[&node];
        let ancestry = node.ancestry;
        JobContext {
            run: &self.run,
            scope: &self.scopes[&node.scope],
            node,
            job: self.job_of(number),
            needs: node.needs.iter().filter_map(|need| self.need(*need)).collect(),
            status: Status {
                success: !(ancestry.failed || ancestry.cancelled || ancestry.skipped || cancelled),
                failure: ancestry.failed && !cancelled,
                cancelled,
            },
            leg: leg.and_then(|leg| self.legs.get(&leg)),
        }
    }

    /// What a node looks like to those that need it; nothing while it is not done.
    pub fn need(&self, node: NodeNo) -> Option<Need<'_>> {
        let found = self.nodes.get(&node)?;
        let NodeState::Done(conclusion) = found.state else { return None };
        Some(Need { id: &self.job_of(node).id, conclusion, outputs: &found.outputs })
    }
}

/// Applies an event to rows that are all at hand. On rejection nothing has changed.
pub fn apply(
    hood: &mut Neighbourhood,
    event: Event,
    now: Timestamp,
    evaluator: &dyn Evaluator,
) -> Result<Vec<Effect>, Rejected> {
    apply_within(hood, event, now, evaluator, MAX_STEPS)
}

/// The same with another bound than [`MAX_STEPS`], to try what happens between the pieces of a long one.
pub fn apply_within(
    hood: &mut Neighbourhood,
    event: Event,
    now: Timestamp,
    evaluator: &dyn Evaluator,
    steps: usize,
) -> Result<Vec<Effect>, Rejected> {
    let mut transition = Transition::within(event, steps);
    while !transition.is_done() {
        transition.piece(hood, now, evaluator)?;
    }
    Ok(transition.effects)
}

/// An event under way. It can be stopped between two pieces, to bring rows that the next one needs.
#[derive(Debug)]
pub struct Transition {
    event: Option<Event>,
    steps: VecDeque<Step>,
    effects: Vec<Effect>,
    /// How many steps it may still take.
    left: usize,
}

impl Transition {
    pub fn new(event: Event) -> Self {
        Self::within(event, MAX_STEPS)
    }

    /// One that hands the rest back after so many steps.
    pub fn within(event: Event, steps: usize) -> Self {
        Self { event: Some(event), steps: VecDeque::new(), effects: Vec::new(), left: steps }
    }

    pub fn is_done(&self) -> bool {
        self.event.is_none() && self.steps.is_empty()
    }

    /// What must be done in the world, once it is done here.
    pub fn into_effects(self) -> Vec<Effect> {
        self.effects
    }

    /// Goes on as far as the rows at hand reach, and says which ones it wants next. A rejection comes
    /// before anything has changed.
    pub fn advance(
        &mut self,
        hood: &mut Neighbourhood,
        at_hand: &AtHand,
        now: Timestamp,
        evaluator: &dyn Evaluator,
    ) -> Result<Wanted, Rejected> {
        while !self.is_done() {
            let next =
                at_hand.lack(Wanted::of(hood, evaluator, self.event.as_ref(), &self.steps, 1));
            if !next.is_empty() {
                let ahead =
                    Wanted::of(hood, evaluator, self.event.as_ref(), &self.steps, LOOK_AHEAD);
                return Ok(at_hand.lack(ahead));
            }
            self.piece(hood, now, evaluator)?;
        }
        Ok(Wanted::default())
    }

    /// The event itself, or the next step of its propagation.
    fn piece(
        &mut self,
        hood: &mut Neighbourhood,
        now: Timestamp,
        evaluator: &dyn Evaluator,
    ) -> Result<(), Rejected> {
        let (steps, effects) = (&mut self.steps, &mut self.effects);
        let event = self.event.take();
        let step = if event.is_none() { steps.pop_front() } else { None };
        let mut change = Change { hood, now, evaluator, effects, steps };
        if let Some(event) = event {
            return change.event(event);
        }
        match step {
            Some(step) if self.left > 0 => {
                change.step(step);
                self.left -= 1;
            }
            Some(step) => change.effects.push(Effect::Continue(step)),
            None => {}
        }
        Ok(())
    }
}

/// How many steps ahead rows are asked for, so that they come together.
const LOOK_AHEAD: usize = 256;

/// One piece of a transition under way.
pub(super) struct Change<'c> {
    pub(super) hood: &'c mut Neighbourhood,
    pub(super) now: Timestamp,
    pub(super) evaluator: &'c dyn Evaluator,
    pub(super) effects: &'c mut Vec<Effect>,
    pub(super) steps: &'c mut VecDeque<Step>,
}

impl Change<'_> {
    fn event(&mut self, event: Event) -> Result<(), Rejected> {
        match event {
            Event::Start => self.start(),
            Event::Admitted(member) => self.admitted(member),
            Event::Claimed { leg, runner } => self.claimed(leg, runner)?,
            Event::Started { leg, attempt, preparing } => self.started(leg, attempt, preparing)?,
            Event::Uploading { leg, attempt } => self.uploading(leg, attempt)?,
            Event::Finished { leg, attempt, conclusion, outputs } => {
                self.reported(leg, attempt, conclusion, outputs)?;
            }
            Event::Lost { leg, attempt, reason } => self.lost(leg, attempt, &reason)?,
            Event::Returned { leg, attempt } => self.returned(leg, attempt)?,
            Event::Wake { leg } => self.wake(leg),
            Event::Cancel { by, reason, forced } => self.cancel(by, reason, forced)?,
            Event::CancelLeg { leg, reason } => {
                self.leg(leg)?;
                self.cancel_leg(leg, &reason);
            }
            Event::Skip { leg, reason } => self.drop_queued(leg, Conclusion::Skipped, reason)?,
            Event::Unsupported { leg, reason } => {
                self.drop_queued(leg, Conclusion::Failure, reason)?;
            }
            Event::Step(step) => self.steps.push_back(step),
        }
        Ok(())
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ready(node) => self.ready(node),
            Step::Refill(node) => self.admit_more(node),
            Step::Told(node) => self.told(node),
            Step::Closed(scope) => self.closed(scope),
            Step::Sweep(leg) => self.sweep(leg),
            Step::Enter(leg) => self.ask_group(leg),
            Step::Admit(leg) if self.is_waiting_for_group(leg) => self.go(leg),
            Step::Admit(_) => {}
        }
    }

    fn start(&mut self) {
        if self.hood.run.state != RunState::Created {
            return;
        }
        let Ok(request) = self.evaluator.run_group(&self.hood.run) else {
            return self.end_unopened(Conclusion::StartupFailure);
        };
        let member = self.hood.run.member(None);
        self.hood.run.group = request.as_ref().map(|request| request.name.to_lowercase());
        match request {
            Some(request) if !self.enter(member, &request) => {
                if !matches!(self.hood.run.state, RunState::Done(_)) {
                    self.hood.run.state = RunState::Gated(request.name.to_lowercase());
                }
            }
            _ => self.open_root(),
        }
    }

    fn open_root(&mut self) {
        self.hood.run.state = RunState::Active;
        match self.hood.root() {
            Some(scope) => self.resume_scope(scope),
            None => {
                self.open_scope(0, None, crate::value::Object::new());
            }
        }
    }

    /// Makes the nodes of a workflow and starts those that need nothing.
    pub(super) fn open_scope(
        &mut self,
        workflow: plan::WorkflowIndex,
        caller: Option<LegNo>,
        inputs: crate::value::Object,
    ) -> ScopeNo {
        let scope = self.hood.add_scope(workflow, caller, inputs);
        self.resume_scope(scope);
        scope
    }

    /// Starts what can start: all that needs nothing, or what a re-run has left open.
    pub(super) fn resume_scope(&mut self, number: ScopeNo) {
        let scope = &self.hood.scopes[&number];
        if scope.open == 0 {
            self.steps.push_back(Step::Closed(number));
        }
        for node in &scope.nodes {
            match self.hood.nodes[node].state {
                NodeState::Pending { needs_remaining: 0 } => {
                    self.steps.push_back(Step::Ready(*node));
                }
                NodeState::Active { .. } => self.steps.push_back(Step::Refill(*node)),
                NodeState::Pending { .. } | NodeState::Done(_) => {}
            }
        }
    }

    /// Asks for a concurrency group; returns whether the member may go on.
    pub(super) fn enter(&mut self, member: Member, request: &super::GroupRequest) -> bool {
        let name = request.name.to_lowercase();
        let group = self.hood.groups.entry(name).or_default();
        let entry = group.enter(member, request.cancel_in_progress, request.queue);
        for other in entry.cancelled {
            self.cancel_member(
                other,
                &format!("a newer one entered the concurrency group `{}`", request.name),
            );
        }
        entry.admitted
    }

    /// Leaves a group and tells whoever holds it next.
    pub(super) fn leave(&mut self, name: &str, member: Member) {
        let Some(group) = self.hood.groups.get_mut(name) else { return };
        let next = group.leave(member);
        if group.is_empty() {
            self.hood.groups.remove(name);
        }
        match next {
            Some(Member { run, leg: Some(leg), .. }) if run == self.hood.run.id => {
                self.steps.push_back(Step::Admit(leg));
            }
            Some(next) => self.effects.push(Effect::Admit(next)),
            None => {}
        }
    }

    fn admitted(&mut self, member: Member) {
        match member.leg {
            // An earlier attempt was meant, which has ended since.
            _ if member.attempt != self.hood.run.attempt => {}
            None if matches!(self.hood.run.state, RunState::Gated(_)) => self.open_root(),
            Some(leg) => self.steps.push_back(Step::Admit(leg)),
            None => {}
        }
    }

    fn is_waiting_for_group(&self, leg: LegNo) -> bool {
        self.hood.legs.get(&leg).is_some_and(|leg| leg.state == LegState::Waiting(Wait::Group))
    }

    pub(super) fn leg(&self, leg: LegNo) -> Result<&Leg, Rejected> {
        self.hood.legs.get(&leg).ok_or(Rejected::NoSuchLeg(leg))
    }

    pub(super) fn leg_mut(&mut self, leg: LegNo) -> &mut Leg {
        self.hood.legs.get_mut(&leg).expect("the leg was found before")
    }

    pub(super) fn node_mut(&mut self, node: NodeNo) -> &mut Node {
        self.hood.nodes.get_mut(&node).expect("the neighbourhood holds the nodes of its legs")
    }
}
