//! `kiln cache key`: a key from what a cache depends on. No server is asked.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use kiln_lang::hash_files::{KeySpec, Keys, cache_keys};
use kiln_runner::files::Tree;
use serde_json::json;

use super::print_json;
use crate::Outcome;
use crate::cli::CacheKeyArgs;
use crate::output::Console;

pub(super) fn run(args: &CacheKeyArgs, console: &mut Console) -> Result<Outcome> {
    let files = Tree::at(Path::new(".")).map_err(|why| anyhow!(why))?;
    let keys = cache_keys(&files, &spec(args)?).map_err(|why| anyhow!(why))?;
    if args.json {
        let Keys { key, restore_keys } = keys;
        print_json(console, &json!({"key": key, "restore_keys": restore_keys}))?;
    } else {
        console.print_raw(&format!("{}\n", keys.key))?;
    }
    Ok(Outcome::Clean)
}

#[expect(clippy::disallowed_methods, reason = "a key depends on variables that it names")]
fn spec(args: &CacheKeyArgs) -> Result<KeySpec> {
    let mut env = Vec::new();
    for name in &args.env {
        ensure!(
            !name.is_empty() && !name.contains(['=', '\0']),
            "`{name}` is no name of a variable"
        );
        let value = std::env::var_os(name).unwrap_or_default();
        let value = value.into_string().map_err(|_| anyhow!("the value of `{name}` is no text"))?;
        env.push((name.clone(), value));
    }
    Ok(KeySpec {
        prefix: args.prefix.clone(),
        os: args.os.clone().unwrap_or_else(|| "Linux".to_owned()),
        arch: args.arch.clone().unwrap_or_else(|| kiln_runner::job::arch().to_owned()),
        files: args.files.clone(),
        env,
    })
}
