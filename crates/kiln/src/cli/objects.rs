//! What can be typed about objects, their tags, and the manifests that own them.

use std::str::FromStr as _;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::ServerArgs;
use crate::limits;

/// Find objects by their tags, and tag them
///
/// An object is bytes, or a thing elsewhere, with a type and tags. It is named by its slug (`x-…`).
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln objects ls acme                              the newest first
  kiln objects ls acme --type report --tag run:42   those that have all of the tags
  kiln objects add acme report --hash 4f2a… --tag run:42
  kiln objects tag x-9 --add nightly --remove wip
  kiln objects tag x-9 --add release:latest --move  no other object has it any more
  kiln objects rm x-9

Exit codes:
  0  it is shown, or done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct ObjectsArgs {
    #[command(subcommand)]
    pub(crate) command: ObjectsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ObjectsCommand {
    /// List objects of an organization
    Ls {
        /// The organization
        #[arg(value_name = "OWNER")]
        owner: String,

        /// Only of this type
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,

        /// Only those that have this tag; may be given more than once
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,

        /// How many
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        limit: usize,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Make an object
    Add {
        /// The organization
        #[arg(value_name = "OWNER")]
        owner: String,

        /// What it is, in a word
        #[arg(value_name = "TYPE")]
        kind: String,

        /// SHA-256 of bytes that the server has
        #[arg(long, value_name = "HASH")]
        hash: Option<String>,

        /// What whoever keeps it calls it
        #[arg(long, value_name = "ID")]
        provider_id: Option<String>,

        /// A tag; may be given more than once
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,

        /// When it goes, in RFC 3339
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,

        /// The draft that owns it
        #[arg(long, value_name = "MANIFEST")]
        manifest: Option<String>,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show an object
    Show {
        /// The object (`x-…`)
        #[arg(value_name = "OBJECT")]
        object: String,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Give an object tags, or take them away
    Tag {
        /// The object (`x-…`)
        #[arg(value_name = "OBJECT")]
        object: String,

        /// A tag to give it; may be given more than once
        #[arg(long, value_name = "TAG", required_unless_present = "remove")]
        add: Vec<String>,

        /// A tag to take away; may be given more than once
        #[arg(long, value_name = "TAG")]
        remove: Vec<String>,

        /// Take what is added away from all other objects
        #[arg(long = "move", requires = "add")]
        moves: bool,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Remove an object that nothing needs and no manifest owns
    Rm {
        /// The object (`x-…`)
        #[arg(value_name = "OBJECT")]
        object: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// List the tags of objects
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln tags acme                     all, with how many objects have them
  kiln tags acme --prefix release:

Exit codes:
  0  they are shown
  2  wrong usage, or the server could not be asked or refused it")]
pub(crate) struct TagsArgs {
    /// The organization
    #[arg(value_name = "OWNER")]
    pub(crate) owner: String,

    /// Only those that begin like this
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,

    /// How many
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub(crate) limit: usize,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Manifests: what lives and goes away together
///
/// A draft takes artifacts, caches and objects. When it is sealed its time runs; until that is over, others may
/// claim single ones. A manifest is named by its slug (`m-…`).
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln manifests ls acme
  kiln manifests create acme --run r-9ix --keep 7d
  kiln manifests add m-4 artifact a-7            it owns this from now on
  kiln manifests drop m-4 artifact a-7           and not any more
  kiln manifests seal m-4
  kiln manifests claim m-5 artifact a-7 --from m-4
  kiln manifests show m-4                        what it owns, in the order of clean-up

Exit codes:
  0  it is shown, or done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct ManifestsArgs {
    #[command(subcommand)]
    pub(crate) command: ManifestsCommand,
}

/// What a manifest can own.
#[derive(Debug, Clone, Args)]
pub(crate) struct Resource {
    /// `artifact`, `cache` or `object`
    #[arg(value_name = "TYPE", value_parser = ["artifact", "cache", "object"])]
    pub(crate) kind: String,

    /// Its slug or number
    #[arg(value_name = "ID", value_parser = number)]
    pub(crate) id: i64,
}

/// The number behind a slug of any of the three, or the number itself.
fn number(text: &str) -> Result<i64, String> {
    use kiln_core::id::{ArtifactId, CacheId, ObjectId};
    let artifact = ArtifactId::from_str(text).map(|id| id.0);
    let other = || CacheId::from_str(text).map(|id| id.0);
    let object = || ObjectId::from_str(text).map(|id| id.0);
    let found = artifact.or_else(|_| other()).or_else(|_| object());
    found.map_err(|_| "expected a slug (`a-…`, `c-…`, `x-…`) or a number".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum ManifestsCommand {
    /// List the manifests of an organization
    Ls {
        /// The organization
        #[arg(value_name = "OWNER")]
        owner: String,

        /// How many
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        limit: usize,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Begin one
    Create {
        /// The organization
        #[arg(value_name = "OWNER")]
        owner: String,

        /// The run that it is for; it is sealed with the end of that
        #[arg(long, value_name = "RUN")]
        run: Option<String>,

        /// How long its resources stay after it was sealed [default: as its kind of run is kept, else a day]
        #[arg(long, value_name = "DURATION", value_parser = limits::duration, conflicts_with = "for_ever")]
        keep: Option<Duration>,

        /// They stay until somebody takes them
        #[arg(long)]
        for_ever: bool,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show one with what it owns
    Show {
        /// The manifest (`m-…`)
        #[arg(value_name = "MANIFEST")]
        manifest: String,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Give a draft something that no other manifest owns
    Add {
        /// The draft (`m-…`)
        #[arg(value_name = "MANIFEST")]
        manifest: String,

        #[command(flatten)]
        resource: Resource,

        /// From 0 to 100: what is higher is cleaned up first
        #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(i64).range(0..=100))]
        priority: Option<i64>,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Take something out of a draft
    Drop {
        /// The draft (`m-…`)
        #[arg(value_name = "MANIFEST")]
        manifest: String,

        #[command(flatten)]
        resource: Resource,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Seal a draft: nothing is added any more, and its time runs
    Seal {
        /// The draft (`m-…`)
        #[arg(value_name = "MANIFEST")]
        manifest: String,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Take something from a sealed manifest into a draft
    Claim {
        /// The draft that gets it (`m-…`)
        #[arg(value_name = "MANIFEST")]
        manifest: String,

        #[command(flatten)]
        resource: Resource,

        /// The manifest that has it
        #[arg(long, value_name = "MANIFEST")]
        from: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}
