//! `uses` steps: local, fetched, composite and JavaScript actions, and the built-in checkout.

use std::path::PathBuf;
use std::time::Duration;

use kiln_core::plan::{Action, ActionInput, ActionRuns, Step, Use, UseTarget};
use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::evaluate_template;
use kiln_lang::expr::coerce::to_text;

use crate::action::{Checkout, find_node, load};

use super::driver::{Done, JobRun};
use super::environment::{Variables, input_name, state_name};
use super::execute::{Executed, ProcessParts};
use super::frame::{ActionPlace, Frame, MAX_DEPTH};
use super::post::Post;

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
        if self.is_built_in(&used.target) {
            return self.checkout(&with);
        }
        let place = self.place(frame, &used.target)?;
        if let (Some(commit), UseTarget::Repository { reference, .. }) =
            (&place.commit, &used.target)
        {
            let line = format!("{}@{reference} is {commit}", place.repository);
            self.output().say(self.step, &line);
        }
        let loaded = load(&place.path)?;
        let inputs = self.inputs(frame, &loaded.action.inputs, &with)?;
        let mut env = frame.env.clone();
        env.extend(step_env.iter().map(|(name, value)| (name.clone(), value.clone())));
        match &loaded.action.runs {
            ActionRuns::Composite(steps) => {
                let inputs =
                    inputs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
                let inner = frame.of_action(id, inputs, env, place);
                self.composite(inner, &loaded.action, steps)
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

    /// Whether Kiln does this action's work itself.
    pub(super) fn is_built_in(&self, target: &UseTarget) -> bool {
        matches!(target, UseTarget::Repository { owner, repository, .. }
            if owner == "actions"
                && repository == "checkout"
                && !self.shared.host.resolver.has(owner, repository))
    }

    /// The folder of an action, fetched if it must be.
    pub(super) fn place(&self, frame: &Frame, target: &UseTarget) -> Result<ActionPlace, String> {
        match target {
            UseTarget::Local(path) => Ok(ActionPlace {
                path: self.shared.task.places.workspace.join(path),
                repository: String::new(),
                reference: String::new(),
                commit: None,
            }),
            UseTarget::SameRepository(path) => {
                let root = frame.action.as_ref().map_or_else(
                    || self.shared.host.repository.clone(),
                    |place| place.path.clone(),
                );
                Ok(ActionPlace {
                    path: root.join(path),
                    repository: String::new(),
                    reference: String::new(),
                    commit: None,
                })
            }
            UseTarget::Repository { owner, repository, path, reference } => {
                let resolved = self.shared.host.resolver.resolve(owner, repository, reference)?;
                Ok(ActionPlace {
                    path: resolved.root.join(path),
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

    /// The inputs of an action: what is given, else the default.
    pub(super) fn inputs(
        &self,
        frame: &Frame,
        declared: &[ActionInput],
        with: &Variables,
    ) -> Result<Variables, String> {
        let mut inputs = with.clone();
        for input in declared {
            let given = with.keys().any(|name| name.eq_ignore_ascii_case(&input.name));
            if let (true, Some(message)) = (given, &input.deprecation) {
                self.output()
                    .say(self.step, &format!("##[warning]input `{}`: {message}", input.name));
            }
            if let (false, Some(default)) = (given, &input.default) {
                let value = evaluate_template(default, &self.env(frame, &Variables::default()))?;
                inputs.insert(input.name.clone(), to_text(&value).into_owned());
            }
        }
        Ok(inputs)
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
            action_env.insert(input_name(name), value.trim().to_owned());
        }
        for (name, value) in state {
            action_env.insert(state_name(name), value.clone());
        }
        let environment = self.environment(&frame.env, &action_env, &Variables::default());
        let path = Self::search_path(&environment);
        let cwd = self.shared.task.places.workspace.clone();
        let program = find_node(version, &path, &cwd)?;
        let directory = frame.action.as_ref().map_or_else(PathBuf::new, |place| place.path.clone());
        let args = vec![directory.join(script).into_os_string()];
        let parts = ProcessParts { step_env: &frame.env, action_env: &action_env, timeout };
        self.execute(frame, program, args, &cwd, &parts)
    }

    fn checkout(&mut self, with: &Variables) -> Result<Done, String> {
        let get =
            |name: &str| with.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let own = self
            .shared
            .github
            .get("repository")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
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
        let sha =
            self.shared.github.get("sha").and_then(Value::as_str).unwrap_or_default().to_owned();
        let checkout = Checkout {
            repository: self.shared.host.repository.clone(),
            commit: sha,
            reference: get("ref").map(str::to_owned),
            path: get("path").unwrap_or(".").to_owned(),
            depth: depth
                .parse()
                .map_err(|_| format!("`fetch-depth` is `{depth}`, expected a whole number"))?,
        };
        let commit =
            checkout.run(&self.shared.task.places.workspace).map_err(|error| error.to_string())?;
        self.output().say(self.step, &format!("Checked out {commit} (built-in checkout)"));
        let reference = get("ref")
            .map(str::to_owned)
            .or_else(|| self.shared.github.get("ref").and_then(Value::as_str).map(str::to_owned));
        Ok((
            Conclusion::Success,
            vec![("commit".to_owned(), commit), ("ref".to_owned(), reference.unwrap_or_default())],
        ))
    }
}
