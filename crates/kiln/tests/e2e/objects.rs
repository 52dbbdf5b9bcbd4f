//! `kiln objects`, `kiln tags` and `kiln manifests` against a real `kiln up`, as they are typed. (C4, C5)

use crate::Answer;
use crate::client::Up;

fn slug(answer: &Answer) -> String {
    answer.code(0).json()["slug"].as_str().expect("it has a slug").to_owned()
}

#[test]
fn objects_are_made_tagged_owned_claimed_and_removed() {
    let up = Up::new();
    up.trigger("slow.yml");
    let repo = up.kiln(&["repo", "list", "--json"]).code(0).json();
    let owner = repo["owner"].as_str().expect("it has an owner").to_owned();
    let owner = owner.as_str();
    let made = up.kiln(&["objects", "add", owner, "report", "--tag", "run:1", "--json"]);
    let one = slug(&made);
    let two = slug(&up.kiln(&["objects", "add", owner, "report", "--tag", "latest", "--json"]));
    let listed = up.kiln(&["objects", "ls", owner, "--type", "report", "--tag", "run:1"]);
    assert!(listed.code(0).out.contains(&one) && !listed.out.contains(&two), "{listed:#?}");
    let moved = up.kiln(&["objects", "tag", &one, "--add", "latest", "--move"]);
    assert!(moved.code(0).out.contains("latest run:1"), "{moved:#?}");
    let tags = up.kiln(&["tags", owner, "--prefix", "lat", "--json"]).code(0).json();
    assert_eq!((tags["tag"].as_str(), tags["objects"].as_u64()), (Some("latest"), Some(1)));

    let draft = slug(&up.kiln(&["manifests", "create", owner, "--keep", "7d", "--json"]));
    let heir = slug(&up.kiln(&["manifests", "create", owner, "--for-ever", "--json"]));
    let added = up.kiln(&["manifests", "add", &draft, "object", &one, "--priority", "90"]);
    assert!(added.code(0).out.contains(&format!("object {one}, priority 90")), "{added:#?}");
    up.kiln(&["manifests", "add", &draft, "object", &two]).code(0);
    up.kiln(&["manifests", "drop", &draft, "object", &two]).code(0);
    let owned = up.kiln(&["objects", "rm", &one]);
    assert!(owned.code(2).err.contains("owns the object"), "{owned:#?}");
    assert!(up.kiln(&["manifests", "seal", &draft]).code(0).out.contains("SEALED"));
    let claimed = up.kiln(&["manifests", "claim", &heir, "object", &one, "--from", &draft]);
    assert!(claimed.code(0).out.contains(&one), "{claimed:#?}");
    let again = up.kiln(&["manifests", "claim", &heir, "object", &one, "--from", &draft]);
    assert!(again.code(2).err.contains("resource"), "{again:#?}");
    let all = up.kiln(&["manifests", "ls", owner]);
    assert!(all.code(0).out.contains("SEALED") && all.out.contains("never"), "{all:#?}");

    up.kiln(&["objects", "rm", &two]).code(0);
    let gone = up.kiln(&["objects", "show", &two]);
    assert!(gone.code(2).err.contains("object"), "{gone:#?}");
    up.kiln(&["manifests", "add", &heir, "instance", "1"]).code(2);
    up.kiln(&["objects", "tag", &one, "--move"]).code(2);
}
