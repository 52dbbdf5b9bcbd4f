//! What can be typed after `kiln db`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Look after the database: upgrade, check, back up, restore, move
///
/// A server keeps everything in one database: a SQLite file, or PostgreSQL.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln db status                                   which schema, how large, how many rows
  kiln db check                                    whether its rows agree with each other
  kiln db backup kiln-monday.backup                safe while Kiln runs
  kiln db restore kiln-monday.backup --database new.db
  kiln db move --to postgres://kiln@db.example/kiln"
)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    pub(crate) command: DbCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Show the database, its schema, size and rows
    ///
    /// Exit codes: 0 it can be used, perhaps after `kiln db migrate`; 1 this Kiln must not use it; 2
    /// it could not be looked at.
    Status {
        #[command(flatten)]
        database: DatabaseArg,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Bring the schema up to date, or make a new database
    ///
    /// A server does the same when it starts. A step that fails leaves nothing behind.
    Migrate {
        #[command(flatten)]
        database: DatabaseArg,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look whether the rows agree with each other; safe while Kiln runs
    ///
    /// Reads all runs, jobs, places in the queue, leases and concurrency groups, and lists where one
    /// contradicts another. Nothing is changed. Exit codes: 0 nothing was found; 1 something was; 2 it
    /// could not be looked at.
    Check {
        #[command(flatten)]
        database: DatabaseArg,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write everything into one file; safe while Kiln runs
    ///
    /// The backup is one moment of the database, always a SQLite file, whichever database it comes
    /// from. It appears under its name when it is whole and was checked.
    Backup {
        /// The file to write
        #[arg(value_name = "FILE")]
        file: PathBuf,

        #[command(flatten)]
        database: DatabaseArg,

        /// Replace the file if it exists
        #[arg(long)]
        force: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fill an empty database from a backup
    ///
    /// The database may be of another kind than the one that the backup comes from. Backups of older
    /// Kilns are upgraded on the way; the file itself does not change.
    Restore {
        /// A file that `kiln db backup` wrote
        #[arg(value_name = "FILE")]
        file: PathBuf,

        #[command(flatten)]
        database: DatabaseArg,
    },
    /// Copy everything into another, empty database
    ///
    /// Stop Kiln first, and start it with the new database afterwards. Every table is read back and
    /// compared. The old database stays as it is.
    Move {
        /// The empty database to fill: `postgres://…`, `sqlite:PATH` or a path
        #[arg(long, value_name = "DATABASE")]
        to: String,

        #[command(flatten)]
        database: DatabaseArg,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DatabaseArg {
    /// `postgres://…`, `sqlite:PATH` or a path; `KILN_DATABASE` by default, else `kiln/kiln.db` in
    /// `XDG_DATA_HOME` or `~/.local/share`
    #[arg(long, value_name = "DATABASE")]
    pub(crate) database: Option<String>,
}
