//! Tests of workflow commands: both syntaxes, and what the processor makes of them.

use proptest::prelude::*;

use super::*;

fn read(line: &str) -> Option<Result<Command, Fault>> {
    parse(line, Path::new("/w/repo"))
}

#[track_caller]
fn check(line: &str, expected: &Command) {
    assert_eq!(read(line), Some(Ok(expected.clone())), "{line:?}");
}

fn output(name: &str, value: &str) -> Command {
    Command::SetOutput { name: name.into(), value: value.into() }
}

fn annotation(line: &str) -> Annotation {
    match read(line) {
        Some(Ok(Command::Annotate(annotation))) => annotation,
        other => panic!("{line:?} became {other:?}"),
    }
}

/// P8
#[test]
fn both_syntaxes_are_read() {
    check("::set-output name=a::b", &output("a", "b"));
    check("##[set-output name=a]b", &output("a", "b"));
    check("  \t::set-output name=a::b", &output("a", "b"));
    check("some text ##[set-output name=a]b", &output("a", "b"));
    check("::SET-OUTPUT NAME=a::b", &output("a", "b"));
    check("::group::Title: x", &Command::Group("Title: x".into()));
    check("::endgroup::ignored", &Command::EndGroup);
    check("##[add-matcher]/a/b.json", &Command::AddMatcher("/a/b.json".into()));
    let owner = MatcherRef::Owner("checkout-git".into());
    check("::remove-matcher owner=checkout-git::", &Command::RemoveMatcher(owner));
    check("::remove-matcher::f.json", &Command::RemoveMatcher(MatcherRef::File("f.json".into())));
    check("::echo:: On ", &Command::Echo(true));
    check("::group::a::b", &Command::Group("a::b".into()));
    check("::unknown::##[group]x", &Command::Group("x".into()));
}

/// P8
#[test]
fn what_is_not_a_command_is_text() {
    let lines = [
        "",
        "::",
        "::::",
        "::group",
        "group::x::",
        "x ::group::y",
        "::grou::x",
        "##[group",
        "##[]x",
        "# #[group]x",
        "::group ::",
        "std::vec::Vec",
        "##[unknown]x ##[group]y",
        ":: group::x",
    ];
    for line in lines {
        let expected = (line == "::group ::").then(|| Ok(Command::Group(String::new())));
        assert_eq!(read(line), expected, "{line:?}");
    }
}

/// P8
#[test]
fn escapes_are_undone_once() {
    check("::set-output name=a%3Ab%2Cc%25::1%0A2%0D3%253A", &output("a:b,c%", "1\n2\r3%3A"));
    check("::set-output name=a%3Bb::%3A%2C%0a%2", &output("a%3Bb", "%3A%2C%0a%2"));
    check("##[set-output name=a%3Bb%5Dc]%3B%5D%250A%3A", &output("a;b]c", ";]%0A%3A"));
}

/// P8
#[test]
fn properties_are_split_as_github_does() {
    check("::set-output name=a=b::x", &output("a=b", "x"));
    check("::set-output name==a::x", &output("a", "x"));
    check("::set-output ,,x,=y,z=,name=a::x", &output("a", "x"));
    check("::set-output   name=a  ::x", &output("a", "x"));
    check("::set-output name=a,name=b::x", &output("b", "x"));
    check("##[set-output x=1;name=a,b]x", &output("a,b", "x"));
}

/// P8
#[test]
fn mistakes_are_named() {
    let check = |line: &str, message: &str, fails: bool| {
        let fault = read(line).unwrap().unwrap_err();
        assert_eq!((fault.to_string().as_str(), fault.fails_step()), (message, fails), "{line}");
    };
    check("::set-output::x", "`set-output` needs the property `name`", true);
    check("::save-state name=::x", "`save-state` needs the property `name`", true);
    check("::set-env::x", "`set-env` needs the property `name`", true);
    check("::add-path::", "`add-path` needs a value after its name", true);
    check("::add-mask:: ", "`add-mask` needs a value after its name", false);
    check("::add-matcher::", "`add-matcher` needs a value after its name", false);
    check("::echo::maybe", "`echo` takes `on` or `off`, not `maybe`", true);
    check("::echo::", "`echo` needs a value after its name", true);
    let either = "`remove-matcher` needs either an owner or a file, not both and not neither";
    check("::remove-matcher::", either, false);
    check("::remove-matcher owner=a::b", either, false);
}

/// P8
#[test]
fn annotations_keep_their_place() {
    let full = annotation(
        "::error file=/w/repo/a/b.rs,line=1,endLine=1,col=2,endColumn=5,title=T%3A::M%0AN",
    );
    assert_eq!((full.severity, full.message.as_str()), (Severity::Error, "M\nN"));
    assert_eq!(full.file.as_deref(), Some("a/b.rs"));
    assert_eq!(full.title.as_deref(), Some("T:"));
    let place = (full.line, full.end_line, full.column, full.end_column);
    assert_eq!(place, (Some(1), Some(1), Some(2), Some(5)));
    assert_eq!(annotation("::notice file=x.c::").file.as_deref(), Some("x.c"));
    assert_eq!(annotation("::warning file=/etc/x::").file.as_deref(), Some("/etc/x"));
    assert_eq!(annotation("##[warning]w").severity, Severity::Warning);
}

/// P8
#[test]
fn places_that_make_no_sense_are_mended_or_dropped() {
    let check = |properties: &str, expected: [u32; 4]| {
        let found = annotation(&format!("::error {properties}::m"));
        let found = [found.line, found.end_line, found.column, found.end_column];
        assert_eq!(found.map(Option::unwrap_or_default), expected, "{properties}");
    };
    check("line=3,endLine=5", [3, 5, 0, 0]);
    check("endLine=5", [5, 5, 0, 0]);
    check("line=5,endLine=3", [0, 0, 0, 0]);
    check("line=3,col=7,endColumn=9", [3, 0, 7, 9]);
    check("line=3,endColumn=9", [3, 0, 9, 9]);
    check("line=3,col=9,endColumn=7", [3, 0, 0, 0]);
    check("line=3,endLine=5,col=1,endColumn=2", [3, 5, 0, 0]);
    check("col=1,endColumn=2", [0, 0, 0, 0]);
    check("line=x,col=-1", [0, 0, 0, 0]);
    check("line=99999999999999", [0, 0, 0, 0]);
}

fn processor(change: impl FnOnce(&mut Options)) -> Processor {
    let mut options = Options { workspace: "/w/repo".into(), ..Options::default() };
    change(&mut options);
    Processor::new(options)
}

/// What the log shows, what is left to do, and whether the step failed.
#[track_caller]
fn check_line(
    processor: &mut Processor,
    line: &str,
    log: &[&str],
    commands: &[Command],
    failed: bool,
) {
    let processed = processor.line(line.as_bytes()).unwrap_or_else(|| panic!("{line:?} is text"));
    assert_eq!(processed.log, log, "{line:?}");
    assert_eq!(processed.commands, commands, "{line:?}");
    assert_eq!(processed.failed, failed, "{line:?}");
}

/// P8
#[test]
fn the_log_shows_groups_and_annotations_but_not_outputs() {
    let mut p = processor(|_| {});
    let group = Command::Group("G".into());
    check_line(&mut p, "::group::G", &["##[group]G"], &[group], false);
    check_line(&mut p, "::endgroup::", &["##[endgroup]"], &[Command::EndGroup], false);
    let error = Command::Annotate(Annotation::new(Severity::Error, "bad"));
    check_line(&mut p, "::error::bad", &["##[error]bad"], &[error], false);
    let debug = Command::Debug("d".into());
    check_line(&mut p, "::debug::d", &[], std::slice::from_ref(&debug), false);
    check_line(&mut processor(|o| o.debug = true), "::debug::d", &["##[debug]d"], &[debug], false);
    check_line(&mut p, "::add-mask::s3", &[], &[Command::AddMask("s3".into())], false);
    assert_eq!(p.line(b"plain \xff text"), None);
}

/// P8
#[test]
fn echo_shows_commands_but_never_masks() {
    let mut p = processor(|_| {});
    check_line(&mut p, "::echo::on", &[], &[], false);
    let matcher = Command::AddMatcher("m".into());
    check_line(&mut p, "::add-matcher::m", &["::add-matcher::m"], &[matcher], false);
    let mask = Command::AddMask("secret".into());
    check_line(&mut p, "::add-mask::secret", &["::add-mask::***"], &[mask], false);
    check_line(&mut p, "::echo::off", &["::echo::off"], &[], false);
    check_line(&mut p, "::endgroup::", &["##[endgroup]"], &[Command::EndGroup], false);
}

/// P8
#[test]
fn a_token_stops_commands_until_it_comes_again() {
    let mut p = processor(|_| {});
    let line = "::stop-commands::Token-123";
    check_line(&mut p, line, &[line], &[Command::AddMask("Token-123".into())], false);
    for text in
        ["::error::x", "::stop-commands::y", "##[group]z", "::token-12::", "::group::##[token-123]"]
    {
        assert_eq!(p.line(text.as_bytes()), None, "{text}");
    }
    check_line(&mut p, "  ::TOKEN-123::", &["  ::TOKEN-123::"], &[], false);
    check_line(&mut p, "::endgroup::", &["##[endgroup]"], &[Command::EndGroup], false);
    assert_eq!(p.line(b"::token-123::"), None, "the token is used up");
    check_line(&mut p, "::stop-commands::abc", &["::stop-commands::abc"], &[], false);
}

/// P8
#[test]
fn tokens_that_could_be_commands_are_refused() {
    for token in ["", "group", "SET-ENV", "pause-logging", "stop-commands"] {
        let line = format!("::stop-commands::{token}");
        let refused = processor(|_| {}).line(line.as_bytes()).unwrap();
        assert!(refused.failed && refused.log[0].starts_with("##[error]"), "{token}");
        let allowed = processor(|o| o.allow_unsecure_tokens = true).line(line.as_bytes()).unwrap();
        assert!(!allowed.failed, "{token}");
    }
}

/// P8
#[test]
fn set_env_and_add_path_need_permission() {
    for line in ["::set-env name=A::b", "::add-path::/x"] {
        let refused = processor(|_| {}).line(line.as_bytes()).unwrap();
        assert!(refused.failed && refused.log[0].contains("ACTIONS_ALLOW_UNSECURE_COMMANDS"));
        assert!(matches!(&refused.commands[..], [Command::Annotate(_)]), "{line}");
    }
    let mut p = processor(|o| o.allow_unsecure = true);
    let set = Command::SetEnv { name: "A".into(), value: "b".into() };
    check_line(&mut p, "::set-env name=A::b", &[], &[set], false);
    check_line(&mut p, "::add-path::/x", &[], &[Command::AddPath("/x".into())], false);
    let refused = p.line(b"::set-env name=node_options::--x").unwrap();
    assert!(!refused.failed && matches!(&refused.commands[..], [Command::Annotate(_)]));
}

/// P8
#[test]
fn deprecated_commands_work_and_warn_once_each() {
    let mut p = processor(|_| {});
    for (line, file) in
        [("::set-output name=a::b", "GITHUB_OUTPUT"), ("::save-state name=a::b", "GITHUB_STATE")]
    {
        let first = p.line(line.as_bytes()).unwrap();
        assert!(first.log[0].starts_with("##[warning]") && first.log[0].contains(file));
        assert_eq!(first.commands.len(), 2);
        let second = p.line(line.as_bytes()).unwrap();
        assert_eq!((second.log.len(), second.commands.len(), second.failed), (0, 1, false));
    }
}

/// P8
#[test]
fn commands_with_mistakes_fail_the_step_or_warn() {
    let mut p = processor(|_| {});
    let failed = p.line(b"::echo::maybe").unwrap();
    assert!(failed.failed);
    assert_eq!(
        failed.log,
        [
            "##[error]cannot obey the command `::echo::maybe`: `echo` takes `on` or `off`, not `maybe`"
        ]
    );
    let warned = p.line(b"::add-mask::").unwrap();
    assert!(!warned.failed && warned.log[0].starts_with("##[warning]"));
}

#[test]
fn the_internal_command_is_text_unless_enabled() {
    let line = b"##[internal-set-repo-path repoFullName=o/r;workspaceRepo=True]/w";
    assert_eq!(processor(|_| {}).line(line), None);
    let found = processor(|_| {}).with_internal_commands().line(line).unwrap();
    let expected = Command::InternalSetRepoPath {
        repository: "o/r".into(),
        is_workspace: true,
        path: "/w".into(),
    };
    assert_eq!(found.commands, [expected]);
}

/// P8
#[test]
fn permissions_come_from_the_environment() {
    let options = |name: &'static str, value: &'static str| {
        Options::new("/w".into(), false, move |asked| (asked == name).then_some(value))
    };
    assert!(options("ACTIONS_ALLOW_UNSECURE_COMMANDS", "True").allow_unsecure);
    assert!(!options("ACTIONS_ALLOW_UNSECURE_COMMANDS", "1").allow_unsecure);
    assert!(options("ACTIONS_ALLOW_UNSECURE_STOPCOMMAND_TOKENS", "true").allow_unsecure_tokens);
}

/// What `@actions/core` makes of a value.
fn escape(text: &str, is_property: bool) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    if is_property { text.replace(':', "%3A").replace(',', "%2C") } else { text }
}

proptest! {
    #[test]
    fn any_line_is_read_without_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
        processor(|o| o.allow_unsecure = true).line(&line);
    }

    #[test]
    fn lines_of_the_grammars_pieces_are_read_the_same_by_both_entrances(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "::", "##[", "]", " ", "=", ",", ";", "%0A", "%", "name", "a", "set-output", "group",
            "error", "stop-commands", "add-mask", "line=1", "ä", "\u{a0}",
        ]), 0..12)
    ) {
        let line = pieces.concat();
        let parsed = read(&line);
        let processed = processor(|o| o.allow_unsecure_tokens = true).line(line.as_bytes());
        prop_assert_eq!(parsed.is_some(), processed.is_some(), "{}", line);
    }

    #[test]
    fn what_the_toolkit_writes_is_read_back(name in "[^=][^\u{0}]{0,20}", value in any::<String>()) {
        prop_assume!(name.trim() == name);
        let line = format!("::set-output name={}::{}", escape(&name, true), escape(&value, false));
        prop_assert_eq!(read(&line), Some(Ok(output(&name, &value))));
    }
}
