//! `kiln org`: who shares the runners, and how.

use anyhow::Result;
use kiln_proto::api::{ChangeOrganization, Organization};
use reqwest::Method;

use super::{MOST, print_json, print_list};
use crate::Outcome;
use crate::cli::{JobLimit, OrgArgs, OrgCommand};
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};

pub(super) async fn run(args: &OrgArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        OrgCommand::List { server } => {
            let orgs: Vec<Organization> = Client::open(server)?.get(&["orgs"]).list(MOST).await?;
            let nothing = "there are no organizations yet; `kiln repo add` and `kiln runners key --owner NAME` make one";
            print_list(console, server.json, &orgs, |orgs| table(orgs).text(), nothing)
        }
        OrgCommand::Set { name, change, server } => {
            let wish = ChangeOrganization {
                shares: change.shares,
                job_limit: match change.jobs {
                    Some(JobLimit::Some(limit)) => Some(limit),
                    Some(JobLimit::None) | None => None,
                },
                unlimited: change.jobs == Some(JobLimit::None),
            };
            let client = Client::open(server)?;
            let call = client.call(Method::PATCH, &["orgs", name]).body(&wish);
            let org: Organization = call.json().await?;
            if server.json {
                print_json(console, &org)?;
            } else {
                let jobs = limit(&org);
                console.print(&format!("{}: {jobs} at once, {} shares\n", org.name, org.shares))?;
            }
            Ok(Outcome::Clean)
        }
    }
}

fn limit(org: &Organization) -> String {
    match org.job_limit {
        None => "any number of jobs".to_owned(),
        Some(1) => "1 job".to_owned(),
        Some(limit) => format!("{limit} jobs"),
    }
}

fn table(orgs: &[Organization]) -> Table {
    let mut table = Table::new(&[cut("NAME", 10), whole("SHARES"), whole("AT ONCE")]);
    for org in orgs {
        table.row([
            Cell::from(&org.name),
            Cell::from(org.shares.to_string()),
            Cell::from(limit(org)),
        ]);
    }
    table
}
