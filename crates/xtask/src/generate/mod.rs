//! References that are written by programs, so that they cannot disagree with the code.
//!
//! To add one: write a module with a `fn(&Repository) -> Result<Vec<Output>>` and name it in
//! [`GENERATORS`]. Tidy then fails while the committed page differs, and `cargo xtask gen` writes it.
//!
//! A page that only the `kiln` binary can describe (its command line) belongs to a test of that
//! crate instead: name the test `…_reference_is_up_to_date`, compare with the committed page, and
//! rewrite the page when `UPDATE_EXPECT=1`. [`rewrite_pages_owned_by_tests`] runs those.

mod checks;
mod compatibility;
mod crate_table;

use anyhow::{Context as _, Result, ensure};

use crate::repository::{self, Repository};

/// A file as it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// Relative to the root, with forward slashes.
    pub path: String,
    pub text: String,
}

type Generator = fn(&Repository) -> Result<Vec<Output>>;

const GENERATORS: &[Generator] =
    &[checks::generate, compatibility::generate, crate_table::generate];

/// Everything that is generated, as it should be now.
pub fn outputs(repository: &Repository) -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    for generator in GENERATORS {
        outputs.extend(generator(repository)?);
    }
    Ok(outputs)
}

/// Writes what differs and returns the paths written.
pub fn write(repository: &Repository) -> Result<Vec<String>> {
    let mut written = Vec::new();
    for output in outputs(repository)? {
        if repository.text(&output.path) == Some(&output.text) {
            continue;
        }
        let path = repository.root.join(&output.path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, &output.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
        written.push(output.path);
    }
    Ok(written)
}

/// Lets the tests that own a generated page rewrite it.
pub fn rewrite_pages_owned_by_tests() -> Result<()> {
    let root = Repository::open()?.root;
    let words = ["test", "--quiet", "--package", "kiln", "reference_is_up_to_date"];
    let finished = repository::command(&root, &repository::cargo(), &words)
        .env("UPDATE_EXPECT", "1")
        .stdout(std::process::Stdio::null())
        .status()
        .context("cannot start cargo")?;
    ensure!(finished.success(), "a test of `kiln` that writes a reference failed");
    Ok(())
}

/// Replaces what stands between the two marker lines named `section`; they stay.
fn replace_section(page: &str, section: &str, content: &str) -> Result<String> {
    let start = format!("<!-- generated: {section} -->\n");
    let end = format!("<!-- end of generated: {section} -->");
    let (before, rest) =
        page.split_once(&start).with_context(|| format!("no line `{}`", start.trim_end()))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("no line `{end}`"))?;
    Ok(format!("{before}{start}{content}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "a\n<!-- generated: x -->\nold\n<!-- end of generated: x -->\nb\n";

    #[test]
    fn a_section_is_replaced_between_its_markers() {
        let new = replace_section(PAGE, "x", "new\n").unwrap();
        assert_eq!(new, PAGE.replace("old", "new"));
        assert_eq!(replace_section(&new, "x", "new\n").unwrap(), new);
    }

    #[test]
    fn a_page_without_its_markers_is_an_error() {
        let error = replace_section(PAGE, "y", "new\n").unwrap_err();
        assert_eq!(error.to_string(), "no line `<!-- generated: y -->`");
        let error = replace_section("<!-- generated: x -->\n", "x", "").unwrap_err();
        assert_eq!(error.to_string(), "no line `<!-- end of generated: x -->`");
    }
}
