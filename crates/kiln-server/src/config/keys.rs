//! The one table of settings, from which the reference is written.

use std::fmt::Write as _;

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// As the file has it; what comes before the dot is the table.
    pub name: &'static str,
    /// What its value looks like.
    pub kind: &'static str,
    pub default: Option<&'static str>,
    /// What it is when it is not set and has no default of its own.
    pub otherwise: &'static str,
    /// What it is for.
    pub help: &'static str,
}

impl Key {
    /// The variable of the environment: `KILN_`, and the name in capitals with `_` for dots.
    pub fn variable(&self) -> String {
        format!("KILN_{}", self.name.replace('.', "_").to_uppercase())
    }
}

const fn key(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    help: &'static str,
) -> Key {
    Key { name, kind, default: Some(default), otherwise: "", help }
}

const fn open(
    name: &'static str,
    kind: &'static str,
    otherwise: &'static str,
    help: &'static str,
) -> Key {
    Key { name, kind, default: None, otherwise, help }
}

/// All settings.
pub const KEYS: &[Key] = &[
    key("listen", "address", "127.0.0.1:8420", "Where the server listens."),
    open(
        "public_url",
        "URL",
        "`http://` (with `tls_cert`: `https://`) and `listen`",
        "Where people and runners reach the server, if that differs: behind a proxy, for example.",
    ),
    open(
        "data",
        "folder",
        "`$XDG_DATA_HOME/kiln`, else `~/.local/share/kiln`, else `/var/lib/kiln`",
        "Logs, mirrors of repositories, keys, and the embedded database.",
    ),
    open("database", "database", "`kiln.db` in `data`", "`postgres://…`, `sqlite:PATH` or a path."),
    key("database_connections", "number", "16", "Connections to PostgreSQL, at most."),
    open(
        "keys_file",
        "file",
        "`keys` in `data`",
        "The keys with which secrets are sealed, made at the first start. Servers on one database need the same.",
    ),
    open(
        "logs_folder",
        "folder",
        "`logs` in `data`",
        "Logs of jobs. Servers on one database need the same folder, on storage that they share.",
    ),
    key(
        "authentication",
        "true or false",
        "true",
        "Whether requests must say who makes them. Without, the server only listens on loopback.",
    ),
    key(
        "allow_shared_host",
        "true or false",
        "false",
        "Whether runners that serve all organizations may run steps without a container. `kiln up` sets it for its own runner.",
    ),
    open(
        "tls_cert",
        "file",
        "none",
        "The certificate for HTTPS in PEM, with those that lead to its authority. Read again when it changes.",
    ),
    open("tls_key", "file", "none", "The key of `tls_cert` in PEM, without a password."),
    key(
        "trusted_proxies",
        "list of networks",
        "",
        "Proxies whose word about clients counts (`proxy_headers`), such as `10.0.0.0/8`.",
    ),
    key(
        "proxy_headers",
        "`x-forwarded` or `forwarded`",
        "x-forwarded",
        "Where trusted proxies say who asks: in `X-Forwarded-For` and `X-Forwarded-Proto`, or in `Forwarded` (RFC 7239).",
    ),
    open(
        "proxy",
        "URL",
        "none",
        "The proxy for requests to others: for git, for S3, and for the jobs of `kiln up`, which can read it.",
    ),
    key("no_proxy", "list of hosts", "", "Hosts that are reached without the proxy."),
    open(
        "ca_file",
        "file",
        "none",
        "Certificates in PEM for git and S3, and for the runner and the command line beside a server with `tls_cert`. The jobs of `kiln up` find them in `NODE_EXTRA_CA_CERTS`.",
    ),
    key(
        "scheduling",
        "`fair` or `score`",
        "fair",
        "Who gets the next runner: shares of organizations and repositories, or one score for each job.",
    ),
    key(
        "shutdown_grace",
        "duration",
        "10s",
        "How long requests may take after the server was told to stop.",
    ),
    key(
        "log",
        "filter",
        "info",
        "What the server logs: `error`, `warn`, `info`, `debug`, `trace`, also for single parts, such as `info,kiln_server=debug`.",
    ),
    key("log_format", "`text` or `json`", "text", "How it logs."),
    key("limits.job", "duration", "4h", "How long a job may take that sets no `timeout-minutes`."),
    key("limits.silence", "duration", "30m", "How long a job may print nothing."),
    key(
        "limits.clean_up",
        "duration",
        "5m",
        "How long steps have that run although their job was cancelled, or is over its time. Then they end, too.",
    ),
    key(
        "limits.log",
        "size",
        "64MB",
        "How long the log of a job may be. The job goes on, its log is cut.",
    ),
    key(
        "limits.unsupported",
        "duration",
        "30m",
        "After how long jobs fail that no runner could ever take.",
    ),
    key("limits.upload", "size", "16GiB", "How many bytes one upload may have."),
    key(
        "limits.open_uploads",
        "size",
        "64GiB",
        "How many bytes one job may have on their way that it has not completed.",
    ),
    key(
        "limits.caches",
        "size",
        "10GB",
        "How many bytes the caches of one repository may have; the least recently used go. Runs of code from elsewhere have a quarter of that for themselves.",
    ),
    key("limits.connections", "number", "16384", "Connections of clients and runners, at most."),
    key("limits.requests", "number", "0", "Requests of one address in a minute; 0 is any number."),
    key("limits.polls", "number", "1200", "Polls and heartbeats of one runner in a minute."),
    key(
        "limits.uploads",
        "number",
        "12000",
        "Pieces of logs, events and results of one runner in a minute.",
    ),
    key(
        "limits.failed_logins",
        "number",
        "120",
        "Requests of one address in a minute that fail to say who makes them; 0 is any number.",
    ),
    open(
        "storage.folder",
        "folder",
        "`bytes` in `data`",
        "Where artifacts, caches and other bytes lie. Servers on one database need the same, or S3.",
    ),
    open("storage.s3_bucket", "name", "none", "A bucket of S3, instead of a folder."),
    key("storage.s3_region", "name", "us-east-1", "The region of the bucket."),
    open(
        "storage.s3_endpoint",
        "URL",
        "that of AWS",
        "Another store that speaks like S3. Runners must reach it, too.",
    ),
    open("storage.s3_prefix", "path", "none", "A folder in the bucket, such as `ci/kiln`."),
    open("storage.s3_key_id", "text", "that of the machine", "The id of the key for the bucket."),
    open("storage.s3_secret", "text", "that of the machine", "The key for the bucket."),
    key("keep.runs", "duration", "400d", "How long runs are kept after they ended."),
    key(
        "keep.logs",
        "duration",
        "90d",
        "How long the logs of a run are kept after it ended; they go with the run at the latest.",
    ),
    key(
        "keep.artifacts",
        "duration",
        "90d",
        "How long artifacts are kept, at most, unless somebody keeps them.",
    ),
    open(
        "keep.pull_requests",
        "duration",
        "`keep.artifacts`",
        "How long what runs of pull requests leave is kept: artifacts at most, and manifests that say nothing.",
    ),
    open(
        "keep.default_branch",
        "duration",
        "`keep.artifacts`",
        "The same of runs of the default branch that nobody scheduled.",
    ),
    open("keep.tags", "duration", "`keep.artifacts`", "The same of runs of tags and releases."),
    open("keep.schedules", "duration", "`keep.artifacts`", "The same of scheduled runs."),
    key("keep.caches", "duration", "7d", "How long caches are kept that nobody uses."),
    key(
        "keep.results",
        "duration",
        "30d",
        "How long the result of a job may be used again (`cache-result`).",
    ),
    key("keep.events", "duration", "90d", "How long events are kept."),
    key("keep.audit", "duration", "400d", "How long the audit log is kept."),
    key("keep.webhook_deliveries", "duration", "30d", "How long deliveries of webhooks are kept."),
    key(
        "keep.trigger_keys",
        "duration",
        "30d",
        "How long keys of triggers are kept. An `Idempotency-Key` counts for 24 h, or for this if it is less.",
    ),
    key("keep.parked_tasks", "duration", "90d", "How long tasks are kept that failed for good."),
    key(
        "keep.unused_bytes",
        "duration",
        "24h",
        "How long bytes are kept that nothing refers to, so that uploads in flight are safe.",
    ),
    key(
        "keep.unused",
        "duration",
        "30d",
        "How long queues, keys and unregistered runners are kept that nobody uses.",
    ),
    key(
        "keep.silent_runners",
        "duration",
        "7d",
        "After how long a runner that is not heard of is forgotten.",
    ),
];

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// `docs/configuration.md`: generated, so that it cannot be wrong.
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str(
        "\n| setting | variable | value | default | what it is for |\n|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let default = match key.default {
            Some("") => "none".to_owned(),
            Some(default) => format!("`{default}`"),
            None => key.otherwise.to_owned(),
        };
        let (name, variable) = (key.name, key.variable());
        let _ =
            writeln!(page, "| `{name}` | `{variable}` | {} | {default} | {} |", key.kind, key.help);
    }
    page.push_str(VALUES);
    page
}

const INTRODUCTION: &str = "\
# Configuration

Everything has a default: `kiln up` and `kiln server` need no configuration. What is set comes from, the
strongest first:

1. flags: `--listen`, `--data`, `--database`, `--public-url`, `--tls-cert`, `--tls-key`, and `--set NAME=VALUE` for every setting;
2. the environment: `KILN_` and the name in capitals, with `_` for dots (`KILN_LIMITS_LOG=10MB`);
3. a TOML file: `--config FILE`, else the one that `KILN_CONFIG` names, else `/etc/kiln/kiln.toml`;
4. the default.

`kiln config check` says all that is wrong at once, with the line; `kiln config show` says what each setting
is and where it came from. A server that finds something wrong does not start.

```toml
# /etc/kiln/kiln.toml
listen = \"0.0.0.0:8420\"
public_url = \"https://ci.example.org\"
database = \"postgres://kiln@db.example.org/kiln\"
trusted_proxies = [\"10.0.0.0/8\"]

[limits]
job = \"2h\"

[keep]
runs = \"90d\"
```
";

const VALUES: &str = "
- A duration is a number with `ms`, `s`, `m`, `h` or `d`: `90s`, `4h`. A number alone is in seconds.
- A size is a number with `B`, `kB`, `MB`, `GB` or `KiB`, `MiB`, `GiB`: `64MB`. A number alone is in bytes.
- Lists are arrays in the file, and separated by commas elsewhere.
";
