//! Starting, ending and output.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Log, bash, carriers, control, limits, run, tree, variable};
use kiln_runner::process::{
    self, Command, End, Ending, MAX_LINE, Sink, Stream, Usage, find_program,
};

#[test]
fn a_process_ends_by_its_code_or_by_a_signal() {
    let check = |script: &str, expect: End| {
        let (outcome, _) = run(script);
        assert_eq!((outcome.end, outcome.left_running), (expect, false), "{script}");
    };
    check("exit 0", End::Exited(0));
    check("exit 3", End::Exited(3));
    check("exit 255", End::Exited(255));
    check("kill -TERM $$", End::Signaled(15));
    check("kill -KILL $$", End::Signaled(9));
    check("exec >&- 2>&-; sleep 0.1; exit 4", End::Exited(4));
}

#[test]
fn the_environment_is_exactly_what_was_given_and_the_mark() {
    let tree = tree();
    let mut command = bash("");
    command.program = "/usr/bin/env".into();
    command.args.clear();
    command.env = vec![variable("A", "first"), variable("EMPTY", ""), variable("A", "x = y")];
    let mut log = Log::default();
    process::run(&command, &mut log, &control(), &limits(), &tree).unwrap();
    log.stdout.sort();
    let mark = format!("KILN_TREE={}", tree.token());
    assert_eq!(log.stdout, ["A=x = y", "EMPTY=", &mark]);
}

#[test]
fn a_process_runs_in_its_directory_and_without_input() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = bash("pwd -P; cat; ./tool");
    command.cwd = directory.path().into();
    script(&directory.path().join("tool"), "#!/bin/sh\necho here", 0o755);
    let mut log = Log::default();
    process::run(&command, &mut log, &control(), &limits(), &tree()).unwrap();
    let path = directory.path().canonicalize().unwrap();
    assert_eq!(log.stdout, [path.to_str().unwrap(), "here"]);
    // A relative program is found in the same place.
    let mut log = Log::default();
    let command = Command { program: "./tool".into(), args: Vec::new(), ..command };
    process::run(&command, &mut log, &control(), &limits(), &tree()).unwrap();
    assert_eq!(log.stdout, ["here"]);
}

#[test]
fn what_cannot_be_started_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    script(&directory.path().join("data"), "x", 0o644);
    script(&directory.path().join("lost"), "#!/no/such/interpreter\n", 0o755);
    let check = |change: &dyn Fn(&mut Command), kind: ErrorKind, expect: &str| {
        let mut command = bash("exit 0");
        change(&mut command);
        let tree = tree();
        let error = process::run(&command, &mut Log::default(), &control(), &limits(), &tree);
        let error = error.expect_err(expect);
        assert_eq!((error.to_string().as_str(), error.kind()), (expect, kind));
        assert!(carriers(tree.token()).is_empty());
    };
    check(
        &|command| command.cwd = "/no/such/place".into(),
        ErrorKind::NotFound,
        "working directory `/no/such/place` does not exist",
    );
    check(
        &|command| command.cwd = "/etc/passwd".into(),
        ErrorKind::NotADirectory,
        "working directory `/etc/passwd` is not a directory",
    );
    check(
        &|command| command.program = "no-such-program".into(),
        ErrorKind::NotFound,
        "program `no-such-program` not found: no such file in /usr/local/bin:/usr/bin:/bin",
    );
    check(
        &|command| command.env.clear(),
        ErrorKind::NotFound,
        "program `bash` not found: `PATH` is not set",
    );
    check(
        &|command| command.program = "/no/such/program".into(),
        ErrorKind::NotFound,
        "program `/no/such/program` not found",
    );
    check(
        &|command| command.program = format!("{place}/data").into(),
        ErrorKind::PermissionDenied,
        &format!("`{place}/data` is not executable"),
    );
    check(
        &|command| command.program = format!("{place}/lost").into(),
        ErrorKind::NotFound,
        &format!("the interpreter of `{place}/lost` was not found"),
    );
    check(
        &|command| command.env.push(variable("BODY", "a\0b")),
        ErrorKind::InvalidInput,
        "cannot start `/usr/bin/bash`, variable `BODY` contains a zero byte",
    );
    check(
        &|command| command.env.push(variable("BODY", "x".repeat(200_000))),
        ErrorKind::ArgumentListTooLong,
        "cannot start `/usr/bin/bash`, its arguments and environment are too large: the largest variable is `BODY` \
         with 200000 bytes",
    );
}

#[test]
fn a_program_is_found_as_a_shell_would() {
    let directory = tempfile::tempdir().unwrap();
    for (name, mode) in [("a/tool", 0o644), ("b/tool", 0o755), ("c/tool", 0o755)] {
        let file = directory.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        script(&file, "", mode);
    }
    let check = |path: &str, expect: Option<&str>| {
        let found = find_program(Path::new("tool"), path.as_ref(), directory.path());
        assert_eq!(found, expect.map(|file| directory.path().join(file)), "{path}");
    };
    check("a:b:c", Some("b/tool"));
    check("/no/such/place:c", Some("c/tool"));
    check("a", None);
    check("", None);
}

#[test]
fn both_streams_are_complete_and_in_order() {
    let (_, log) = run("for ((i = 0; i < 2000; i++)); do echo out $i; echo err $i >&2; done");
    let lines = |name: &str| (0..2000).map(|i| format!("{name} {i}")).collect::<Vec<_>>();
    assert_eq!(log.stdout, lines("out"));
    assert_eq!(log.stderr, lines("err"));
}

#[test]
fn a_million_lines_are_a_million_lines() {
    #[derive(Default)]
    struct Sum {
        lines: u64,
        sum: u64,
    }
    impl Sink for Sum {
        fn line(&mut self, _: Stream, text: &[u8], ending: Ending) {
            assert_eq!(ending, Ending::Newline);
            self.lines += 1;
            self.sum += str::from_utf8(text).unwrap().parse::<u64>().unwrap();
        }
    }
    let mut sum = Sum::default();
    process::run(&bash("seq 1000000"), &mut sum, &control(), &limits(), &tree()).unwrap();
    assert_eq!((sum.lines, sum.sum), (1_000_000, 500_000_500_000));
}

/// Keeps bytes and endings as they come.
#[derive(Default)]
struct Pieces(Vec<(Vec<u8>, Ending)>);

impl Sink for Pieces {
    fn line(&mut self, _: Stream, text: &[u8], ending: Ending) {
        self.0.push((text.to_vec(), ending));
    }
}

#[test]
fn bytes_and_an_unfinished_last_line_arrive_as_they_are() {
    let mut pieces = Pieces::default();
    let command = bash(r"printf '\x00\xff\xfe\nwindows\r\n\n\x80 end'");
    process::run(&command, &mut pieces, &control(), &limits(), &tree()).unwrap();
    let expect: [(&[u8], Ending); 4] = [
        (b"\x00\xff\xfe", Ending::Newline),
        (b"windows", Ending::Newline),
        (b"", Ending::Newline),
        (b"\x80 end", Ending::EndOfStream),
    ];
    assert_eq!(pieces.0, expect.map(|(text, ending)| (text.to_vec(), ending)));
}

#[test]
fn a_line_of_megabytes_comes_in_pieces_of_bounded_size() {
    let mut pieces = Pieces::default();
    let command = bash("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo next");
    process::run(&command, &mut pieces, &control(), &limits(), &tree()).unwrap();
    let (next, long) = pieces.0.split_last().unwrap();
    assert_eq!(next, &(b"next".to_vec(), Ending::Newline));
    assert_eq!(long.iter().map(|piece| piece.0.len()).sum::<usize>(), 3_000_000);
    assert!(long.iter().all(|piece| piece.0.len() <= MAX_LINE));
    let (last, others) = long.split_last().unwrap();
    assert_eq!(last.1, Ending::Newline);
    assert!(others.iter().all(|piece| piece.1 == Ending::Continued));
}

#[test]
fn a_child_in_the_background_does_not_hang_the_step_and_goes_on() {
    let tree = tree();
    let mut log = Log::default();
    let start = Instant::now();
    let server = "(for i in {1..3000}; do head -c 100000 /dev/zero | tr '\\0' '\\n'; sleep 0.01; done) & echo $!";
    let outcome = process::run(&bash(server), &mut log, &control(), &limits(), &tree).unwrap();
    assert_eq!((outcome.end, outcome.left_running), (End::Exited(0), true));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let server: i32 = log.stdout.iter().find(|line| !line.is_empty()).unwrap().parse().unwrap();
    // A later step reads its output away: it stops neither at a full pipe nor by a closed one.
    let check = format!(
        "ticks() {{ cut -d' ' -f14,16 /proc/{server}/stat; }}; before=$(ticks)
        for i in {{1..500}}; do [ \"$before\" = \"$(ticks)\" ] || exit 0; sleep 0.01; done; exit 1"
    );
    let outcome = process::run(&bash(check), &mut Log::default(), &control(), &limits(), &tree);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.end, outcome.left_running), (End::Exited(0), false));
    assert!(super::is_alive(server));
    tree.sweep();
    assert!(!super::is_alive(server));
}

#[test]
fn what_a_filter_prints_after_the_end_is_not_lost() {
    let (outcome, log) = run("exec > >(sleep 0.1; sed s/^/filtered:/); echo a; echo b");
    assert_eq!((outcome.end, outcome.left_running), (End::Exited(0), false));
    assert_eq!(log.stdout, ["filtered:a", "filtered:b"]);
}

#[test]
fn the_usage_is_that_of_the_process() {
    let (outcome, _) = run("for ((i = 0; i < 200000; i++)); do :; done");
    let Usage { user, system, max_rss } = outcome.usage;
    assert!(user + system > Duration::from_millis(20), "{user:?} {system:?}");
    assert!((1 << 20..1 << 30).contains(&max_rss), "{max_rss} bytes");
}

fn script(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_process_between_two_ends_passes_bytes_and_is_heard_only_when_it_complains() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = b"one\r\n\0two\r\xff".repeat(50_000);
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
    fs::write(&from, &bytes).unwrap();
    let ends = process::Ends {
        stdin: fs::File::open(&from).unwrap().into(),
        stdout: fs::File::create(&to).unwrap().into(),
    };
    let mut log = Log::default();
    let command = bash("cat; echo done >&2; exit 3");
    let outcome =
        process::run_between(&command, ends, &mut log, &control(), &limits(), &tree()).unwrap();
    assert_eq!(outcome.end, End::Exited(3));
    assert_eq!(fs::read(&to).unwrap(), bytes);
    assert_eq!((log.stdout, log.stderr), (vec![], vec!["done".to_owned()]));
}
