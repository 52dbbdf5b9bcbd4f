//! Makes the document from the routes, for whoever publishes it.

use kiln_proto::problem::{MEDIA_TYPE, Problem};
use serde_json::{Map, Value};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa::{IntoResponses as _, PartialSchema as _, ToSchema as _};

use super::Problems;

/// What the routes say of themselves, and what is true for all of them.
pub fn document() -> Value {
    let all = crate::http::routes().merge(crate::web::described());
    let mut document = serde_json::to_value(all.describe(about())).expect("the document is JSON");
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let paths = paths.expect("the document has paths");
    // A rest of a path is marked for the router only.
    *paths =
        std::mem::take(paths).into_iter().map(|(path, it)| (path.replace("{*", "{"), it)).collect();
    for (path, item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            operation["operationId"] = name_of(method, path).into();
            // What everybody may ask is refused to nobody.
            let is_open = operation.get("security").is_some();
            if let Some(responses) = operation["responses"].as_object_mut() {
                complete(responses, is_open);
            }
        }
    }
    document
}

/// Names must differ, which those of our functions do not.
fn name_of(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(method.to_owned(), |name, word| name + "_" + word)
}

/// Problems have a media type of their own, and those that any request may meet need not be named by each.
fn complete(responses: &mut Map<String, Value>, is_open: bool) {
    for response in responses.values_mut() {
        let Some(content) = response.get_mut("content").and_then(Value::as_object_mut) else {
            continue;
        };
        let is_problem = |it: &Value| it["schema"]["$ref"] == "#/components/schemas/Problem";
        if content.get("application/json").is_some_and(is_problem)
            && let Some(problem) = content.remove("application/json")
        {
            content.insert(MEDIA_TYPE.to_owned(), problem);
        }
    }
    if !is_open {
        for (status, response) in Problems::responses() {
            let response = serde_json::to_value(response).expect("the document is JSON");
            responses.entry(status).or_insert(response);
        }
    }
}

/// Everything but the paths, which the routes bring themselves.
fn about() -> OpenApi {
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API token: `kpat_…`. The password of Basic may be one, too."))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme("token", SecurityScheme::Http(token))
        .schema(Problem::name(), Problem::schema())
        .build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Kiln")
                .version("1")
                .description(Some(
                    "Runs, jobs and runners of Kiln. Below `/repos` and `/api/v3` the shapes are GitHub's; the \
                     rest is Kiln's own. What is below `/repos` is below `/api/v3/repos`, too, and what is \
                     below `/api` is below `/api/v1`, too; each is described once. Whatever goes wrong is \
                     answered with a problem document (RFC 9457).",
                )),
        )
        .components(Some(components))
        .security(Some([SecurityRequirement::new("token", Vec::<String>::new())]))
        .build()
}
