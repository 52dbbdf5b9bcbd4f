//! The rules of `on` one by one, and the table of events against itself.

use super::{
    ChangedFiles, Commits, Comparison, Decision, DefaultTypes, EVENTS, Event, FilterKey, Rule,
    Schedule, Support, Trigger, WorkflowRun, compare_for, event, matches,
};
use crate::filter::Filter;

const ZERO: &str = "0000000000000000000000000000000000000000";

fn filter(patterns: &[&str]) -> Filter {
    Filter::parse(patterns).expect("valid patterns")
}

#[expect(clippy::unnecessary_wraps, reason = "the field it fills is optional")]
fn only(patterns: &[&str]) -> Option<Rule> {
    Some(Rule::Only(filter(patterns)))
}

#[expect(clippy::unnecessary_wraps, reason = "the field it fills is optional")]
fn except(patterns: &[&str]) -> Option<Rule> {
    Some(Rule::Except(filter(patterns)))
}

fn changed(files: &[&str]) -> ChangedFiles {
    ChangedFiles::Known(files.iter().map(|&file| file.to_owned()).collect())
}

fn push(git_ref: &str) -> Event {
    Event { name: "push".into(), git_ref: git_ref.into(), ..Event::default() }
}

fn pull_request(action: &str, base: &str) -> Event {
    Event {
        name: "pull_request".into(),
        action: Some(action.into()),
        base_ref: Some(base.into()),
        ..Event::default()
    }
}

/// An empty text means that the workflow runs.
#[track_caller]
fn check(trigger: &Trigger, event: &Event, expect: &str) {
    check_all(std::slice::from_ref(trigger), event, expect);
}

#[track_caller]
fn check_all(triggers: &[Trigger], event: &Event, expect: &str) {
    let reason = match matches(triggers, event) {
        Decision::Run => String::new(),
        Decision::Skip(skip) => skip.to_string(),
    };
    assert_eq!(reason, expect, "{triggers:#?}\n{event:#?}");
}

#[test]
fn only_events_that_are_listened_to_run() {
    let triggers = [Trigger::on("pull_request"), Trigger::on("workflow_dispatch")];
    check_all(
        &triggers,
        &push("refs/heads/main"),
        "the workflow is not triggered by `push`; \
         it listens to `pull_request`, `workflow_dispatch`",
    );
    check_all(
        &[],
        &push("refs/heads/main"),
        "the workflow is not triggered by `push`; it listens to nothing",
    );
    let dispatch = Event { name: "workflow_dispatch".into(), ..Event::default() };
    check_all(&triggers, &dispatch, "");
}

#[test]
fn a_push_filter_for_one_kind_of_ref_shuts_the_other_out() {
    let plain = Trigger::on("push");
    let branches = Trigger { branches: only(&["main", "release/**"]), ..plain.clone() };
    let tags = Trigger { tags: only(&["v*"]), ..plain.clone() };
    let both = Trigger { tags: only(&["v*"]), ..branches.clone() };
    let branch_except = Trigger { branches: except(&["wip/**"]), ..plain.clone() };
    let tag_except = Trigger { tags: except(&["nightly"]), ..plain.clone() };
    let (main, foo, tag) = (push("refs/heads/main"), push("refs/heads/foo"), push("refs/tags/v1"));
    check(&plain, &foo, "");
    check(&plain, &tag, "");
    check(&branches, &main, "");
    check(&branches, &push("refs/heads/release/1/x"), "");
    check(&branches, &foo, "branch `foo` matches none of `main`, `release/**`");
    let tag_only = "tag `v1` was pushed, and the workflow asks only for branches; \
                    add a `tags` filter to run for both";
    check(&branches, &tag, tag_only);
    check(&branch_except, &tag, tag_only);
    let branch_only = "branch `main` was pushed, and the workflow asks only for tags; \
                       add a `branches` filter to run for both";
    check(&tags, &main, branch_only);
    check(&tag_except, &main, branch_only);
    check(&tags, &tag, "");
    check(&tags, &push("refs/tags/x"), "tag `x` matches none of `v*`");
    check(&tag_except, &push("refs/tags/nightly"), "tag `nightly` is excluded by `nightly`");
    check(&both, &main, "");
    check(&both, &tag, "");
    check(&both, &foo, "branch `foo` matches none of `main`, `release/**`");
    check(&branch_except, &main, "");
    check(&branch_except, &push("refs/heads/wip/x"), "branch `wip/x` is excluded by `wip/**`");
    check(&plain, &push("refs/notes/x"), "`refs/notes/x` is neither a branch nor a tag");
}

#[test]
fn negated_patterns_say_so() {
    let trigger = Trigger { branches: only(&["rel/**", "!rel/**-alpha"]), ..Trigger::on("push") };
    check(&trigger, &push("refs/heads/rel/1"), "");
    let excluded = "branch `rel/1-alpha` is excluded by `!rel/**-alpha`";
    check(&trigger, &push("refs/heads/rel/1-alpha"), excluded);
    let negated = Trigger { branches: only(&["!x"]), ..Trigger::on("push") };
    check(
        &negated,
        &push("refs/heads/main"),
        "`branches` has only patterns that start with `!`, so nothing can match; \
         use `branches-ignore`",
    );
}

#[test]
fn paths_need_one_file_inside_and_paths_ignore_one_outside() {
    let paths = Trigger { paths: only(&["src/**", "!src/gen/**"]), ..Trigger::on("push") };
    let ignore = Trigger { paths: except(&["docs/**", "*.md"]), ..Trigger::on("push") };
    let with = |files: &[&str]| Event { changed_files: changed(files), ..push("refs/heads/main") };
    check(&paths, &with(&["docs/a", "src/a"]), "");
    check(&paths, &with(&["docs/a"]), "the changed file matches none of `src/**`, `!src/gen/**`");
    check(
        &paths,
        &with(&["docs/a", "src/gen/x"]),
        "none of the 2 changed files matches `src/**`, `!src/gen/**`",
    );
    check(&ignore, &with(&["docs/a", "src/a"]), "");
    check(&ignore, &with(&["README.md"]), "the changed file is excluded by `paths-ignore`");
    check(
        &ignore,
        &with(&["docs/a", "docs/b", "README.md"]),
        "all 3 changed files are excluded by `paths-ignore`",
    );
    let nothing = "no files changed, and the workflow filters by path";
    check(&paths, &with(&[]), nothing);
    check(&ignore, &with(&[]), nothing);
    check(&Trigger::on("push"), &with(&[]), "");
}

#[test]
fn paths_do_not_count_for_tags_or_where_nobody_knows_them() {
    let paths = Trigger { paths: only(&["src/**"]), ..Trigger::on("push") };
    let tag = Event { changed_files: changed(&["docs/a"]), ..push("refs/tags/v1") };
    check(&paths, &tag, "");
    for files in [ChangedFiles::TooMany, ChangedFiles::Unknown] {
        check(&paths, &Event { changed_files: files, ..push("refs/heads/main") }, "");
    }
}

#[test]
fn branches_and_paths_have_to_hold_together() {
    let trigger =
        Trigger { branches: only(&["main"]), paths: only(&["**.js"]), ..Trigger::on("push") };
    let event = |git_ref, file| Event { changed_files: changed(&[file]), ..push(git_ref) };
    check(&trigger, &event("refs/heads/main", "a/b.js"), "");
    check(&trigger, &event("refs/heads/main", "a.ts"), "the changed file matches none of `**.js`");
    check(&trigger, &event("refs/heads/x", "a.js"), "branch `x` matches none of `main`");
}

#[test]
fn only_the_first_three_thousand_files_are_looked_at() {
    let trigger = Trigger { paths: only(&["src/**"]), ..Trigger::on("push") };
    let files = |at: usize| {
        let mut files = vec!["docs/a".to_owned(); 4000];
        files[at] = "src/a".to_owned();
        Event { changed_files: ChangedFiles::Known(files), ..push("refs/heads/main") }
    };
    check(&trigger, &files(2999), "");
    check(&trigger, &files(3000), "none of the first 3000 of 4000 changed files matches `src/**`");
}

#[test]
fn pull_requests_are_filtered_by_activity_and_base_branch() {
    let plain = Trigger::on("pull_request");
    for action in ["opened", "synchronize", "reopened"] {
        check(&plain, &pull_request(action, "main"), "");
    }
    let labeled = "activity type `labeled` is not among opened, synchronize, reopened";
    check(&plain, &pull_request("labeled", "main"), labeled);
    let target = Event { name: "pull_request_target".into(), ..pull_request("labeled", "main") };
    check(&Trigger::on("pull_request_target"), &target, labeled);
    let typed = Trigger { types: vec!["labeled".into()], ..plain.clone() };
    check(&typed, &pull_request("labeled", "main"), "");
    let opened = "activity type `opened` is not among labeled";
    check(&typed, &pull_request("opened", "main"), opened);
    let based = Trigger { branches: only(&["main"]), ..plain.clone() };
    check(&based, &pull_request("opened", "main"), "");
    check(&based, &pull_request("opened", "refs/heads/main"), "");
    check(&based, &pull_request("opened", "dev"), "base branch `dev` matches none of `main`");
    let pathed = Trigger { paths: only(&["src/**"]), ..plain };
    let docs = Event { changed_files: changed(&["docs/a"]), ..pull_request("opened", "main") };
    check(&pathed, &docs, "the changed file matches none of `src/**`");
    let nowhere = Event { base_ref: None, ..pull_request("opened", "") };
    check(&based, &nowhere, "the event has no base branch, and the workflow filters them");
}

#[test]
fn other_events_run_for_the_types_they_have() {
    let suite = |action: &str| Event {
        name: "check_suite".into(),
        action: Some(action.into()),
        ..Event::default()
    };
    check(&Trigger::on("check_suite"), &suite("completed"), "");
    let other = "activity type `requested` is not among completed";
    check(&Trigger::on("check_suite"), &suite("requested"), other);
    let dispatch = |action: Option<&str>| Event {
        name: "repository_dispatch".into(),
        action: action.map(str::to_owned),
        ..Event::default()
    };
    check(&Trigger::on("repository_dispatch"), &dispatch(Some("my-own")), "");
    let typed = Trigger { types: vec!["deploy".into()], ..Trigger::on("repository_dispatch") };
    check(&typed, &dispatch(Some("deploy")), "");
    check(&typed, &dispatch(Some("my-own")), "activity type `my-own` is not among deploy");
    check(&typed, &dispatch(None), "the event has no activity type, and the workflow wants deploy");
}

#[test]
fn a_commit_message_can_ask_for_no_run() {
    let skips = |message: &str, marker: &str| {
        for (trigger, event) in [
            (Trigger::on("push"), push("refs/heads/main")),
            (Trigger::on("pull_request"), pull_request("opened", "main")),
        ] {
            let event = Event { commit_message: Some(message.into()), ..event };
            let expect = if marker.is_empty() {
                String::new()
            } else {
                format!("the commit message says {marker}")
            };
            check(&trigger, &event, &expect);
        }
    };
    skips("docs [skip ci]", "[skip ci]");
    skips("[ci skip] docs", "[ci skip]");
    skips("docs\n\nbody [no ci] here", "[no ci]");
    skips("[skip actions]", "[skip actions]");
    skips("[actions skip]", "[actions skip]");
    skips("docs [Skip CI]", "[skip ci]");
    skips("docs\n\n\nskip-checks: true", "skip-checks: true");
    skips("docs\n\nskip-checks:true\n", "skip-checks: true");
    skips("docs\n\nSigned-off-by: me\nskip-checks: true", "skip-checks: true");
    skips("docs skip ci", "");
    skips("skip-checks: true", "");
    skips("docs\nskip-checks: true", "");
    skips("docs\n\nskip-checks: false", "");
    skips("docs\n\nskip-checks: true\nReviewed-by: me", "");
    skips("", "");
    // The author of a change must not switch trusted workflows off.
    let target = Event {
        name: "pull_request_target".into(),
        commit_message: Some("[skip ci]".into()),
        ..pull_request("opened", "main")
    };
    check(&Trigger::on("pull_request_target"), &target, "");
}

#[test]
fn a_deleted_branch_has_nothing_to_run_on() {
    let commits = Commits::Push { before: "abc".into(), after: ZERO.into(), oldest: None };
    let event = Event { commits, ..push("refs/heads/gone") };
    let reason = "the push deleted `refs/heads/gone`, so there is no commit to run on";
    check(&Trigger::on("push"), &event, reason);
}

#[test]
fn workflow_runs_are_filtered_by_workflow_and_branch() {
    let event = |workflow: &str, branch: Option<&str>| Event {
        name: "workflow_run".into(),
        action: Some("completed".into()),
        workflow_run: Some(WorkflowRun {
            workflow: workflow.into(),
            branch: branch.map(str::to_owned),
        }),
        ..Event::default()
    };
    let trigger = Trigger {
        workflows: vec!["Build".into(), "Lint".into()],
        branches: only(&["canary"]),
        ..Trigger::on("workflow_run")
    };
    check(&trigger, &event("Build", Some("canary")), "");
    let other = "workflow `Deploy` is not among `Build`, `Lint`";
    check(&trigger, &event("Deploy", Some("canary")), other);
    check(&trigger, &event("Lint", Some("main")), "branch `main` matches none of `canary`");
    let tag = "the event has no branch, and the workflow filters them";
    check(&trigger, &event("Lint", None), tag);
    let unknown = Event { workflow_run: None, ..event("", None) };
    check(&trigger, &unknown, "the event does not say which workflow ran");
}

#[test]
fn merge_groups_are_filtered_by_their_base() {
    let trigger = Trigger { branches: only(&["main"]), ..Trigger::on("merge_group") };
    let event = |base: &str| Event {
        name: "merge_group".into(),
        action: Some("checks_requested".into()),
        base_ref: Some(base.into()),
        ..Event::default()
    };
    check(&trigger, &event("refs/heads/main"), "");
    check(&trigger, &event("dev"), "base branch `dev` matches none of `main`");
}

#[test]
fn a_schedule_runs_the_workflow_that_has_it() {
    let schedule = |cron: &str| Schedule { cron: cron.into(), timezone: None };
    let trigger = Trigger {
        schedules: vec![schedule("0 1 * * *"), schedule("0 2 * * *")],
        ..Trigger::on("schedule")
    };
    let event = |cron: Option<&str>| Event {
        name: "schedule".into(),
        schedule: cron.map(str::to_owned),
        ..Event::default()
    };
    check(&trigger, &event(Some("0 2 * * *")), "");
    let other = "schedule `0 3 * * *` is not among `0 1 * * *`, `0 2 * * *`";
    check(&trigger, &event(Some("0 3 * * *")), other);
    check(&trigger, &event(None), "the event does not say which schedule came due");
}

#[test]
fn one_of_several_triggers_is_enough() {
    let on = |branch: &str| Trigger { branches: only(&[branch]), ..Trigger::on("push") };
    let triggers = [on("a"), on("b")];
    check_all(&triggers, &push("refs/heads/b"), "");
    check_all(&triggers, &push("refs/heads/c"), "branch `c` matches none of `a`");
}

#[test]
fn commits_are_compared_by_kind_of_event() {
    let compare = |git_ref: &str, commits: Commits, expect: Comparison<'_>| {
        let event = Event { commits, ..push(git_ref) };
        assert_eq!(compare_for(&event), expect, "{event:?}");
    };
    let pushed = |before: &str, after: &str, oldest: Option<&str>| Commits::Push {
        before: before.into(),
        after: after.into(),
        oldest: oldest.map(str::to_owned),
    };
    let main = "refs/heads/main";
    let (before, after) = ("a1", "b2");
    compare(main, pushed(before, after, None), Comparison::TwoDot { before, after });
    let new = Comparison::NewBranch { oldest: Some("a2"), after };
    compare(main, pushed(ZERO, after, Some("a2")), new);
    let empty = Comparison::NewBranch { oldest: None, after };
    compare(main, pushed(ZERO, after, None), empty);
    compare(main, pushed(before, ZERO, None), Comparison::None);
    compare(main, pushed(before, &"0".repeat(64), None), Comparison::None);
    compare("refs/tags/v1", pushed(ZERO, after, None), Comparison::None);
    compare(main, Commits::None, Comparison::None);
    let commits = Commits::PullRequest { base: before.into(), head: after.into() };
    compare("refs/pull/1/merge", commits, Comparison::ThreeDot { base: before, head: after });
}

#[test]
fn the_table_of_events_is_sound() {
    assert!(EVENTS.is_sorted_by_key(|spec| spec.name), "sorted, so that names are unique");
    assert!(EVENTS.windows(2).all(|pair| pair[0].name != pair[1].name));
    for spec in EVENTS {
        if let DefaultTypes::Only(types) = spec.default_types {
            assert!(types.iter().all(|name| spec.types.contains(name)), "{}", spec.name);
        }
        if !spec.types.is_empty() {
            assert!(spec.accepts(FilterKey::Types), "{}", spec.name);
        }
        assert!(spec.doc.ends_with('.'), "{}", spec.name);
    }
    assert_eq!(EVENTS.len(), 37);
    assert_eq!(event("pull_request").expect("known").types_by_default().len(), 3);
    assert!(event("Push").is_none());
    assert!(!event("push").expect("known").accepts(FilterKey::Types));
}

#[test]
fn events_that_never_arrive_are_refused_with_a_way_out() {
    let refused = |name: &str, hint: &str| match event(name).expect("known").state {
        Support::Refused(why) => assert!(why.contains(hint), "{name}: {why}"),
        Support::Supported => panic!("{name} should be refused"),
    };
    refused("pull_request_comment", "issue_comment");
    refused("project_card", "retired");
    refused("image_version", "hosted runners");
    for name in ["push", "issue_comment", "release", "merge_group", "status", "workflow_run"] {
        assert_eq!(event(name).expect("known").state, Support::Supported, "{name}");
    }
}
