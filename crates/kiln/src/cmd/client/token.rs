//! `kiln token`: secrets that let programs in.

use anyhow::{Context as _, Result, bail};
use kiln_core::time::Timestamp;
use kiln_proto::api::{NewToken, Token};
use reqwest::Method;
use serde_json::json;

use super::{MOST, print_json, print_list};
use crate::Outcome;
use crate::cli::{ServerArgs, TokenArgs, TokenCommand};
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::time::{self, NOTHING, ago, until};

pub(super) async fn run(args: &TokenArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        TokenCommand::Create { name, scope, owner, expires, server } => {
            let scopes = scope.clone();
            let (name, owner) = (name.clone(), owner.clone());
            create(&NewToken { name, scopes, owner, expires_in: *expires }, server, console).await
        }
        TokenCommand::List { server } => {
            let tokens = list(&Client::open(server)?).await?;
            let table = |tokens: &[Token]| table(tokens, time::now()).text();
            print_list(console, server.json, &tokens, table, "there are no tokens")
        }
        TokenCommand::Revoke { which, server } => revoke(which, server, console).await,
    }
}

async fn list(client: &Client) -> Result<Vec<Token>> {
    client.get(&["tokens"]).list(MOST).await
}

/// The token alone goes to standard output, so that it can be piped.
async fn create(wish: &NewToken, server: &ServerArgs, console: &mut Console) -> Result<Outcome> {
    let client = Client::open(server)?;
    let made: Token = client.post(&["tokens"]).body(wish).json().await?;
    if server.json {
        print_json(console, &made)?;
        return Ok(Outcome::Clean);
    }
    let secret = made.token.as_deref().context("the server made a token but did not show it")?;
    let expires = match &made.expires_at {
        Some(at) => format!("expires {}", until(at, time::now())),
        None => "never expires".to_owned(),
    };
    console.note_line(&format!(
        "`{}` may {}, {expires}; it is shown this once",
        made.name,
        made.scopes.join(", ")
    ));
    console.print(&format!("{secret}\n"))?;
    Ok(Outcome::Clean)
}

async fn revoke(which: &str, server: &ServerArgs, console: &mut Console) -> Result<Outcome> {
    let client = Client::open(server)?;
    let id = find(&list(&client).await?, which)?;
    client.call(Method::DELETE, &["tokens", &id.to_string()]).done().await?;
    if server.json {
        print_json(console, &json!({"revoked": id}))?;
    } else {
        console.print(&format!("revoked {which}: it is worth nothing any more\n"))?;
    }
    Ok(Outcome::Clean)
}

/// By name, else by number.
fn find(tokens: &[Token], which: &str) -> Result<i64> {
    let named: Vec<&Token> = tokens.iter().filter(|token| token.name == which).collect();
    if let [one] = named[..] {
        return Ok(one.id);
    }
    if named.len() > 1 {
        let ids: Vec<String> = named.iter().map(|token| token.id.to_string()).collect();
        bail!("several tokens are called `{which}`: name one of the numbers {}", ids.join(", "));
    }
    let id = which.parse().ok().filter(|id| tokens.iter().any(|token| token.id == *id));
    id.with_context(|| format!("there is no token `{which}`; `kiln token list` shows them"))
}

fn table(tokens: &[Token], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        cut("NAME", 10),
        cut("SCOPES", 8),
        cut("OWNER", 6),
        whole("MADE"),
        whole("USED"),
        whole("EXPIRES"),
        whole("ID"),
    ]);
    for token in tokens {
        let expires = token.expires_at.as_deref();
        table.row([
            Cell::from(&token.name),
            Cell::from(token.scopes.join(", ")),
            Cell::from(token.owner.as_deref().unwrap_or(NOTHING)),
            Cell::from(ago(&token.created_at, now)),
            Cell::from(
                token.last_used_at.as_deref().map_or_else(|| "never".to_owned(), |at| ago(at, now)),
            ),
            Cell::from(expires.map_or_else(|| "never".to_owned(), |at| until(at, now))),
            Cell::from(token.id.to_string()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: i64, name: &str) -> Token {
        Token {
            id,
            name: name.to_owned(),
            token: None,
            scopes: vec!["read".to_owned(), "write".to_owned()],
            owner: None,
            created_at: "2026-11-16T05:28:15.000Z".to_owned(),
            expires_at: Some("2027-02-14T05:31:15.000Z".to_owned()),
            last_used_at: None,
        }
    }

    #[test]
    fn a_token_is_found_by_name_or_number_but_never_by_chance() {
        let tokens = [token(1, "laptop"), token(2, "bot"), token(3, "bot"), token(4, "1")];
        assert_eq!(find(&tokens, "laptop").unwrap(), 1);
        assert_eq!(find(&tokens, "1").unwrap(), 4, "a name counts first");
        assert_eq!(find(&tokens, "3").unwrap(), 3);
        assert!(find(&tokens, "bot").unwrap_err().to_string().contains("2, 3"));
        assert!(find(&tokens, "9").unwrap_err().to_string().contains("kiln token list"));
    }

    #[test]
    fn tokens_are_listed_without_their_secret() {
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let text = table(&[token(1, "laptop")], now).within(None);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            text.lines().last(),
            Some("laptop  read, write  -      3m    never  in 90d   1")
        );
    }
}
