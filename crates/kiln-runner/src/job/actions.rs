//! `uses` steps: local, fetched, composite and JavaScript actions, and those that are built in.

use std::path::PathBuf;
use std::time::Duration;

use kiln_core::plan::{Action, ActionInput, ActionRuns, Step, Use, UseTarget};
use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::evaluate_template;
use kiln_lang::expr::coerce::to_text;

use crate::action::{Author, Checkout, load};
use crate::gateway::Pass;

use super::artifact;
use super::cache::Part;
use super::driver::{Done, JobRun};
use super::environment::{Variables, input_name, state_name};
use super::execute::{Executed, ProcessParts};
use super::frame::{ActionPlace, Frame, MAX_DEPTH};
use super::post::Post;

/// An action whose work Kiln can do itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltIn {
    Checkout,
    Cache(Part),
    Artifact(artifact::Part),
}

impl JobRun<'_, '_> {
    pub(super) fn use_action(
        &mut self,
        frame: &mut Frame,
        id: &str,
        used: &Use,
        step_env: &Variables,
        timeout: Option<Duration>,
    ) -> Result<Done, String> {
        if frame.depth >= MAX_DEPTH {
            return Err(format!("composite actions are nested deeper than {MAX_DEPTH} levels"));
        }
        let with = self.variables(frame, used.with.as_ref())?;
        match self.built_in(&used.target) {
            Some(BuiltIn::Checkout) => return self.checkout(&with),
            Some(BuiltIn::Cache(part)) => {
                return self.cache(frame, (id, part), &with, step_env, timeout);
            }
            Some(BuiltIn::Artifact(part)) => {
                return self.artifact(frame, part, &with, step_env, timeout);
            }
            None => {}
        }
        let place = self.place(frame, &used.target)?;
        if let (Some(commit), UseTarget::Repository { reference, .. }) =
            (&place.commit, &used.target)
        {
            let line = format!("{}@{reference} is {commit}", place.repository);
            self.output().say(self.step, &line);
        }
        let loaded = load(&place.path, place.author)?;
        self.warn_of_inputs(&loaded.action.inputs, &with);
        let inputs = self.inputs(frame, &loaded.action.inputs, &with)?;
        let mut env = frame.env.clone();
        env.extend(step_env.iter().map(|(name, value)| (name.clone(), value.clone())));
        match &loaded.action.runs {
            ActionRuns::Composite(steps) => {
                let inputs =
                    inputs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
                let mut inner = frame.of_action(id, inputs, env, place);
                inner.despite_cancel = self.despite_cancel;
                self.within(timeout, |this| this.composite(inner, &loaded.action, steps))
            }
            ActionRuns::JavaScript { node, main, post, .. } => {
                let key = frame.key(id);
                let mut state = self.posts.state(&key).to_vec();
                let inner = frame.of_action(id, Object::new(), env.clone(), place.clone());
                let done = self.node(&inner, main, *node, &inputs, &state, timeout)?;
                if let Some(script) = post {
                    state.extend(done.said.state);
                    self.posts.register(Post {
                        key,
                        name: loaded.action.name.clone(),
                        script: script.clone(),
                        node: *node,
                        place,
                        inputs,
                        env,
                        state,
                    });
                }
                Ok((done.conclusion, done.said.outputs))
            }
            ActionRuns::Docker { .. } => Err(format!(
                "`{}` is a Docker action, which the host backend cannot run",
                loaded.action.name
            )),
        }
    }

    /// Whether Kiln does this action's work itself: if the mirror has the published one, that is used.
    pub(super) fn built_in(&self, target: &UseTarget) -> Option<BuiltIn> {
        let UseTarget::Repository { owner, repository, path, .. } = target else { return None };
        let found = match (owner.as_str(), repository.as_str()) {
            ("actions", "checkout") => Some(BuiltIn::Checkout),
            ("actions", "cache") => Part::of(path).map(BuiltIn::Cache),
            ("actions", name) => artifact::Part::of(name, path).map(BuiltIn::Artifact),
            _ => None,
        };
        found.filter(|_| !self.shared.host.resolver.has(owner, repository))
    }

    /// The folder of an action, fetched if it must be.
    pub(super) fn place(&self, frame: &Frame, target: &UseTarget) -> Result<ActionPlace, String> {
        match target {
            UseTarget::Local(path) => Ok(ActionPlace {
                path: self.shared.task.places.workspace.join(path),
                // What it calls by `$/` belongs to whoever called it.
                root: frame.action.as_ref().and_then(|place| place.root.clone()),
                author: Author::Own,
                repository: String::new(),
                reference: String::new(),
                commit: None,
            }),
            UseTarget::SameRepository(path) => self.same_repository(frame, path),
            UseTarget::Repository { owner, repository, path, reference } => {
                let resolved = self.shared.host.resolver.resolve(owner, repository, reference)?;
                Ok(ActionPlace {
                    path: resolved.root.join(path),
                    root: Some(resolved.root),
                    author: Author::Other,
                    repository: format!("{owner}/{repository}"),
                    reference: reference.clone(),
                    commit: Some(resolved.commit),
                })
            }
            UseTarget::Docker(image) => {
                Err(format!("`docker://{image}` needs a container backend, which is not there yet"))
            }
        }
    }

    /// `$/path`: the repository of the action around it, else that of the workflow, at the commit of
    /// the run. It does not matter what steps did to the workspace.
    fn same_repository(&self, frame: &Frame, path: &str) -> Result<ActionPlace, String> {
        if let Some(around) = &frame.action
            && let Some(root) = &around.root
        {
            return Ok(ActionPlace { path: root.join(path), ..around.clone() });
        }
        let root = self.shared.task.places.temp.join("_commit");
        let one_at_a_time = self.shared.exporting.lock();
        if !root.is_dir() {
            self.shared.host.origin.export(&root)?;
        }
        drop(one_at_a_time);
        let text = |name| self.shared.github.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(ActionPlace {
            path: root.join(path),
            root: Some(root),
            author: Author::Own,
            repository: text("repository").to_owned(),
            reference: text("sha").to_owned(),
            commit: None,
        })
    }

    /// The inputs of an action: what is given, else the default, else nothing at all.
    pub(super) fn inputs(
        &self,
        frame: &Frame,
        declared: &[ActionInput],
        with: &Variables,
    ) -> Result<Variables, String> {
        let mut inputs = with.clone();
        let missing = declared.iter().filter(|input| !is_given(with, input));
        for input in missing {
            let value = match &input.default {
                Some(default) => {
                    evaluate_template(default, &self.env(frame, &Variables::default()))?
                }
                None => Value::from(""),
            };
            inputs.insert(input.name.clone(), to_text(&value).into_owned());
        }
        Ok(inputs)
    }

    /// Says what is odd about the inputs that are given.
    fn warn_of_inputs(&self, declared: &[ActionInput], with: &Variables) {
        for input in declared.iter().filter(|input| is_given(with, input)) {
            if let Some(message) = &input.deprecation {
                let warning = format!("##[warning]input `{}`: {message}", input.name);
                self.output().say(self.step, &warning);
            }
        }
        for name in with.keys() {
            if !declared.iter().any(|input| input.name.eq_ignore_ascii_case(name)) {
                let known: Vec<_> = declared.iter().map(|input| &*input.name).collect();
                let known = known.join(", ");
                let warning =
                    format!("##[warning]the action has no input `{name}`; it has: {known}");
                self.output().say(self.step, &warning);
            }
        }
    }

    fn composite(
        &mut self,
        mut inner: Frame,
        action: &Action,
        steps: &[Step],
    ) -> Result<Done, String> {
        self.steps(&mut inner, steps);
        let mut outputs = Vec::new();
        for (name, value) in &action.outputs {
            if let Some(template) = value {
                let value = evaluate_template(template, &self.env(&inner, &Variables::default()))?;
                outputs.push((name.clone(), to_text(&value).into_owned()));
            }
        }
        Ok((inner.status, outputs))
    }

    /// Runs a script of a JavaScript action.
    pub(super) fn node(
        &mut self,
        frame: &Frame,
        script: &str,
        version: u32,
        inputs: &Variables,
        state: &[(String, String)],
        timeout: Option<Duration>,
    ) -> Result<Executed, String> {
        let mut action_env = Variables::default();
        for (name, value) in inputs {
            action_env.insert(input_name(name), value.clone());
        }
        for (name, value) in state {
            action_env.insert(state_name(name), value.clone());
        }
        let path = Self::search_path(&self.shared.host.inherited);
        let cwd = self.shared.task.places.workspace.clone();
        let node = self.shared.host.nodes.find(version, &path)?;
        if let Some(note) = node.note {
            self.output().say(self.step, &format!("##[warning]{note}"));
        }
        let directory = frame.action.as_ref().map_or_else(PathBuf::new, |place| place.path.clone());
        let args = vec![directory.join(script).into_os_string()];
        let (offered, pass) = self.offered()?;
        let leader = pass.as_ref().map(|pass| pass.leader().clone());
        let parts = ProcessParts {
            step_env: &frame.env,
            action_env: &action_env,
            timeout,
            offered,
            leader,
        };
        let done = self.execute(frame, node.program, args, &cwd, &parts);
        for text in pass.iter().flat_map(Pass::issued) {
            self.output().say(self.step, &text);
        }
        done
    }

    /// Where an action finds the repository and the services that it expects. Scripts are told none of it:
    /// they see the public address, so that links work, and have no use for the tokens.
    fn offered(&self) -> Result<(Variables, Option<Pass>), String> {
        let mut offered = Variables::default();
        let server = self.shared.host.origin.address(self.shared.tree)?;
        offered.insert("GITHUB_SERVER_URL".to_owned(), server);
        let told = self.shared.gateway.tell()?;
        self.output().conceal(&told.secrets);
        offered.extend(told.variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Ok((offered, told.pass))
    }

    fn checkout(&mut self, with: &Variables) -> Result<Done, String> {
        let get =
            |name: &str| with.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let text = |name| {
            self.shared.github.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let own = text("repository");
        if let Some(other) = get("repository").filter(|other| *other != own) {
            return Err(format!(
                "the built-in checkout knows only `{own}`; put `actions/checkout` into the mirror to get `{other}`"
            ));
        }
        for unsupported in ["lfs", "submodules", "sparse-checkout"] {
            if get(unsupported).is_some_and(|value| value != "false") {
                return Err(format!(
                    "the built-in checkout has no `{unsupported}`; put `actions/checkout` into the mirror"
                ));
            }
        }
        let depth = get("fetch-depth").unwrap_or("1");
        let checkout = Checkout {
            repository: self.shared.host.origin.repository()?.root().to_owned(),
            commit: text("sha"),
            own_reference: text("ref"),
            reference: get("ref").map(str::to_owned),
            path: get("path").unwrap_or(".").to_owned(),
            depth: depth
                .parse()
                .map_err(|_| format!("`fetch-depth` is `{depth}`, expected a whole number"))?,
        };
        let reference = get("ref").map_or_else(|| text("ref"), str::to_owned);
        let commit =
            checkout.run(&self.shared.task.places.workspace).map_err(|error| error.to_string())?;
        self.output().say(self.step, &format!("Checked out {commit} (built-in checkout)"));
        Ok((
            Conclusion::Success,
            vec![("commit".to_owned(), commit), ("ref".to_owned(), reference)],
        ))
    }
}

fn is_given(with: &Variables, input: &ActionInput) -> bool {
    with.keys().any(|name| name.eq_ignore_ascii_case(&input.name))
}
