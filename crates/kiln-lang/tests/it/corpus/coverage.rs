//! The good files use every key that the table knows, so that none can break unseen.

use std::collections::BTreeSet;

use kiln_lang::schema::{ACTION, COMPANION, Def, Mapping, Shape, WORKFLOW};
use kiln_lang::trigger::{EVENTS, Support};
use kiln_lang::workflow::FileKind;
use kiln_lang::yaml::Node;

/// Keys as `what they belong to: key`.
type Keys = BTreeSet<String>;

/// P1
#[test]
fn good_files_use_every_key_of_the_table() {
    let (mut known, mut used) = (Keys::new(), Keys::new());
    for root in [&WORKFLOW, &ACTION, &COMPANION] {
        collect_known(root, &mut Vec::new(), &mut known);
    }
    for sample in super::samples("good") {
        let document = sample.read().document.expect("good files have a document");
        let root = match sample.kind {
            FileKind::Workflow => &WORKFLOW,
            FileKind::Action => &ACTION,
            FileKind::Companion => &COMPANION,
        };
        collect_used(&document.root, root, &mut used);
    }
    let unused: Vec<&String> = known.difference(&used).collect();
    assert!(unused.is_empty(), "no good file uses {unused:#?}");
}

/// P1
#[test]
fn good_files_listen_to_every_event() {
    let mut used = BTreeSet::new();
    for sample in super::samples("good") {
        let document = sample.read().document.expect("good files have a document");
        used.extend(
            document.events().iter().filter_map(|(name, _)| name.text().map(str::to_owned)),
        );
    }
    let supported = EVENTS.iter().filter(|event| event.state == Support::Supported);
    let unused: Vec<&str> =
        supported.map(|event| event.name).filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "no good file listens to {unused:?}");
}

fn collect_known(def: &'static Def, seen: &mut Vec<*const Mapping>, known: &mut Keys) {
    match &def.shape {
        Shape::Sequence(item) => collect_known(item, seen, known),
        Shape::OneOf(choices) => {
            choices.iter().for_each(|choice| collect_known(choice, seen, known));
        }
        Shape::Mapping(mapping) => collect_keys(mapping, seen, known),
        Shape::Variants(variants) => {
            variants.choices.iter().for_each(|(_, mapping)| collect_keys(mapping, seen, known));
        }
        _ => {}
    }
}

fn collect_keys(mapping: &'static Mapping, seen: &mut Vec<*const Mapping>, known: &mut Keys) {
    if seen.contains(&std::ptr::from_ref(mapping)) {
        return;
    }
    seen.push(mapping);
    for key in mapping.keys.iter().filter(|key| key.support == Support::Supported) {
        known.insert(format!("{}: {}", mapping.what, key.name));
        collect_known(key.def, seen, known);
    }
    if let Some(rest) = &mapping.rest {
        collect_known(rest.value, seen, known);
    }
}

fn collect_used(node: &Node, def: &Def, used: &mut Keys) {
    match &def.shape {
        Shape::Sequence(item) => {
            node.items().iter().for_each(|node| collect_used(node, item, used));
        }
        Shape::OneOf(choices) => choices.iter().for_each(|choice| collect_used(node, choice, used)),
        Shape::Mapping(mapping) => collect_used_keys(node, mapping, used),
        Shape::Variants(variants) => {
            for (key, mapping) in variants.choices {
                if node.get(key).is_some() {
                    collect_used_keys(node, mapping, used);
                }
            }
        }
        _ => {}
    }
}

fn collect_used_keys(node: &Node, mapping: &Mapping, used: &mut Keys) {
    for entry in node.entries() {
        if let Some(key) = mapping.keys.iter().find(|key| key.name == entry.name()) {
            used.insert(format!("{}: {}", mapping.what, key.name));
            collect_used(&entry.value, key.def, used);
        } else if let Some(rest) = &mapping.rest {
            collect_used(&entry.value, rest.value, used);
        }
    }
}
