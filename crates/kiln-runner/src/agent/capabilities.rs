//! What this machine can do, found out without running anything.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::path::Path;

use kiln_proto::runner::Capabilities;

use crate::process::find_program;

use super::health;

/// Tools that jobs ask for by name.
const TOOLS: [&str; 27] = [
    "bash", "bun", "cargo", "cmake", "curl", "deno", "docker", "gcc", "git", "go", "jq", "make",
    "nix", "node", "npm", "php", "podman", "pwsh", "python3", "ruby", "rustc", "tar", "unzip",
    "uv", "wget", "zip", "zstd",
];

/// Detects what this machine has. `path` is where programs are looked up, `work` where jobs run.
pub fn detect(path: &OsStr, work: &Path) -> Capabilities {
    let os = std::env::consts::OS;
    let architecture = architecture();
    let is_there = |tool: &&str| find_program(Path::new(tool), path, Path::new("/")).is_some();
    let kvm = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    Capabilities {
        labels: labels(os, architecture),
        systems: vec![format!("{}-{os}", std::env::consts::ARCH)],
        features: kvm.then(|| "kvm".to_owned()).into_iter().collect(),
        tools: TOOLS.iter().filter(|tool| is_there(tool)).map(|&tool| tool.to_owned()).collect(),
        os: os.to_owned(),
        architecture: architecture.to_lowercase(),
        cores,
        memory_mb: health::memory_mb().unwrap_or(0),
        disk_mb: health::disk_free_mb(work).unwrap_or(0),
        max_parallel: cores,
        backends: vec!["host".to_owned()],
    }
}

/// GitHub's own labels of a self-hosted runner, and the names of its hosted ones with this system.
fn labels(os: &str, architecture: &str) -> Vec<String> {
    let os = match os {
        "linux" => "Linux",
        "macos" => "macOS",
        "windows" => "Windows",
        other => other,
    };
    let hosted: &[&str] = match (os, architecture) {
        ("Linux", "X64") => &["ubuntu-latest", "ubuntu-24.04", "ubuntu-22.04"],
        ("Linux", "ARM64") => &["ubuntu-24.04-arm", "ubuntu-22.04-arm"],
        _ => &[],
    };
    let own = ["self-hosted", os, architecture];
    own.iter().chain(hosted).map(|&label| label.to_owned()).collect()
}

/// GitHub's word.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "X64",
        "aarch64" => "ARM64",
        "arm" => "ARM",
        "x86" => "X86",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// S1
    #[test]
    fn tools_are_those_on_the_path_and_nothing_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, mode| {
            let file = folder.path().join(name);
            fs::write(&file, "#!/bin/sh\ntouch \"$0.ran\"\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        program("git", 0o755);
        program("node", 0o644);
        program("unheard-of", 0o755);
        let found = detect(folder.path().as_os_str(), Path::new("/"));
        assert_eq!(found.tools, ["git"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing was run");
        assert!(found.cores > 0 && found.memory_mb > 0 && found.max_parallel == found.cores);
        assert!(found.labels.contains(&"self-hosted".to_owned()));
        assert_eq!(found.systems, [format!("{}-linux", std::env::consts::ARCH)]);
    }

    #[test]
    fn labels_are_githubs() {
        let check = |os, architecture, expect: &[&str]| {
            assert_eq!(labels(os, architecture), expect, "{os} {architecture}");
        };
        let x64 = ["self-hosted", "Linux", "X64", "ubuntu-latest", "ubuntu-24.04", "ubuntu-22.04"];
        check("linux", "X64", &x64);
        let arm = ["self-hosted", "Linux", "ARM64", "ubuntu-24.04-arm", "ubuntu-22.04-arm"];
        check("linux", "ARM64", &arm);
        check("macos", "ARM64", &["self-hosted", "macOS", "ARM64"]);
    }
}
