//! Where a key belongs, for keys that stand in the wrong place.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{ACTION, COMPANION, Def, Mapping, Shape, Variants, WORKFLOW};

/// The mappings in which a key is known, as people call them: `steps` belongs to "a job".
pub(super) fn homes(name: &str) -> Option<&'static [&'static str]> {
    static HOMES: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
        let mut homes = HashMap::new();
        for root in [&WORKFLOW, &ACTION] {
            collect(root, &mut Vec::new(), &mut homes);
        }
        homes
    });
    HOMES.get(name).map(Vec::as_slice)
}

/// Whether a key belongs to the companion file, which holds what GitHub does not know.
pub(super) fn is_kilns_own(name: &str) -> bool {
    static KEYS: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
        let mut keys = HashMap::new();
        collect(&COMPANION, &mut Vec::new(), &mut keys);
        keys
    });
    KEYS.contains_key(name)
}

fn collect(
    def: &'static Def,
    seen: &mut Vec<*const Mapping>,
    homes: &mut HashMap<&'static str, Vec<&'static str>>,
) {
    match &def.shape {
        Shape::Sequence(item) => collect(item, seen, homes),
        Shape::OneOf(choices) => choices.iter().for_each(|choice| collect(choice, seen, homes)),
        Shape::Mapping(mapping) => collect_mapping(mapping, None, seen, homes),
        Shape::Variants(variants) => {
            for (_, mapping) in variants.choices {
                collect_mapping(mapping, Some(variants), seen, homes);
            }
        }
        _ => {}
    }
}

/// A key that most variants have belongs to them all: `id` to "a step", but `with` to "a `uses` step".
fn home(key: &str, mapping: &Mapping, variants: &Variants) -> &'static str {
    let having = variants
        .choices
        .iter()
        .filter(|(_, mapping)| mapping.keys.iter().any(|own| own.name == key));
    let count = having.count();
    if count > 2 || count == variants.choices.len() { variants.what } else { mapping.what }
}

fn collect_mapping(
    mapping: &'static Mapping,
    variants: Option<&'static Variants>,
    seen: &mut Vec<*const Mapping>,
    homes: &mut HashMap<&'static str, Vec<&'static str>>,
) {
    if seen.contains(&std::ptr::from_ref(mapping)) {
        return;
    }
    seen.push(mapping);
    for key in mapping.keys {
        let what = variants.map_or(mapping.what, |variants| home(key.name, mapping, variants));
        let places = homes.entry(key.name).or_default();
        // "a step" adds nothing to the kinds of steps that are already named.
        let is_said = |place: &&str| *place == what || what == "a step" && place.ends_with(" step");
        if !places.iter().any(is_said) {
            places.push(what);
        }
        collect(key.def, seen, homes);
    }
    if let Some(rest) = &mapping.rest {
        collect(rest.value, seen, homes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_knows_where_it_belongs() {
        assert_eq!(homes("runs-on"), Some(&["a job"][..]));
        assert!(homes("run").is_some_and(|homes| homes.contains(&"a `run` step")));
        assert_eq!(homes("id"), Some(&["a step"][..]));
        assert!(homes("no-such-key").is_none());
    }
}
