//! Talks to a Kiln server: finds it, asks, and says in words what went wrong.

pub(crate) mod call;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod file;
pub(crate) mod here;
pub(crate) mod log;
pub(crate) mod settings;
mod sse;
pub(crate) mod target;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kiln_proto::api::{Job, RunDetail};
use reqwest::{Method, Url};

use crate::cli::ServerArgs;
use call::Call;
use settings::{Asked, Environment, Settings};
use target::Target;

/// How long it may take to reach the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that can be asked.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) settings: Settings,
    http: reqwest::Client,
}

/// What was typed about the server.
fn asked(args: &ServerArgs) -> Asked<'_> {
    Asked {
        server: args.server.as_deref(),
        token: args.token.as_deref(),
        context: args.context.as_deref(),
    }
}

impl Client {
    /// The server that is meant.
    pub(crate) fn open(args: &ServerArgs) -> Result<Self> {
        Self::of(Settings::find(asked(args), &Environment::read())?)
    }

    /// The server that is meant, or the one of the address that was pasted.
    pub(crate) fn open_for(args: &ServerArgs, target: &Target) -> Result<Self> {
        Self::open_at(args, target.url.as_ref())
    }

    /// The server that is meant, or the one that this page belongs to.
    pub(crate) fn open_at(args: &ServerArgs, page: Option<&Url>) -> Result<Self> {
        let environment = Environment::read();
        let settings = Settings::find(asked(args), &environment)?;
        let Some(page) = page.filter(|page| !settings::is_below(page, &settings.server)) else {
            return Self::of(settings);
        };
        let other = settings::server_of(page, &environment)?;
        if args.server.is_some() || args.context.is_some() {
            let server = settings::shown(&settings.server);
            let option = if args.server.is_some() { "--server" } else { "--context" };
            bail!("the address is of {other}, but `{option}` names {server}; leave out one of them")
        }
        let asked = Asked { server: Some(&other), ..asked(args) };
        // The token of the environment is for the server that is usually meant.
        Self::of(Settings::find(asked, &Environment { token: None, ..environment })?)
    }

    pub(crate) fn of(settings: Settings) -> Result<Self> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("kiln/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        if let Some(proxy) = &settings.proxy {
            let proxy = reqwest::Proxy::all(proxy)
                .with_context(|| format!("`proxy = \"{proxy}\"` of client.toml is no address"))?;
            builder = builder.proxy(proxy);
        } else if settings.is_local() {
            // A proxy would look for the server on its own machine.
            builder = builder.no_proxy();
        }
        if let Some(path) = &settings.ca {
            let shown = path.display();
            let pem = std::fs::read(path)
                .with_context(|| format!("cannot read the certificates in `{shown}` (KILN_CA)"))?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem).with_context(|| {
                format!("`{shown}` (KILN_CA) holds no certificates in PEM form")
            })?;
            builder = builder.tls_certs_merge(certificates);
        }
        let http = builder.build().context("cannot prepare requests")?;
        Ok(Self { settings, http })
    }

    /// Where people find the server.
    pub(crate) fn server(&self) -> String {
        settings::shown(&self.settings.server)
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.settings.server.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    pub(crate) fn call(&self, method: Method, path: &[&str]) -> Call<'_> {
        Call::new(self, method, self.url(&[&["api"], path].concat()))
    }

    /// A question in GitHub's own shapes: they have what ours leave out.
    pub(crate) fn github(&self, path: &[&str]) -> Call<'_> {
        self.github_call(Method::GET, path)
    }

    pub(crate) fn github_call(&self, method: Method, path: &[&str]) -> Call<'_> {
        Call::new(self, method, self.url(path))
    }

    /// Asks an address that says itself what it is good for, without showing a token.
    pub(crate) fn plain(&self, url: &str) -> Result<reqwest::RequestBuilder> {
        let url = Url::parse(url).context("the server named an address that is none")?;
        Ok(self.http.get(url))
    }

    pub(crate) fn get(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::POST, path)
    }

    pub(crate) async fn run(&self, run: &str, attempt: Option<u32>) -> Result<RunDetail> {
        let attempt = attempt.map(|attempt| attempt.to_string());
        self.get(&["runs", run]).query_if("attempt", attempt).json().await
    }

    pub(crate) async fn job(&self, job: &str) -> Result<Job> {
        self.get(&["jobs", job]).json().await
    }
}
