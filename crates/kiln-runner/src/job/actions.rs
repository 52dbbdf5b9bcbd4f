//! `uses` steps: local, fetched, composite and JavaScript actions, and the built-in checkout.

use std::path::PathBuf;
use std::time::Duration;

use kiln_core::plan::{Action, ActionRuns, Use, UseTarget};
use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::evaluate_template;
use kiln_lang::expr::coerce::to_text;

use crate::action::{Author, Checkout, load};

use super::driver::{Executed, JobRun, ProcessParts};
use super::environment::{Variables, input_name, state_name};
use super::frame::{ActionPlace, Frame, MAX_DEPTH};
use super::post::Post;

type Done = (Conclusion, Vec<(String, String)>);

impl JobRun<'_> {
    pub(super) fn use_action(
        &mut self,
        frame: &mut Frame,
        used: &Use,
        step_env: &Variables,
        timeout: Option<Duration>,
    ) -> Result<Done, String> {
        if frame.depth >= MAX_DEPTH {
            return Err(format!("composite actions are nested deeper than {MAX_DEPTH} levels"));
        }
        let with = self.variables(frame, used.with.as_ref())?;
        let place = match &used.target {
            UseTarget::Repository { owner, repository, .. }
                if owner == "actions"
                    && repository == "checkout"
                    && !self.host.resolver.has(owner, repository) =>
            {
                return self.checkout(&with);
            }
            target => self.place(frame, target)?,
        };
        let loaded = load(&place.path, place.author)?;
        let inputs = self.inputs(frame, &loaded.action, &with)?;
        let mut env = frame.env.clone();
        env.extend(step_env.iter().map(|(name, value)| (name.clone(), value.clone())));
        match &loaded.action.runs {
            ActionRuns::Composite(steps) => {
                self.composite(frame, &loaded.action, steps, inputs, env, place)
            }
            ActionRuns::JavaScript { node, main, post, .. } => {
                let inner = frame.of_action(Object::new(), env.clone(), place.clone());
                let done = self.node(&inner, main, *node, &inputs, &[], timeout)?;
                if let Some(script) = post {
                    self.posts.push(Post {
                        name: loaded.action.name.clone(),
                        script: script.clone(),
                        node: *node,
                        place,
                        inputs,
                        env,
                        state: done.said.state.clone(),
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

    /// The folder of an action, fetched if it must be.
    fn place(&mut self, frame: &Frame, target: &UseTarget) -> Result<ActionPlace, String> {
        match target {
            UseTarget::Local(path) => Ok(ActionPlace {
                path: self.task.places.workspace.join(path),
                // What it calls by `$/` belongs to whoever called it.
                root: frame.action.as_ref().and_then(|place| place.root.clone()),
                author: Author::Own,
                repository: String::new(),
                reference: String::new(),
            }),
            UseTarget::SameRepository(path) => self.same_repository(frame, path),
            UseTarget::Repository { owner, repository, path, reference } => {
                let resolved = self.host.resolver.resolve(owner, repository, reference)?;
                self.output.say(
                    self.step,
                    &format!("{owner}/{repository}@{reference} is {}", resolved.commit),
                );
                Ok(ActionPlace {
                    path: resolved.root.join(path),
                    root: Some(resolved.root),
                    author: Author::Other,
                    repository: format!("{owner}/{repository}"),
                    reference: reference.clone(),
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
        let root = self.task.places.temp.with_file_name("self");
        if !root.is_dir() {
            self.host.origin.export(&root)?;
        }
        let text = |name| self.github.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(ActionPlace {
            path: root.join(path),
            root: Some(root),
            author: Author::Own,
            repository: text("repository").to_owned(),
            reference: text("sha").to_owned(),
        })
    }

    /// The inputs of an action: what is given, else the default, else nothing at all.
    fn inputs(
        &mut self,
        frame: &Frame,
        action: &Action,
        with: &Variables,
    ) -> Result<Variables, String> {
        let mut inputs = with.clone();
        for input in &action.inputs {
            let given = with.keys().any(|name| name.eq_ignore_ascii_case(&input.name));
            if let (true, Some(message)) = (given, &input.deprecation) {
                self.output
                    .say(self.step, &format!("##[warning]input `{}`: {message}", input.name));
            }
            if !given {
                let value = match &input.default {
                    Some(default) => {
                        evaluate_template(default, &self.env(frame, &Variables::default()))?
                    }
                    None => Value::from(""),
                };
                inputs.insert(input.name.clone(), to_text(&value).into_owned());
            }
        }
        for name in with.keys() {
            if !action.inputs.iter().any(|input| input.name.eq_ignore_ascii_case(name)) {
                let known: Vec<_> = action.inputs.iter().map(|input| &*input.name).collect();
                self.output.say(
                    self.step,
                    &format!(
                        "##[warning]the action has no input `{name}`; it has: {}",
                        known.join(", ")
                    ),
                );
            }
        }
        Ok(inputs)
    }

    fn composite(
        &mut self,
        frame: &Frame,
        action: &Action,
        steps: &[kiln_core::plan::Step],
        inputs: Variables,
        env: Variables,
        place: ActionPlace,
    ) -> Result<Done, String> {
        let inputs: Object =
            inputs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        let mut inner = frame.of_action(inputs, env, place);
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
        let path = Self::search_path(&self.host.inherited);
        let cwd = self.task.places.workspace.clone();
        let node = self.host.nodes.find(version, &path)?;
        if let Some(note) = node.note {
            self.output.say(self.step, &format!("##[warning]{note}"));
        }
        let directory = frame.action.as_ref().map_or_else(PathBuf::new, |place| place.path.clone());
        let args = vec![directory.join(script).into_os_string()];
        let server = Some(self.host.origin.address(self.tree)?);
        let parts = ProcessParts { step_env: &frame.env, action_env: &action_env, timeout, server };
        self.execute(frame, node.program, args, &cwd, &parts)
    }

    fn checkout(&mut self, with: &Variables) -> Result<Done, String> {
        let get =
            |name: &str| with.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let text =
            |name| self.github.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
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
            repository: self.host.origin.repository()?.root().to_owned(),
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
            checkout.run(&self.task.places.workspace).map_err(|error| error.to_string())?;
        self.output.say(self.step, &format!("Checked out {commit} (built-in checkout)"));
        Ok((
            Conclusion::Success,
            vec![("commit".to_owned(), commit), ("ref".to_owned(), reference)],
        ))
    }
}
