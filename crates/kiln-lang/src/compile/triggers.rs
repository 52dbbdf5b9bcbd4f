//! `on` as plain data for the decision whether an event starts a run.

use std::sync::Arc;

use crate::filter::Filter;
use crate::trigger::{Rule, Schedule, Trigger};
use crate::workflow::{Document, one_or_more};
use crate::yaml::Node;

/// The triggers of a workflow; filters that were reported as faulty match nothing.
pub fn triggers(document: &Document) -> Vec<Trigger> {
    let events = document.events().into_iter();
    events.filter_map(|(name, settings)| Some(trigger(name.text()?, settings))).collect()
}

fn trigger(event: &str, settings: Option<&Arc<Node>>) -> Trigger {
    let Some(settings) = settings else { return Trigger::on(event) };
    Trigger {
        event: event.to_owned(),
        types: texts(settings.get("types")),
        branches: rule(settings, "branches"),
        tags: rule(settings, "tags"),
        paths: rule(settings, "paths"),
        workflows: texts(settings.get("workflows")),
        schedules: settings.items().iter().filter_map(|entry| schedule(entry)).collect(),
    }
}

fn rule(settings: &Node, key: &str) -> Option<Rule> {
    let filter = |key: &str| {
        let node = settings.get(key)?;
        Some(Filter::parse(&texts(Some(node))).unwrap_or_default())
    };
    filter(key).map(Rule::Only).or_else(|| filter(&format!("{key}-ignore")).map(Rule::Except))
}

fn schedule(entry: &Node) -> Option<Schedule> {
    let text = |key: &str| entry.get(key).and_then(|node| node.text()).map(str::to_owned);
    Some(Schedule { cron: text("cron")?, timezone: text("timezone") })
}

fn texts(node: Option<&Arc<Node>>) -> Vec<String> {
    one_or_more(node).into_iter().filter_map(|node| node.text()).map(str::to_owned).collect()
}
