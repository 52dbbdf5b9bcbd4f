//! `kiln server`: a server, until it is told to stop.

pub(crate) mod host;
pub(crate) mod settings;
mod story;
pub(crate) mod systemd;

use anyhow::Result;

use crate::Outcome;
use crate::cli::ServeArgs;
use crate::output::Console;
use settings::Told;

pub(crate) use story::Story;

pub(crate) fn run(args: &ServeArgs, console: &mut Console) -> Result<Outcome> {
    if args.print_unit {
        console.print_raw(&systemd::unit())?;
        return Ok(Outcome::Clean);
    }
    let told = Told::checked(&args.settings)?;
    host::log(&told.config, &told.config.log)?;
    host::run(async {
        let (server, listener) = host::start(told.config).await?;
        host::on_signals(server.app().stopping.clone())?;
        Story::new(console, args.json).serving(&server, "kiln server")?;
        systemd::notify("READY=1");
        let stopping = server.app().stopping.clone();
        tokio::join!(server.serve(listener), async move {
            stopping.cancelled().await;
            systemd::notify("STOPPING=1");
        });
        Ok(Outcome::Clean)
    })
}
