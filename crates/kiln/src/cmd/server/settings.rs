//! What a server is told by flags, the environment and its file.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use kiln_server::config::{Config, Problem, Settings, USUAL_FILE};

use crate::cli::SettingArgs;

/// The settings, and what they come to.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) settings: Settings,
    pub(crate) config: Config,
    pub(crate) problems: Vec<Problem>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

impl Told {
    /// Gathers everything. Fails when the file cannot be read.
    pub(crate) fn of(args: &SettingArgs) -> Result<Self> {
        let file = file_of(args);
        let flags = flags(args)?;
        let flags: Vec<_> =
            flags.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
        let settings = Settings::gather(file.as_deref(), &variable, &flags)
            .map_err(|problem| anyhow!("{problem}"))?;
        let (config, problems) = Config::of(&settings, &usual_data());
        Ok(Self { settings, config, problems, file })
    }

    /// What a server may start with.
    pub(crate) fn checked(args: &SettingArgs) -> Result<Self> {
        let told = Self::of(args)?;
        if told.problems.is_empty() {
            return Ok(told);
        }
        let all: Vec<String> = told.problems.iter().map(ToString::to_string).collect();
        bail!("the settings are wrong:\n  {}", all.join("\n  "))
    }
}

fn file_of(args: &SettingArgs) -> Option<PathBuf> {
    let named = args.config.clone().or_else(|| variable("KILN_CONFIG").map(PathBuf::from));
    named.or_else(|| Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists()))
}

fn flags(args: &SettingArgs) -> Result<Vec<(String, String)>> {
    let path = |path: &PathBuf| path.display().to_string();
    let named = [
        ("listen", args.listen.clone()),
        ("data", args.data.as_ref().map(path)),
        ("database", args.database.clone()),
        ("public_url", args.public_url.clone()),
        ("tls_cert", args.tls_cert.as_ref().map(path)),
        ("tls_key", args.tls_key.as_ref().map(path)),
    ];
    let mut flags = Vec::new();
    for pair in &args.set {
        let Some((name, text)) = pair.split_once('=') else {
            bail!("`--set {pair}` sets nothing; expected `--set NAME=VALUE`");
        };
        flags.push((name.trim().to_owned(), text.trim().to_owned()));
    }
    flags.extend(named.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))));
    Ok(flags)
}

/// Where everything is kept unless somebody says otherwise.
pub(crate) fn usual_data() -> PathBuf {
    let absolute = |path: &PathBuf| path.is_absolute();
    let shared = variable("XDG_DATA_HOME").map(PathBuf::from).filter(absolute);
    let home = || Some(std::env::home_dir().filter(absolute)?.join(".local/share"));
    match shared.or_else(home) {
        Some(folder) => folder.join("kiln"),
        None => Path::new("/var/lib/kiln").to_owned(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment may hold settings")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
