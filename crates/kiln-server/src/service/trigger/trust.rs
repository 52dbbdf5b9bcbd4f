//! Whether a run is trusted: with secrets, identity tokens, and what other trusted runs left behind.
//!
//! It is the lesser of where its code came from and of what event started it. What cannot be told is not trusted.

use kiln_core::value::{Object, Value};

use crate::service::job::TRUSTED;

/// What strangers' runs are called.
const UNTRUSTED: &str = "untrusted";

/// Events about a pull request, whose code and words are its author's.
const PULL_REQUESTS: [&str; 4] =
    ["pull_request", "pull_request_target", "pull_request_review", "pull_request_review_comment"];

/// Whoever triggers something may write to the repository, so all that is in it is trusted; but a pull request may
/// come from somebody who may not, and so may a run that another one started.
pub(super) fn trust_of(
    event: &str,
    reference: &str,
    payload: &Object,
    full_name: &str,
) -> &'static str {
    let is_ours = |path: &[&str]| {
        let from = payload.path(path).and_then(Value::as_str);
        from.is_some_and(|from| from.eq_ignore_ascii_case(full_name))
    };
    let of_pull = reference.starts_with("refs/pull/") || PULL_REQUESTS.contains(&event);
    let trusted = (!of_pull || is_ours(&["pull_request", "head", "repo", "full_name"]))
        && (event != "workflow_run" || is_ours(&["workflow_run", "head_repository", "full_name"]));
    if trusted { TRUSTED } else { UNTRUSTED }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(event: &str, reference: &str, payload: &str) -> &'static str {
        let payload: Object = serde_json::from_str(payload).unwrap();
        trust_of(event, reference, &payload, "acme/app")
    }

    fn pull(repo: &str) -> String {
        format!(r#"{{"pull_request": {{"head": {{"repo": {repo}}}}}}}"#)
    }

    #[test]
    fn what_is_in_the_repository_is_trusted() {
        for event in ["push", "workflow_dispatch", "schedule", "repository_dispatch", "issues"] {
            assert_eq!(of(event, "refs/heads/main", "{}"), TRUSTED, "{event}");
        }
        let own = pull(r#"{"full_name": "Acme/App"}"#);
        assert_eq!(of("pull_request", "refs/pull/7/merge", &own), TRUSTED);
        let own = r#"{"workflow_run": {"head_repository": {"full_name": "acme/app"}}}"#;
        assert_eq!(of("workflow_run", "refs/heads/main", own), TRUSTED);
    }

    #[test]
    fn what_strangers_may_have_written_is_not() {
        let fork = pull(r#"{"full_name": "mallory/app", "fork": true}"#);
        for event in PULL_REQUESTS {
            assert_eq!(of(event, "refs/pull/7/merge", &fork), UNTRUSTED, "{event}");
            assert_eq!(of(event, "refs/heads/main", &fork), UNTRUSTED, "{event}");
            // A fork that was removed since; and an event of which nothing is said.
            assert_eq!(of(event, "refs/heads/main", &pull("null")), UNTRUSTED, "{event}");
            assert_eq!(of(event, "refs/heads/main", "{}"), UNTRUSTED, "{event}");
        }
        assert_eq!(of("push", "refs/pull/7/head", "{}"), UNTRUSTED);
        assert_eq!(of("workflow_dispatch", "refs/pull/7/merge", "{}"), UNTRUSTED);
        let fork = r#"{"workflow_run": {"head_repository": {"full_name": "mallory/app"}}}"#;
        assert_eq!(of("workflow_run", "refs/heads/main", fork), UNTRUSTED);
        assert_eq!(of("workflow_run", "refs/heads/main", "{}"), UNTRUSTED);
    }
}
