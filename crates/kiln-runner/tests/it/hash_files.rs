//! `hashFiles` beside GitHub's own `@actions/glob`: the same tree, the same patterns, the same hash.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiln_lang::hash_files::{Places, hash_files};
use kiln_runner::files::Tree;
use serde_json::{Value, json};

/// Asks GitHub's package, one question on each line.
const SCRIPT: &str = r"
import { createInterface } from 'node:readline';
const [, , modules, workspace] = process.argv;
const glob = await import(`${modules}/@actions/glob/lib/glob.js`);
process.chdir(workspace);
for await (const line of createInterface({ input: process.stdin })) {
  const { follow, patterns } = JSON.parse(line);
  try {
    const hash = await glob.hashFiles(patterns, workspace, { followSymbolicLinks: follow });
    console.log(JSON.stringify({ hash }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
";

fn modules() -> PathBuf {
    let fallback = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm/node_modules");
    let modules = env::var_os("KILN_TEST_NODE_MODULES").map_or(fallback, PathBuf::from);
    assert!(modules.join("@actions/glob").is_dir(), "scripts/test installs @actions/glob");
    modules
}

fn ask(workspace: &Path, home: &Path, questions: &[(bool, String)]) -> Vec<Value> {
    let scripts = tempfile::tempdir().unwrap();
    let script = scripts.path().join("ask.mjs");
    fs::write(&script, SCRIPT).unwrap();
    let mut node = Command::new("node")
        .arg(&script)
        .arg(modules())
        .arg(workspace)
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Node can be started");
    let lines = questions.iter().map(|(follow, patterns)| {
        format!("{}\n", json!({ "follow": follow, "patterns": patterns }))
    });
    let (mut input, lines) = (node.stdin.take().unwrap(), lines.collect::<String>());
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    // The package talks to a runner, too.
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let answers: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

/// Names that sort differently by bytes, by case and by language, points, links of all kinds.
fn tree(workspace: &Path) {
    let files = [
        "Cargo.lock",
        "a.txt",
        "B.txt",
        "c.TXT",
        "ä.txt",
        "z z.txt",
        ".env",
        ".github/workflows/ci.yml",
        "src/main.rs",
        "src/lib.rs",
        "src/.hidden/x.rs",
        "src/deep/er/y.rs",
        "src-2/a.rs",
        "src.rs",
        "web/package-lock.json",
        "web/app/package-lock.json",
        "web/node_modules/m/package-lock.json",
        "[odd]/a.txt",
        "star*/a.txt",
        "empty.txt",
        "home/.npmrc",
        "home/.cache/k",
        "home/x",
    ];
    for file in files {
        let path = workspace.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = if file == "empty.txt" { String::new() } else { format!("of {file}\n") };
        fs::write(path, text).unwrap();
    }
    fs::create_dir(workspace.join("empty")).unwrap();
    symlink("main.rs", workspace.join("src/link.rs")).unwrap();
    symlink("src", workspace.join("linked")).unwrap();
    symlink("..", workspace.join("src/deep/up")).unwrap();
    symlink("../web", workspace.join("src/web")).unwrap();
}

const PATTERNS: [&str; 62] = [
    "**",
    "*",
    "**/*",
    "*/",
    "**/",
    "*.txt",
    "?.txt",
    "[a-z].txt",
    "[!a].txt",
    "[^a].txt",
    "**/*.rs",
    "**/*.lock",
    "Cargo.lock",
    "./Cargo.lock",
    "nothing",
    "nothing/**",
    "src",
    "src/",
    "src/*",
    "src/**",
    "src/**/*.rs",
    "src*",
    "src*/**",
    "**/src/**",
    "**/.*",
    ".*",
    ".*/**",
    ".env",
    ".github",
    "**/package-lock.json",
    "web/*/package-lock.json",
    "web/**/package-lock.json\n!**/node_modules/**",
    "**\n!**/*.rs",
    "**\n!src",
    "**\n!src/",
    "**\n!src/**\nsrc/main.rs",
    "!**\nsrc/*.rs",
    "src/main.rs\n!src/*",
    "!!src/main.rs",
    "! src/main.rs\nsrc/*.rs",
    "# a comment\nCargo.lock",
    "  a.txt  \n\n  B.txt",
    "B.txt\na.txt",
    "a.txt\nB.txt",
    "z*.txt\na*.txt\nsrc/*",
    "src/lib.rs\nsrc\nsrc/main.rs",
    "a.txt\na.txt",
    "ä.txt",
    "z z.txt",
    "[odd]/a.txt",
    "[[]odd]/a.txt",
    "star[*]/a.txt",
    "star*/a.txt",
    "empty.txt",
    "empty",
    "~/.npmrc",
    "~/**",
    "~/.cache\nCargo.lock",
    "linked/**",
    "linked",
    "src/web/**",
    "**/link.rs",
];

/// The same questions to both; the answers must be the same. Returns how many hashes there were.
fn compare(workspace: &Path, home: &Path, patterns: &[String]) -> usize {
    let with = |follow: bool| patterns.iter().map(move |text| (follow, text.clone()));
    let questions: Vec<(bool, String)> = with(false).chain(with(true)).collect();
    let answers = ask(workspace, home, &questions);
    let files = Tree::at(workspace).unwrap();
    let places =
        Places { workspace: workspace.to_str().unwrap(), home: Some(home.to_str().unwrap()) };
    let (mut different, mut hashed) = (Vec::new(), 0);
    for ((follow, text), answer) in questions.iter().zip(&answers) {
        let mut arguments = vec![text.clone()];
        if *follow {
            arguments.insert(0, "--follow-symbolic-links".to_owned());
        }
        let own = hash_files(&files, &arguments, places);
        let is_same = match (&own, answer["hash"].as_str()) {
            (Ok(own), Some(theirs)) => own == theirs,
            (own, theirs) => own.is_err() && theirs.is_none(),
        };
        hashed += usize::from(own.as_ref().is_ok_and(|hash| !hash.is_empty()));
        if !is_same {
            different.push(format!("{follow} {text:?}: {own:?}, GitHub {answer}"));
        }
    }
    let shown = different.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(different.is_empty(), "{} of {} differ:\n{shown}", different.len(), questions.len());
    hashed
}

/// R8, L12
#[test]
fn hash_files_is_what_githubs_own_package_computes() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = fs::canonicalize(folder.path()).unwrap().join("w");
    fs::create_dir(&workspace).unwrap();
    fs::write(folder.path().join("outside.txt"), "never hashed").unwrap();
    tree(&workspace);
    let absolute = |rest: &str| format!("{}/{rest}", workspace.display());
    let mut patterns: Vec<String> = PATTERNS.iter().map(|&text| text.to_owned()).collect();
    patterns.extend([absolute("src/*.rs"), absolute("**")]);
    patterns.push(format!("{}\n!{}", absolute("src"), absolute("src/lib.rs")));
    // Many of them together, the second also taken away, so that their order counts.
    for (at, one) in PATTERNS.iter().enumerate().step_by(3) {
        for other in PATTERNS.iter().skip(at % 5).step_by(7) {
            patterns.push(format!("{one}\n{other}"));
            patterns.push(format!("{one}\n!{}", other.lines().last().unwrap_or("x")));
        }
    }
    let hashed = compare(&workspace, &workspace.join("home"), &patterns);
    assert!(patterns.len() > 300 && hashed > 300, "{} {hashed}", patterns.len());
}

/// R8
#[test]
fn links_that_lead_nowhere_are_what_they_are_on_github() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = fs::canonicalize(folder.path()).unwrap();
    fs::create_dir(workspace.join("d")).unwrap();
    fs::write(workspace.join("d/a"), "a").unwrap();
    symlink("nowhere", workspace.join("d/broken")).unwrap();
    let patterns = ["d/a", "**", "d/broken", "**\n!**/broken", "d/broken/x", "nothing"];
    let patterns: Vec<String> = patterns.iter().map(|&text| text.to_owned()).collect();
    assert!(compare(&workspace, &workspace.join("home"), &patterns) > 0);
}

/// R8. Whoever follows links cannot follow these: nothing is hashed where they are met, only partly matched as well.
#[test]
fn links_that_lead_in_a_circle_are_what_they_are_on_github() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = fs::canonicalize(folder.path()).unwrap();
    fs::create_dir(workspace.join("d")).unwrap();
    fs::write(workspace.join("d/a"), "a").unwrap();
    for (name, target) in
        [("self", "self"), ("to", "fro"), ("fro", "to"), ("through", "a/b"), ("gone", "d")]
    {
        symlink(target, workspace.join("d").join(name)).unwrap();
    }
    let mut patterns: Vec<String> =
        ["d/a", "**", "nothing"].iter().map(|&text| text.to_owned()).collect();
    for name in ["self", "to", "through", "gone"] {
        for pattern in [
            "d/NAME",
            "d/NAME/",
            "d/NAME/x",
            "d/NAME/*",
            "d/N*/x",
            "d/*/x",
            "d/*/*",
            "**\n!**/NAME",
            "**\n!d/NAME\n!d/NAME/**",
            "d/a\n!d/NAME",
            "d/*\n!d/self\n!d/to\n!d/fro\n!d/through",
        ] {
            patterns.push(pattern.replace("NAME", name));
        }
    }
    assert!(compare(&workspace, &workspace.join("home"), &patterns) > 0);
}
