//! The API, described for machines: OpenAPI 3.1, made from the list of routes.

use serde_json::Value;
use utoipa::openapi::{
    ComponentsBuilder, HttpMethod, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, PathsBuilder,
    Required, ResponseBuilder, ServerBuilder,
    path::{OperationBuilder, ParameterBuilder, ParameterIn},
    schema::{ObjectBuilder, Type},
    security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};

use crate::{
    reply::Reply,
    routes::{ROUTES, Route, placeholder},
    server::Api,
    visitor::Needs,
};

/// The name of the one way to log in.
const BASIC: &str = "basic";

/// Paths whose lists come page by page when asked for.
const PAGED: [&str; 12] = [
    "channels",
    "connections",
    "connections/username/{user}",
    "exchanges",
    "exchanges/{vhost}",
    "queues",
    "queues/detailed",
    "queues/{vhost}",
    "users",
    "users/without-permissions",
    "users/{user}/queues",
    "vhosts",
];

pub(crate) fn describe(api: &Api) -> Reply {
    let described = description(&api.settings.path_prefix);
    // The types are made to be written as JSON.
    serde_json::to_value(described).map_or(Reply::Json(Value::Null), Reply::Json)
}

fn description(prefix: &str) -> OpenApi {
    let info = InfoBuilder::new()
        .title("Leveret")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("RabbitMQ's HTTP API, as Leveret serves it."));
    let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Basic).build());
    let mut paths = PathsBuilder::new();
    for route in ROUTES {
        for (method, needs) in route.methods {
            if let Some(kind) = kind_of(method) {
                let path = format!("/{}", route.path);
                paths = paths.path(path, PathItem::new(kind, operation(route, method, *needs)));
            }
        }
    }
    OpenApiBuilder::new()
        .info(info.build())
        .servers(Some([ServerBuilder::new()
            .url(format!("{}/api", prefix.trim_end_matches('/')))
            .build()]))
        .components(Some(
            ComponentsBuilder::new()
                .security_scheme(BASIC, scheme)
                .build(),
        ))
        .paths(paths.build())
        .build()
}

fn kind_of(method: &str) -> Option<HttpMethod> {
    match method {
        "GET" => Some(HttpMethod::Get),
        "PUT" => Some(HttpMethod::Put),
        "POST" => Some(HttpMethod::Post),
        "DELETE" => Some(HttpMethod::Delete),
        _ => None,
    }
}

fn operation(route: &Route, method: &str, needs: Needs) -> utoipa::openapi::path::Operation {
    let tag = route.path.split('/').next().unwrap_or_default();
    let words = route.path.split('/');
    let named: Vec<String> = words.map(|word| word.replace(['{', '}'], "")).collect();
    let mut operation = OperationBuilder::new()
        .tag(tag)
        .operation_id(Some(format!(
            "{}_{}",
            method.to_lowercase(),
            named.join("_")
        )))
        .summary(Some(route.about))
        .description(Some(needed(needs)));
    for name in route.path.split('/').filter_map(placeholder) {
        operation = operation.parameter(text(name, ParameterIn::Path, Type::String));
    }
    if method == "GET" && PAGED.contains(&route.path) {
        for (name, kind) in [
            ("page", Type::Integer),
            ("page_size", Type::Integer),
            ("name", Type::String),
            ("use_regex", Type::Boolean),
            ("sort", Type::String),
            ("sort_reverse", Type::Boolean),
            ("columns", Type::String),
        ] {
            operation = operation.parameter(text(name, ParameterIn::Query, kind));
        }
    }
    for (status, text) in answers(method) {
        operation = operation.response(*status, ResponseBuilder::new().description(*text).build());
    }
    if needs != Needs::Nothing {
        let none: [&str; 0] = [];
        operation = operation
            .security(SecurityRequirement::new(BASIC, none))
            .response(
                "401",
                ResponseBuilder::new()
                    .description("Without credentials, or not for this user")
                    .build(),
            );
    }
    operation.build()
}

fn text(name: &str, place: ParameterIn, kind: Type) -> utoipa::openapi::path::Parameter {
    let required = match place {
        ParameterIn::Path => Required::True,
        _ => Required::False,
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .schema(Some(ObjectBuilder::new().schema_type(kind).build()))
        .build()
}

const fn answers(method: &str) -> &'static [(&'static str, &'static str)] {
    match method.as_bytes() {
        b"GET" => &[("200", "What is asked for"), ("404", "It is not there")],
        b"PUT" => &[
            ("201", "Made"),
            ("204", "Changed, or as it was"),
            ("400", "It cannot be"),
        ],
        b"DELETE" => &[("204", "Gone"), ("404", "It is not there")],
        _ => &[
            ("200", "What came of it"),
            ("201", "Made"),
            ("204", "Done"),
            ("400", "It cannot be"),
        ],
    }
}

const fn needed(needs: Needs) -> &'static str {
    match needs {
        Needs::Nothing => "For everybody.",
        Needs::Management => "For users with any of the tags of management.",
        Needs::Policymaker => "For policymakers and administrators.",
        Needs::Monitoring => "For users who monitor, and administrators.",
        Needs::Administrator => "For administrators.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_and_method_is_described() {
        let described = serde_json::to_value(description("/mq")).expect("JSON");
        assert_eq!(described["servers"][0]["url"], "/mq/api");
        let mut ids = std::collections::BTreeSet::new();
        for route in ROUTES {
            for (method, _) in route.methods {
                let path = format!("/{}", route.path);
                let operation = &described["paths"][path][method.to_lowercase()];
                assert_eq!(operation["summary"], route.about, "{method} {}", route.path);
                let names = route.path.matches('{').count();
                let in_path = operation["parameters"].as_array().map_or(0, |list| {
                    list.iter().filter(|known| known["in"] == "path").count()
                });
                assert_eq!(in_path, names, "{method} {}", route.path);
                let id = operation["operationId"].as_str().expect("an id").to_owned();
                assert!(ids.insert(id), "{method} {}", route.path);
            }
        }
    }
}
