//! What `uses:` may say.

use kiln_core::plan::UseTarget;

/// Reads the `uses` of a step.
pub fn action(text: &str) -> Result<UseTarget, String> {
    if let Some(image) = text.strip_prefix("docker://") {
        return if image.is_empty() {
            Err("the image after `docker://` is missing".to_owned())
        } else {
            Ok(UseTarget::Docker(image.to_owned()))
        };
    }
    if let Some(path) = text.strip_prefix("./").or_else(|| text.strip_prefix(".\\")) {
        return Ok(UseTarget::Local(path.to_owned()));
    }
    if let Some(path) = text.strip_prefix("$/") {
        return Ok(UseTarget::SameRepository(path.to_owned()));
    }
    remote(text)
}

fn remote(text: &str) -> Result<UseTarget, String> {
    let Some((name, reference)) = text.split_once('@') else {
        return Err(format!("`{text}` has no version: write `{text}@<tag, branch or commit>`"));
    };
    let parts: Vec<&str> = name.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let [owner, repository, path @ ..] = parts.as_slice() else {
        return Err(format!("`{text}` is not an action: expected `owner/repository[/path]@ref`"));
    };
    if reference.is_empty() || reference.contains('@') {
        return Err(format!("`{text}` has no usable version: expected one `@` before it"));
    }
    Ok(UseTarget::Repository {
        owner: (*owner).to_owned(),
        repository: (*repository).to_owned(),
        path: path.join("/"),
        reference: reference.to_owned(),
    })
}

/// Where a reusable workflow is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallTarget {
    /// In the same repository, by its path without `./`.
    Local(String),
    Remote {
        repository: String,
        path: String,
        reference: String,
    },
}

/// Reads the `uses` of a job.
pub fn workflow(text: &str) -> Result<CallTarget, String> {
    const HOME: &str = ".github/workflows/";
    let is_file = |path: &str| {
        let name = path.strip_prefix(HOME).unwrap_or_default();
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        !name.contains('/') && matches!(extension, Some("yml" | "yaml"))
    };
    if let Some(path) = text.strip_prefix("./").or_else(|| text.strip_prefix("$/")) {
        if path.contains('@') {
            return Err(
                "a local workflow takes no version: it is always of the same commit".to_owned()
            );
        }
        return if is_file(path) {
            Ok(CallTarget::Local(path.to_owned()))
        } else {
            Err(format!("a reusable workflow is a file directly in `{HOME}`"))
        };
    }
    let expected = "expected `./.github/workflows/file.yml` or `owner/repository/.github/workflows/file.yml@ref`";
    let UseTarget::Repository { owner, repository, path, reference } =
        remote(text).map_err(|_| format!("`{text}` is not a reusable workflow: {expected}"))?
    else {
        return Err(expected.to_owned());
    };
    if !is_file(&path) {
        return Err(format!("`{text}` is not a reusable workflow: {expected}"));
    }
    Ok(CallTarget::Remote { repository: format!("{owner}/{repository}"), path, reference })
}

/// How a generated step id names an action.
pub fn id_stem(target: &UseTarget) -> String {
    match target {
        UseTarget::Docker(image) => image.clone(),
        UseTarget::Local(_) | UseTarget::SameRepository(_) => "self".to_owned(),
        UseTarget::Repository { owner, repository, .. } => format!("{owner}/{repository}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_local_remote_or_images() {
        for (text, stem) in [
            ("actions/checkout@v4", "actions/checkout"),
            ("github/codeql-action/init@0123abc", "github/codeql-action"),
            ("./.github/actions/setup", "self"),
            ("docker://alpine:3.20", "alpine:3.20"),
            ("$/actions/x", "self"),
        ] {
            assert_eq!(id_stem(&action(text).expect(text)), stem);
        }
        for bad in [
            "checkout@v4",
            "actions/checkout",
            "actions/checkout@",
            "$$docker://a:3",
            "...docker://a",
            "docker://",
            "a/b@c@d",
        ] {
            assert!(action(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reusable_workflows_are_files_of_the_workflow_folder() {
        assert_eq!(
            workflow("./.github/workflows/a.yml"),
            Ok(CallTarget::Local(".github/workflows/a.yml".to_owned()))
        );
        assert!(matches!(
            workflow("o/r/.github/workflows/a.yaml@v1"),
            Ok(CallTarget::Remote { .. })
        ));
        for bad in [
            "./a.yml",
            "./.github/workflows/x/a.yml",
            "./.github/workflows/a.yml@v1",
            "o/r/a.yml@v1",
            "o/r/.github/workflows/a.yml",
            "actions/checkout@v4",
        ] {
            assert!(workflow(bad).is_err(), "{bad}");
        }
    }
}
