//! How a page says that it cannot be shown.

use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use kiln_store::StoreError;
use maud::html;

use super::layout::{self, Section};
use super::visitor::Visitor;
use crate::app::Shared;
use crate::http::error::Failure;
use crate::http::middleware::no_such_address;

/// A failure that people read.
#[derive(Debug)]
pub(super) struct Wrong(Failure);

/// What handlers of pages return.
pub(super) type Shown<T> = Result<T, Wrong>;

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl From<StoreError> for Wrong {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

/// What a page said that could not be shown, so that it can be said to somebody.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    status: StatusCode,
    detail: String,
}

impl Refused {
    /// The same page for whoever is signed in.
    pub(super) fn page(&self, visitor: Option<&Visitor>) -> Html<String> {
        let Self { status, detail } = self;
        let status = *status;
        let (title, advice) = match status {
            StatusCode::NOT_FOUND => (
                "There is nothing here",
                "It may have been removed, or it belongs to somebody who has not let you in.",
            ),
            StatusCode::FORBIDDEN => ("You may not do this", "Ask whoever administers this Kiln."),
            StatusCode::CONFLICT => ("That does not go now", "Look at it again; it has changed."),
            _ if status.is_server_error() => {
                ("Something went wrong here", "It is not your fault. Try again in a moment.")
            }
            _ => ("That was not understood", "Go back and change what was sent."),
        };
        let body = html! {
            section.lonely {
                p.big { (status.as_u16()) }
                h1 { (title) }
                p { (sentence(detail)) }
                p.quiet { (advice) }
                p { a.button href="/" { "To the dashboard" } }
            }
        };
        Html(layout::bare(title, Section::None, visitor, &body).into_string())
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let refused = Refused { status: self.0.status(), detail: self.0.detail().to_owned() };
        let mut response = (refused.status, refused.page(None)).into_response();
        response.extensions_mut().insert(refused);
        response
    }
}

/// A page that says no looks like the others to whoever is signed in.
pub(super) async fn for_visitor(app: &Shared, parts: &mut Parts, response: Response) -> Response {
    let Some(refused) = response.extensions().get::<Refused>().cloned() else { return response };
    let Ok(visitor) = Visitor::from_request_parts(parts, app).await else { return response };
    let (head, _) = response.into_parts();
    let page = refused.page(Some(&visitor)).into_response();
    let (_, body) = page.into_parts();
    Response::from_parts(head, body)
}

/// A message with a capital letter and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let rest = letters.as_str();
    let end = if rest.ends_with(['.', '!', '?', '…']) || text.is_empty() { "" } else { "." };
    format!("{first}{rest}{end}")
}

/// A browser gets a page, a program what programs read.
pub(super) async fn no_such_page(State(app): State<Shared>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let (uri, headers) = (parts.uri.clone(), parts.headers.clone());
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let is_browser = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    if is_browser && !uri.path().starts_with("/api/") {
        let response = Wrong(Failure::not_found("page")).into_response();
        let mut response = for_visitor(&app, &mut parts, response).await;
        let policy = header::HeaderValue::from_static(layout::POLICY);
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        return response;
    }
    no_such_address(uri).await.into_response()
}
