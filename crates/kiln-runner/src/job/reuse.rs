//! Whether the result of an earlier job stands for this one, and what this one's depends on.

use std::collections::HashSet;

use kiln_core::plan::{ActionRuns, Step, StepsJob, Use, UseTarget};
use kiln_core::value::Object;
use kiln_lang::filter::Filter;
use kiln_lang::reuse::{File, Part, Parts, Reading, Source, uses};
use kiln_proto::result::{AskResult, EarlierResult, ResultPart};

use crate::action::{Author, load};
use crate::git::leashed;

use super::driver::JobRun;
use super::frame::{ActionPlace, Frame, MAX_DEPTH};

/// More actions than any job has: what they call in turn is counted, too.
const MOST_ACTIONS: usize = 1_000;

impl JobRun<'_, '_> {
    /// The outputs of an earlier job that stands for this one, if its workflow asked for that. The log says what
    /// was decided, and why.
    pub(super) fn reused(&self) -> Option<Vec<(String, String)>> {
        let task = self.shared.task;
        let steps = task.steps()?;
        let patterns = steps.result_cache.as_ref()?;
        let results = task.services.results()?;
        let say = |text: &str| self.output().say(0, text);
        let asked = match leashed(self.leash(None), || self.depends_on(steps, patterns)) {
            Ok(asked) => asked,
            Err(reasons) => {
                for reason in reasons {
                    say(&format!("The result of this job cannot be used again: {reason}."));
                }
                return None;
            }
        };
        say(&format!("The fingerprint of this job is {}.", asked.fingerprint));
        match results.earlier(&asked) {
            Ok(found) => match found.reused {
                Some(earlier) => {
                    say(&told(&earlier));
                    return Some(earlier.outputs.into_iter().collect());
                }
                None => say(&format!("It runs: {}.", found.reason)),
            },
            Err(refusal) => say(&format!("It runs: earlier results cannot be had: {refusal}.")),
        }
        None
    }

    /// What the result depends on, or all reasons why nobody can say so.
    fn depends_on(&self, steps: &StepsJob, patterns: &[String]) -> Result<AskResult, Vec<String>> {
        let task = self.shared.task;
        let reading = Reading::of(task.workflow(), task.job(), steps);
        let refused = reading.obstacles();
        if !refused.is_empty() {
            return Err(refused);
        }
        let mut looking = Looking { run: self, reading, actions: Vec::new(), seen: HashSet::new() };
        looking.steps(&steps.steps, None, 0);
        let source = looking.source(patterns);
        let Looking { reading, actions, .. } = looking;
        let refused = reading.obstacles();
        let (Some(source), true) = (source, refused.is_empty()) else { return Err(refused) };
        let contexts = &task.contexts;
        let system = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let parts = Parts {
            workflow: task.workflow(),
            job: task.job(),
            source,
            actions,
            looked_at: reading.covered(&self.shared.github),
            vars: &contexts.vars,
            inputs: &contexts.inputs,
            needs: &contexts.needs,
            matrix: &contexts.matrix,
            strategy: &contexts.strategy,
            platform: vec![("system".to_owned(), system)],
        };
        let part = |(name, fingerprint): Part| ResultPart { name: name.to_owned(), fingerprint };
        let named = parts.parts().into_iter().map(part).collect();
        Ok(AskResult { fingerprint: parts.fingerprint(), parts: named })
    }
}

fn told(earlier: &EarlierResult) -> String {
    let EarlierResult { from, job_name, artifacts, .. } = earlier;
    let left = match artifacts.len() {
        0 => String::new(),
        1 => format!(", with its artifact `{}`", artifacts[0]),
        count => format!(", with its {count} artifacts"),
    };
    format!(
        "Nothing is run: the result of job `{job_name}` (number {}) of run #{} (number {}), attempt {}, which \
         was green with this fingerprint, stands for it{left}.",
        from.job_id, from.run_number, from.run_id, from.run_attempt
    )
}

/// The search for what a job uses.
struct Looking<'l, 's, 'j> {
    run: &'l JobRun<'s, 'j>,
    reading: Reading,
    actions: Vec<(String, String)>,
    /// Actions that were looked at, with where they were named.
    seen: HashSet<String>,
}

impl Looking<'_, '_, '_> {
    fn steps(&mut self, steps: &[Step], around: Option<&ActionPlace>, depth: usize) {
        for used in uses(steps) {
            if let Err(why) = self.action(used, around, depth) {
                self.reading.refuse(why);
            }
        }
    }

    /// Which files an action has today, and what it uses in turn.
    fn action(
        &mut self,
        used: &Use,
        around: Option<&ActionPlace>,
        depth: usize,
    ) -> Result<(), String> {
        if depth >= MAX_DEPTH || self.seen.len() >= MOST_ACTIONS {
            return Err("its actions are nested too deeply".to_owned());
        }
        let within = around.and_then(|place| place.root.as_ref());
        let name = format!("{:?} in {within:?}", used.target);
        if !self.seen.insert(name) {
            return Ok(());
        }
        let Some(place) = self.place(&used.target, around)? else { return Ok(()) };
        let loaded = load(&place.path, place.author)?;
        self.reading.add(&loaded.action);
        if let ActionRuns::Composite(steps) = &loaded.action.runs {
            self.steps(steps, Some(&place), depth + 1);
        }
        Ok(())
    }

    /// Where an action lies; nothing if there is nothing to read.
    fn place(
        &mut self,
        target: &UseTarget,
        around: Option<&ActionPlace>,
    ) -> Result<Option<ActionPlace>, String> {
        match target {
            // The image was looked at already.
            UseTarget::Docker(_) => Ok(None),
            UseTarget::Repository { owner, repository, .. }
                if self.run.built_in(target).is_some() =>
            {
                self.actions.push((format!("{owner}/{repository}"), "built in".to_owned()));
                Ok(None)
            }
            UseTarget::SameRepository(path) if around.is_some_and(|place| place.root.is_some()) => {
                // Its commit is known from the action around it.
                Ok(around.map(|around| ActionPlace {
                    path: around.root.as_ref().unwrap_or(&around.path).join(path),
                    ..around.clone()
                }))
            }
            UseTarget::Local(path) | UseTarget::SameRepository(path) => {
                self.of_commit(path).map(Some)
            }
            UseTarget::Repository { owner, repository, reference, .. } => {
                let place = self.run.place(&Frame::of_job(Object::new()), target)?;
                let commit = place.commit.clone().unwrap_or_default();
                self.actions.push((format!("{owner}/{repository}@{reference}"), commit));
                Ok(Some(place))
            }
        }
    }

    /// An action of the run's own repository, as the commit has it.
    fn of_commit(&mut self, path: &str) -> Result<ActionPlace, String> {
        let origin = &self.run.shared.host.origin;
        let folder = path.trim_matches('/');
        let tree = format!("{}:{folder}", origin.commit());
        let asked = origin.repository()?.ask(&["rev-parse", "--verify", "-q", &tree]);
        let tree = asked.map_err(|_| format!("the commit has no action `./{folder}`"))?;
        self.actions.push((format!("./{folder}"), tree));
        let target = UseTarget::SameRepository(folder.to_owned());
        let place = self.run.place(&Frame::of_job(Object::new()), &target)?;
        // What it calls by `$/` is of the same commit, and is looked for there.
        Ok(ActionPlace { root: None, author: Author::Own, ..place })
    }

    /// The files that count; nothing if they cannot be told, of which the reading then knows.
    fn source(&mut self, patterns: &[String]) -> Option<Source> {
        let origin = &self.run.shared.host.origin;
        if patterns.is_empty() {
            return Some(Source::Commit(origin.commit().to_owned()));
        }
        match self.files(patterns) {
            Ok(files) if files.is_empty() => {
                self.reading.refuse("no file of the commit matches its `inputs`");
                None
            }
            Ok(files) => Some(Source::Files(files)),
            Err(why) => {
                self.reading.refuse(why);
                None
            }
        }
    }

    fn files(&self, patterns: &[String]) -> Result<Vec<File>, String> {
        let filter = Filter::parse(patterns)
            .map_err(|(at, error)| format!("`{}`: {error}", patterns[at]))?;
        let origin = &self.run.shared.host.origin;
        let words = ["ls-tree", "-r", "-z", "--full-tree", origin.commit()];
        let listed = origin.repository()?.bytes(&words, &[]).map_err(|error| error.to_string())?;
        let file = |entry: &[u8]| {
            let entry = String::from_utf8_lossy(entry);
            let (content, path) = entry.split_once('\t')?;
            filter
                .matches(path)
                .then(|| File { path: path.to_owned(), content: content.to_owned() })
        };
        Ok(listed.split(|byte| *byte == 0).filter_map(file).collect())
    }
}
