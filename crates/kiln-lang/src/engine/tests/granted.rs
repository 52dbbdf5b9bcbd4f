//! What the jobs of called workflows may do: no more than whoever calls them.

use kiln_core::plan::{Access, Permissions, Scope};
use kiln_core::run::granted;

use super::{CallTarget, Library, LoadedFile, Lookup, World};

/// What the file in the middle says, and what the innermost one does.
struct Files([&'static str; 2]);

impl Library for Files {
    fn workflow(&self, target: &CallTarget) -> Lookup {
        let is_middle = format!("{target:?}").contains("middle");
        let (path, text) = if is_middle {
            let words = self.0[0];
            let calls = "  inner: {uses: ./.github/workflows/inner.yml}\n";
            ("middle.yml", format!("on: workflow_call\n{words}jobs:\n{calls}"))
        } else {
            let words = self.0[1];
            let steps = "  work: {runs-on: x, steps: [{run: y}]}\n";
            ("inner.yml", format!("on: workflow_call\n{words}jobs:\n{steps}"))
        };
        Lookup::Found(LoadedFile { path: path.to_owned(), text })
    }

    fn companion(&self, _workflow_path: &str) -> Option<LoadedFile> {
        None
    }
}

/// What the innermost job has when the three files say this, the one that was triggered first.
fn check(words: [&'static str; 3], expect: Option<&[(Scope, Access)]>) {
    let calls = "  middle: {uses: ./.github/workflows/middle.yml}\n";
    let text = format!("on: push\n{}jobs:\n{calls}", words[0]);
    let world = World::with(&text, &Files([words[1], words[2]]));
    let found = granted(&world.hood, &world.hood.run.plan.workflows, world.leg("work"));
    let expected = expect.map(|levels| {
        let mut granted = Permissions::none();
        for (scope, access) in levels {
            granted.set(*scope, *access);
        }
        granted
    });
    assert_eq!(found, expected, "{words:?}");
}

/// P1, R7
#[test]
fn permissions_only_become_less_along_calls() {
    use Access::{Read, Write};
    use Scope::{Contents, IdToken};
    const ALL: &str = "permissions: {id-token: write, contents: write}\n";
    const SOME: &str = "permissions: {id-token: write, contents: read}\n";
    const READS: &str = "permissions: {contents: read}\n";
    check(["", "", ""], None);
    check([SOME, "", ""], Some(&[(IdToken, Write), (Contents, Read)]));
    check([ALL, SOME, READS], Some(&[(Contents, Read)]));
    check([ALL, READS, ""], Some(&[(Contents, Read)]));
    check([ALL, "", SOME], Some(&[(IdToken, Write), (Contents, Read)]));
    check([ALL, "permissions: {}\n", ""], Some(&[]));
    // Nobody who called first gave it away.
    check(["", "", ALL], Some(&[(Contents, Read)]));
    check(["", SOME, ""], Some(&[(Contents, Read)]));
    check(["", ALL, SOME], Some(&[(Contents, Read)]));
}
