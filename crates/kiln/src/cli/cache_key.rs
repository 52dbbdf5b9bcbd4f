//! What can be typed about keys of caches.

use clap::Args;

/// Make a key from a prefix, the platform, files and variables
///
/// Prints the key; with --json also the beginnings of keys that will do, best first. Files are found below this folder
/// by patterns as Python's `glob` has them; their names count as well as what is in them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln cache key --prefix npm --files '**/package-lock.json' --env NODE_VERSION
  kiln cache key --prefix cargo --files Cargo.lock --json

In a workflow:
  - id: key
    run: echo \"key=$(kiln cache key --prefix npm --files package-lock.json)\" >> \"$GITHUB_OUTPUT\"

Exit codes:
  0  the key is printed
  2  wrong usage, a file that cannot be read, or a key that no cache takes")]
pub(crate) struct CacheKeyArgs {
    /// What the key begins with
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,

    /// Files that the cache depends on; may be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub(crate) files: Vec<String>,

    /// A variable of the environment that the cache depends on; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,

    /// The system [default: this one, as `runner.os` has it]
    #[arg(long, value_name = "OS")]
    pub(crate) os: Option<String>,

    /// The architecture [default: this one, as `runner.arch` has it]
    #[arg(long, value_name = "ARCH")]
    pub(crate) arch: Option<String>,

    /// Print `{"key": ..., "restore_keys": [...]}`
    #[arg(long)]
    pub(crate) json: bool,
}
