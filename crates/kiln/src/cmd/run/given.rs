//! Inputs, variables and secrets, as they are given on the command line.

use anyhow::{Context as _, Result, anyhow, bail};

use crate::cli::RunArgs;
use crate::events::Event;
use crate::{inputs, read};

/// What was typed, else what the payload of a dispatch says.
pub(super) fn given_inputs(args: &RunArgs, event: &Event) -> Result<Vec<(String, String)>> {
    let mut given = pairs(&args.input)?;
    let typed = |name: &str| args.input.iter().any(|pair| pair.starts_with(&format!("{name}=")));
    given.extend(inputs::of_payload(event).into_iter().filter(|(name, _)| !typed(name)));
    Ok(given)
}

/// `name=value`, each.
pub(super) fn pairs(given: &[String]) -> Result<Vec<(String, String)>> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => bail!("`{text}` is not `name=value`"),
    };
    given.iter().map(pair).collect()
}

/// Secrets as given, from a file of `name=value` lines, or by name from the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "a secret without a value is read from the environment"
)]
pub(super) fn secrets(args: &RunArgs) -> Result<Vec<(String, String)>> {
    let mut secrets = Vec::new();
    if let Some(file) = &args.secret_file {
        let text =
            read::file(file).map_err(|error| anyhow!("`{}`: {}", file.display(), error.message))?;
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // What stands there may be half of a secret, so it is not repeated.
            let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                bail!("{}:{number}: expected `NAME=VALUE`", file.display());
            };
            secrets.push((name.to_owned(), value.to_owned()));
        }
    }
    for given in &args.secret {
        match given.split_once('=') {
            Some((name, value)) => secrets.push((name.to_owned(), value.to_owned())),
            None => {
                let value = std::env::var(given);
                secrets.push((
                    given.clone(),
                    value.with_context(|| {
                        format!("the secret `{given}` has no value and is not in the environment")
                    })?,
                ));
            }
        }
    }
    Ok(secrets)
}
