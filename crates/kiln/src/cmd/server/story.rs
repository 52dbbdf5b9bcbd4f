//! What a server that starts says to whoever started it.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_server::Server;
use serde_json::{Value, json};

use crate::output::Console;

/// Tells it: to people in few lines, to programs one object on each.
#[derive(Debug)]
pub(crate) struct Story<'c> {
    console: &'c mut Console,
    json: bool,
}

impl<'c> Story<'c> {
    pub(crate) fn new(console: &'c mut Console, json: bool) -> Self {
        Self { console, json }
    }

    /// The server answers.
    pub(crate) fn serving(&mut self, server: &Server, name: &str) -> Result<()> {
        let (app, welcome) = (server.app(), server.welcome());
        let config = &app.config;
        let link = welcome.link(config);
        self.tell(
            &json!({
                "event": "serving",
                "url": config.public_url,
                "listen": config.listen.to_string(),
                "data": config.data,
                "database": config.database.to_string(),
                "client_file": welcome.client_file,
                "first_start": welcome.is_first,
                "welcome": link,
            }),
            || {
                let version = env!("CARGO_PKG_VERSION");
                let mut text = format!("{name} {version} serves {}\n", config.public_url);
                if let Some(link) = &link {
                    let _ = writeln!(text, "  first visit  {link}");
                    text += "               (works once, within a day; you will be `admin`)\n";
                }
                let _ = writeln!(text, "  data         {}", config.data.display());
                if !config.authentication {
                    text +=
                        "  everybody on this machine may do everything: authentication is off\n";
                }
                text
            },
        )
    }

    /// Something happened, in both forms.
    pub(crate) fn tell(&mut self, value: &Value, text: impl FnOnce() -> String) -> Result<()> {
        if self.json {
            self.console.print_raw(&format!("{value}\n"))
        } else {
            self.console.print_raw(&text())
        }
    }
}
