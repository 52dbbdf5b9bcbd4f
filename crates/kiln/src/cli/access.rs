//! What can be typed about tokens and who one is.

use clap::{Args, Subcommand};

use super::ServerArgs;
use crate::output::time::span;

/// Make, list and revoke tokens of the server
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln token create laptop --scope read --scope write
  kiln token create release-bot --owner me --scope write --expires 30d
  kiln token list
  kiln token revoke laptop

Exit codes:
  0  it is done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown this once
    Create {
        /// What it is for
        #[arg(value_name = "NAME")]
        name: String,

        /// What it may do: read, write, runners, admin; may be given more than once [default: read]
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,

        /// Only for this organization [default: all of yours]
        #[arg(long, value_name = "OWNER")]
        owner: Option<String>,

        /// When it expires, such as 12h or 30d; 0 for never [default: 90d]
        #[arg(long, value_name = "TIME", value_parser = span)]
        expires: Option<u64>,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the tokens, without their secrets
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Make a token worthless
    Revoke {
        /// Its name or number
        #[arg(value_name = "TOKEN")]
        which: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Remember a server and a token for it
///
/// Checks the token and writes both to `client.toml` in `~/.config/kiln`, for you alone. The token is
/// asked for, or read from standard input; a one-time link brings its own. With `--context` they get a name,
/// beside those of other servers.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln login https://ci.example.com
  kiln login https://ci.example.com < token.txt
  kiln login https://ci.example.com/welcome/kot_…   the link that the first start prints
  kiln login https://ci.work.example --context work

Exit codes:
  0  it is remembered
  2  wrong usage, or the server could not be asked or does not take the token")]
pub(crate) struct LoginArgs {
    /// The server, or a link that lets you in once
    #[arg(value_name = "URL|LINK")]
    pub(crate) url: String,

    /// What to call it, for `--context` and `kiln context` [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// The token; asked for when it is left out
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show which server is asked, and who it takes you for
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln whoami
  kiln whoami --server https://ci.example.com --json

Exit codes:
  0  the server knows you
  2  it does not, or could not be asked")]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Choose among the servers that `kiln login` remembers
///
/// Each has a name, which `--context` takes in every command that asks a server.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln login https://ci.work.example --context work
  kiln context list
  kiln context use work
  kiln runs --context default           this once
  KILN_CONTEXT=work kiln runs           in this shell

Exit codes:
  0  it is done
  2  wrong usage, or there is no such context"
)]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    pub(crate) command: ContextCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the servers that are remembered
    List {
        /// Print one JSON object on each line
        #[arg(long)]
        json: bool,
    },
    /// Ask this one from now on
    Use {
        #[arg(value_name = "NAME")]
        name: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give it another name
    Rename {
        #[arg(value_name = "OLD")]
        old: String,

        #[arg(value_name = "NEW")]
        new: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a server and its token
    Remove {
        #[arg(value_name = "NAME")]
        name: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
