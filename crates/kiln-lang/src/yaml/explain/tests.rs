//! The usual mistakes and what is said about them.

use crate::source::SourceMap;

fn check(yaml: &str, line: usize, message: &str, help: &str) {
    let mut sources = SourceMap::new();
    let file = sources.add("t.yml", yaml);
    let (root, diagnostics) = crate::yaml::read(file, &sources);
    assert!(root.is_none());
    let found = diagnostics.last().expect("there is an error");
    assert_eq!(found.message, message, "{yaml}");
    assert_eq!(sources.start(found.span).line, line, "{yaml}");
    assert_eq!(found.help.as_deref().unwrap_or_default(), help, "{yaml}");
}

/// P5
#[test]
fn usual_mistakes_are_named_with_their_remedy() {
    check(
        "jobs:\n  a:\n    runs-on: x\n     steps: y\n",
        4,
        "`steps` is indented by 5 spaces, which matches nothing above",
        "indent it by 4 spaces to stand beside `runs-on` in `a`",
    );
    check(
        "a:\n  - run: x\n    name: y\n   env: z\n",
        4,
        "`env` is indented by 3 spaces, which matches nothing above",
        "indent it by 4 spaces to stand beside `name` in `a`",
    );
    check(
        "name: a: b\n",
        1,
        "a value cannot contain `: ` unless it is quoted",
        "quote the value: 'a: b'",
    );
    check(
        "a:\n\tb: c\n",
        2,
        "a tab cannot indent YAML",
        "indent with spaces; most editors can convert the file",
    );
    check("a: \"x\nb: c\n", 1, "this \" is never closed", "add the closing \"");
    check("a: [x, y\nb: c\n", 1, "this `[` is never closed", "add the closing `]`");
    check("a: {x: y\n", 1, "this `{` is never closed", "add the closing `}`");
    check(
        "on:\n  push:\n    paths: [**.js]\n",
        3,
        "no anchor is called `*.js`",
        "a leading `*` names an anchor in YAML; put a pattern in quotes",
    );
    check("a: @x\n", 1, "a value cannot start with `@`", "put the value in quotes");
    check(
        "k: - a\n",
        1,
        "a list cannot start on the line of its key",
        "start the list on the next line, indented by two spaces",
    );
    check(
        "runs-on x\nsteps: y\n",
        1,
        "this line has no `:`",
        "a key is followed by a colon and a space: `runs-on: …`",
    );
    check("runs-on:x\nsteps: y\n", 1, "a space is missing after this `:`", "write `runs-on: x`");
    check(
        "a:\n  b: c\n \td: e\n",
        3,
        "a tab cannot indent YAML",
        "indent with spaces; most editors can convert the file",
    );
    check(
        "a:\n\u{a0}\u{a0}b: c\n  d: e\n",
        2,
        "white space other than the plain space cannot indent YAML",
        "indent with spaces; most editors can convert the file",
    );
    check("a:\tb\n", 1, "a tab stands between a key and its value", "put a space after the colon");
    check(
        "a:\n  - *\n",
        2,
        "this `*` names no anchor",
        "a leading `*` names an anchor in YAML; put a pattern in quotes",
    );
    check(
        "a: b\n<<<<<<< HEAD\nc: d\n=======\nc: e\n>>>>>>> x\n",
        2,
        "the file contains an unresolved merge conflict",
        "choose one side and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`",
    );
    check(
        "a: 'it's'\n",
        1,
        "text after the closing quote",
        "quote the whole value; inside single quotes write '' for a quote, inside double quotes \\\"",
    );
    check(
        "a: 1\n---\nb: 1\n",
        2,
        "the file contains a second YAML document",
        "keep one workflow per file, without `---` between parts",
    );
}
