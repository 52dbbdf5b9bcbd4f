//! Where jobs deployed to, on the page of their run.

use kiln_store::runs::Deployed;
use maud::{Markup, html};

use crate::service::jobs::Seen;

/// An entry for each environment, once, among the facts of a run.
pub(super) fn facts(jobs: &[Seen]) -> Markup {
    let mut shown: Vec<&Deployed> = Vec::new();
    for deployed in jobs.iter().filter_map(|job| job.deployed.as_ref()) {
        if !shown.contains(&deployed) {
            shown.push(deployed);
        }
    }
    html! {
        @for deployed in shown { div { dt { "Deployed to" } dd { (link(deployed)) } } }
    }
}

/// The address comes from a job: only one that a browser opens without harm becomes a link.
fn link(deployed: &Deployed) -> Markup {
    let url = deployed.url.as_deref().filter(|url| is_web(url));
    html! {
        @match url {
            Some(url) => a href=(url) rel="noopener noreferrer nofollow" { (deployed.environment) },
            None => (deployed.environment),
        }
    }
}

fn is_web(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| scheme == "https" || scheme == "http")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_web_become_links() {
        let check = |url: &str, expect: &str| {
            let deployed = Deployed { environment: "pr<od".to_owned(), url: Some(url.to_owned()) };
            assert_eq!(link(&deployed).into_string(), expect, "{url}");
        };
        check(
            "https://a.example/?q=\"1\"",
            "<a href=\"https://a.example/?q=&quot;1&quot;\" rel=\"noopener noreferrer nofollow\">pr&lt;od</a>",
        );
        check("javascript:alert(1)//://", "pr&lt;od");
        check("data:text/html,x", "pr&lt;od");
        check("", "pr&lt;od");
    }
}
