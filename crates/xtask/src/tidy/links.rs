//! Relative links in Markdown lead to files, folders and headings that exist.

use super::Finding;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.texts(".md").flat_map(|(path, text)| check_page(repository, path, text)).collect()
}

fn check_page(repository: &Repository, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in prose(text) {
        for link in targets(&line).filter(|link| !leads_elsewhere(link)) {
            if let Some(problem) = problem(repository, path, link) {
                findings.push(Finding::on_line(path, number, problem));
            }
        }
    }
    findings
}

/// Numbered lines outside code fences, with inline code blanked.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        let plain = |(part, text): (usize, &str)| {
            if part % 2 == 0 { text.to_owned() } else { "·".to_owned() }
        };
        (!fenced).then(|| (index + 1, line.split('`').enumerate().map(plain).collect()))
    })
}

fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, open)| {
        let rest = &line[at + open.len()..];
        rest.split([')', ' ']).next().filter(|target| !target.is_empty())
    })
}

fn leads_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

fn problem(repository: &Repository, page: &str, link: &str) -> Option<String> {
    let (target, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if target.is_empty() { page.to_owned() } else { resolve(page, target) };
    let folder = format!("{path}/");
    let leads_to = |file: &str| path.is_empty() || file == path || file.starts_with(&folder);
    if !repository.files.iter().any(|file| leads_to(&file.path)) {
        return Some(format!("the link `{link}` leads nowhere"));
    }
    // Fragments of other files, such as lines of code, are the viewer's business.
    let is_page = repository.texts(".md").find(|(name, _)| *name == path);
    let (_, text) = is_page.filter(|_| !heading.is_empty())?;
    let exists = headings(text).any(|found| found == heading);
    (!exists).then(|| format!("`{path}` has no heading `#{heading}`"))
}

/// The path from the root that `target` means on `page`.
fn resolve(page: &str, target: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Headings as links name them: lower case, spaces as hyphens, most punctuation gone.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    };
    text.lines().filter(|line| line.starts_with('#')).map(move |line| {
        line.trim_start_matches('#').trim().to_lowercase().chars().filter_map(kept).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expected: &[&str]) {
        let repository = Repository::fixture(&[
            ("README.md", "# Kiln\n"),
            ("docs/plan.md", page),
            ("docs/lint.md", "# Lint\n\n## Exit codes, `0` to 2\n"),
        ]);
        let found: Vec<String> = super::check(&repository).into_iter().map(|f| f.message).collect();
        assert_eq!(found, expected, "{page}");
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        check("[a](lint.md) [b](../README.md) [c](/docs) [d](../docs/)", &[]);
        check("[a](lint.md#exit-codes-0-to-2) [b](#here)\n# Here\n", &[]);
        check("[a](https://example.test/x) [b](mailto:a@example.test)", &[]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        check(
            "[a](gone.md) and [b](../LICENSE \"title\")",
            &["the link `gone.md` leads nowhere", "the link `../LICENSE` leads nowhere"],
        );
        check("[a](lint.md#gone)", &["`docs/lint.md` has no heading `#gone`"]);
        check("[a](#gone)", &["`docs/plan.md` has no heading `#gone`"]);
    }

    #[test]
    fn code_is_not_searched_for_links() {
        check("`[a](gone.md)`\n```\n[a](gone.md)\n```\n", &[]);
    }
}
