//! By which rules of clouds know a job. They are written against these words, whoever issues the token.

/// The `sub` of an identity token. What a name may hold must not look like another part.
pub fn subject(repo: &str, event: &str, reference: &str, environment: Option<&str>) -> String {
    match environment {
        Some(name) => format!("repo:{repo}:environment:{}", name.replace(':', "%3A")),
        None if event == "pull_request" => format!("repo:{repo}:pull_request"),
        None => format!("repo:{repo}:ref:{reference}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_the_environment_or_the_pull_request_or_the_ref() {
        let check = |event, environment, expect: &str| {
            assert_eq!(subject("o/r", event, "refs/heads/main", environment), expect);
        };
        check("push", None, "repo:o/r:ref:refs/heads/main");
        check("pull_request", None, "repo:o/r:pull_request");
        check("pull_request_target", None, "repo:o/r:ref:refs/heads/main");
        check("push", Some("prod"), "repo:o/r:environment:prod");
        check("push", Some("a:ref:b"), "repo:o/r:environment:a%3Aref%3Ab");
    }
}
