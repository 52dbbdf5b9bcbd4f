//! Packages are installed by name: no file names the host of a package registry.

use super::Finding;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let hosts = hosts();
    repository.texts("").flat_map(|(path, text)| check_text(&hosts, path, text)).collect()
}

/// Put together from pieces, so that this file does not break its own rule.
fn hosts() -> Vec<String> {
    [
        ("crates", "io"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("debian", "org"),
    ]
    .map(|(name, domain)| format!("{name}.{domain}"))
    .to_vec()
}

fn check_text(hosts: &[String], path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Cargo writes this name of its default registry into every lock file.
        let line = line.to_ascii_lowercase().replace(&format!("{}-index", hosts[0]), "");
        for host in hosts.iter().filter(|host| line.contains(host.as_str())) {
            let message = format!("names the registry host `{host}`; install packages by name");
            findings.push(Finding::on_line(path, index + 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected_lines: &[usize]) {
        let found: Vec<usize> = check_text(&hosts(), "a", text)
            .into_iter()
            .map(|finding| finding.line.expect("hosts are found on a line"))
            .collect();
        assert_eq!(found, expected_lines, "{text}");
    }

    #[test]
    fn registry_hosts_are_found_in_any_case() {
        check(&format!("fine\nregistry.{}/left-pad\n", hosts()[1]), &[2]);
        check(&format!("https://{}\n", hosts()[0].to_uppercase()), &[1]);
    }

    #[test]
    fn the_registry_name_in_a_lock_file_is_no_host() {
        check(&format!("source = \"registry+github/{}-index\"\n", hosts()[0]), &[]);
        check("npm install left-pad\n", &[]);
    }
}
