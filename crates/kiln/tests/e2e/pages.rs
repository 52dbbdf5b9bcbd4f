//! Completions, man pages and the reference of the command line.

use crate::Place;

#[test]
fn every_shell_gets_completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = place.kiln(&["completions", shell]);
        for command in ["lint", "workflows", "status", "undrain"] {
            assert!(answer.code(0).out.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn the_man_page_is_printed_or_all_are_written() {
    let place = Place::new();
    let printed = place.kiln(&["man"]);
    assert!(printed.code(0).out.contains(".TH kiln 1"), "{printed:#?}");
    place.kiln(&["man", "--out", "pages/man1"]).code(0);
    let pages = place.path().join("pages/man1");
    for page in [
        "kiln",
        "kiln-run",
        "kiln-lint",
        "kiln-eval",
        "kiln-plan",
        "kiln-graph",
        "kiln-db-backup",
        "kiln-man",
    ] {
        let text = std::fs::read_to_string(pages.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let place = Place::new();
    place.file("taken", "");
    let answer = place.kiln(&["man", "--out", "taken"]);
    assert!(answer.code(2).err.contains("`taken`"), "{answer:#?}");
}

#[test]
fn the_command_line_reference_is_up_to_date() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let reference = kiln::cli_reference();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&page, &reference).unwrap();
    }
    let committed = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(committed == reference, "docs/cli.md is out of date: run `cargo xtask gen`");
}

#[test]
fn the_settings_reference_is_up_to_date() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let reference = kiln::settings_reference();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&page, &reference).unwrap();
    }
    let committed = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(committed == reference, "docs/configuration.md is out of date: run `cargo xtask gen`");
}
