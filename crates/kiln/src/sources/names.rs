//! Names of commits and files, as git prints them and as it must be asked.

use kiln_server::sources::{CommitInfo, Resolved, SourceError};

use super::ask::Said;

/// A whole commit id.
pub(super) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Refuses what git would take for an option, a pattern or an expression.
pub(super) fn must_be_a_name(name: &str) -> Result<(), SourceError> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let wrong = name.is_empty()
        || name.len() > 255
        || name.starts_with(['-', '/'])
        || name.ends_with(['/', '.'])
        || name.contains("..")
        || name.contains("@{")
        || name.contains("//")
        || name.chars().any(odd);
    if wrong {
        return Err(SourceError::NotFound(format!(
            "`{name}` is no name of a branch, tag or commit"
        )));
    }
    Ok(())
}

/// Finds what a name means. A branch comes before a tag of the same name.
pub(super) fn resolve(
    name: &str,
    ask: impl Fn(&[&str]) -> Result<Said, SourceError>,
) -> Result<Resolved, SourceError> {
    let missing = || SourceError::NotFound(format!("there is no branch, tag or commit `{name}`"));
    if !is_commit(name) && name != "HEAD" {
        let full: Vec<String> = if name.starts_with("refs/") {
            vec![name.to_owned()]
        } else {
            vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")]
        };
        let format = "--format=%(refname) %(objectname) %(*objectname)";
        let mut words = vec!["for-each-ref", format];
        words.extend(full.iter().map(String::as_str));
        let output = ask(&words)?.or_broken()?;
        let text = String::from_utf8_lossy(&output);
        if let Some(found) = full.iter().find_map(|wanted| named(&text, wanted)) {
            return Ok(found);
        }
    }
    let is_part_of_id = name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if name != "HEAD" && !is_part_of_id {
        return Err(missing());
    }
    let wanted = format!("{name}^{{commit}}");
    let words = ["rev-parse", "--quiet", "--verify", "--end-of-options", &wanted];
    let output = ask(&words)?.ok().ok_or_else(missing)?;
    let text = String::from_utf8_lossy(&output);
    // With `--quiet --verify`, git repeats the word that ends the options.
    let commit = text.lines().map(str::trim).find(|line| is_commit(line)).ok_or_else(missing)?;
    Ok(Resolved { commit: commit.to_owned(), reference: None })
}

/// The ref of exactly this name among those that git listed: a pattern fits also what lies below it. An
/// annotated tag has the commit as its last word.
fn named(text: &str, wanted: &str) -> Option<Resolved> {
    let line = text.lines().find(|line| line.split(' ').next() == Some(wanted))?;
    let commit = line.split(' ').rfind(|word| is_commit(word))?;
    Some(Resolved { commit: commit.to_owned(), reference: Some(wanted.to_owned()) })
}

/// The plain files that `ls-tree -z` lists.
pub(super) fn files(output: &[u8]) -> Vec<String> {
    let entries = output.split(|byte| *byte == 0);
    let file = |entry: &[u8]| {
        let text = std::str::from_utf8(entry).ok()?;
        let (about, path) = text.split_once('\t')?;
        about.starts_with("100").then(|| path.to_owned())
    };
    entries.filter_map(file).collect()
}

/// What `show` prints about a commit.
pub(super) fn commit_of(output: &[u8]) -> Result<CommitInfo, SourceError> {
    let text = String::from_utf8_lossy(output);
    let mut parts = text.splitn(5, '\0').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let (author_name, author_email, authored_at) = (next(), next(), next());
    let parents =
        next().split(' ').filter(|parent| !parent.is_empty()).map(str::to_owned).collect();
    let message = next().trim_end().to_owned();
    if authored_at.is_empty() {
        return Err(SourceError::Broken("git does not say who made the commit".to_owned()));
    }
    Ok(CommitInfo { message, author_name, author_email, authored_at, parents })
}
