//! How a run is shown: as asked for, else live on a terminal that can, else as lines.

use std::io::{self, IsTerminal as _};

use crate::cli::ProgressView;
use anyhow::{Result, bail};

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Json,
    Plain,
    Live,
}

/// What is known about where the output goes.
struct Place {
    terminal: bool,
    /// Whether the terminal can move its cursor.
    capable: bool,
    /// Another CI watches, and keeps what it sees.
    ci: bool,
}

impl Manner {
    #[expect(clippy::disallowed_methods, reason = "the environment says what the terminal can do")]
    pub(crate) fn choose(json: bool, wish: ProgressView) -> Result<Self> {
        let value = |name: &str| std::env::var(name).unwrap_or_default();
        let place = Place {
            terminal: io::stdout().is_terminal(),
            capable: !matches!(value("TERM").as_str(), "" | "dumb"),
            ci: !matches!(value("CI").as_str(), "" | "0" | "false"),
        };
        if json { Ok(Self::Json) } else { of(&place, wish) }
    }
}

fn of(place: &Place, wish: ProgressView) -> Result<Manner> {
    let live = match wish {
        ProgressView::Plain => false,
        ProgressView::Auto => place.terminal && place.capable && !place.ci,
        ProgressView::Live if !place.terminal => {
            bail!("`--progress live` needs a terminal, and standard output is none")
        }
        ProgressView::Live => true,
    };
    Ok(if live { Manner::Live } else { Manner::Plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProgressView::{Auto, Live, Plain};

    fn check(terminal: bool, capable: bool, ci: bool, wish: ProgressView, expect: Option<Manner>) {
        assert_eq!(of(&Place { terminal, capable, ci }, wish).ok(), expect);
    }

    #[test]
    fn live_is_for_terminals_that_people_watch() {
        check(true, true, false, Auto, Some(Manner::Live));
        check(true, true, false, Plain, Some(Manner::Plain));
        check(true, false, false, Auto, Some(Manner::Plain));
        check(true, true, true, Auto, Some(Manner::Plain));
        check(true, false, true, Live, Some(Manner::Live));
        check(false, true, false, Auto, Some(Manner::Plain));
        check(false, true, false, Live, None);
    }
}
