//! `kiln objects` and `kiln tags`.

use anyhow::Result;
use kiln_core::time::Timestamp;
use kiln_proto::object::{ChangeTags, NewObject, Object, Tag};
use reqwest::Method;

use super::{print_json, print_list};
use crate::Outcome;
use crate::cli::{ObjectsArgs, ObjectsCommand, TagsArgs};
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::text::size;
use crate::output::time::{self, ago};

pub(super) async fn run(args: &ObjectsArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        ObjectsCommand::Ls { owner, kind, tag, limit, server } => {
            let tags = (!tag.is_empty()).then(|| tag.join(","));
            let client = Client::open(server)?;
            let call = client.get(&["objects"]).query("owner", owner);
            let call = call.query_if("type", kind.as_ref()).query_if("tags", tags);
            let found: Vec<Object> = call.list(*limit).await?;
            let table = |found: &[Object]| table(found, time::now()).text();
            print_list(console, server.json, &found, table, "there are no such objects")
        }
        ObjectsCommand::Add { owner, kind, hash, provider_id, tag, expires, manifest, server } => {
            let new = NewObject {
                owner: owner.clone(),
                kind: kind.clone(),
                hash: hash.clone(),
                provider_object_id: provider_id.clone(),
                tags: tag.clone(),
                expires_at: expires.clone(),
                manifest: manifest.clone(),
            };
            let made = Client::open(server)?.post(&["objects"]).body(&new).json().await?;
            show(&made, server.json, console)
        }
        ObjectsCommand::Show { object, server } => {
            let found = Client::open(server)?.get(&["objects", object]).json().await?;
            show(&found, server.json, console)
        }
        ObjectsCommand::Tag { object, add, remove, moves, server } => {
            let change = ChangeTags { add: add.clone(), remove: remove.clone(), moves: *moves };
            let client = Client::open(server)?;
            let call = client.call(Method::PUT, &["objects", object, "tags"]).body(&change);
            show(&call.json().await?, server.json, console)
        }
        ObjectsCommand::Rm { object, server } => {
            let client = Client::open(server)?;
            client.call(Method::DELETE, &["objects", object]).done().await?;
            console.note_line(&format!("removed the object {object}"));
            Ok(Outcome::Clean)
        }
    }
}

pub(super) async fn tags(args: &TagsArgs, console: &mut Console) -> Result<Outcome> {
    let client = Client::open(&args.server)?;
    let call = client.get(&["tags"]).query("owner", &args.owner);
    let found: Vec<Tag> = call.query_if("prefix", args.prefix.as_ref()).list(args.limit).await?;
    let table = |found: &[Tag]| {
        let mut table = Table::new(&[cut("TAG", 20), whole("OBJECTS")]);
        for one in found {
            table.row([Cell::from(&one.tag), Cell::from(one.objects.to_string())]);
        }
        table.text()
    };
    print_list(console, args.server.json, &found, table, "there are no such tags")
}

fn show(object: &Object, json: bool, console: &mut Console) -> Result<Outcome> {
    if json {
        print_json(console, object)?;
    } else {
        console.print(&table(std::slice::from_ref(object), time::now()).text())?;
    }
    Ok(Outcome::Clean)
}

fn table(objects: &[Object], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        whole("OBJECT"),
        whole("TYPE"),
        cut("TAGS", 20),
        whole("SIZE"),
        whole("AGE"),
        whole("EXPIRES"),
    ]);
    for one in objects {
        table.row([
            Cell::from(&one.slug),
            Cell::from(&one.kind),
            Cell::from(one.tags.join(" ")),
            Cell::from(one.size.map_or_else(|| "-".to_owned(), size)),
            Cell::from(ago(&one.created_at, now)),
            Cell::from(one.expires_at.as_deref().unwrap_or("-")),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_shown_with_their_tags() {
        let object = Object {
            id: 9,
            slug: "x-9".to_owned(),
            kind: "report".to_owned(),
            hash: None,
            size: Some(2048),
            provider_object_id: None,
            tags: vec!["nightly".to_owned(), "run:42".to_owned()],
            created_at: "2026-11-16T05:28:15Z".to_owned(),
            expires_at: None,
        };
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let text = anstream::adapter::strip_str(&table(&[object], now).text()).to_string();
        assert_eq!(
            text,
            "OBJECT  TYPE    TAGS            SIZE     AGE  EXPIRES\n\
             x-9     report  nightly run:42  2.0 KiB  3m   -\n"
        );
    }
}
