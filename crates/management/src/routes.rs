//! Every path with its methods and who may use it: the one list of what this API offers.

use axum::http::{Method, StatusCode};

use crate::{
    error::Refused,
    reply::Reply,
    request::Request,
    resource::{
        bindings, channels, connections, consumers, definitions, exchanges, health, limits,
        messages, node, overview, parameters, permissions, policies, queues, topic_permissions,
        users, vhosts,
    },
    server::Api,
    visitor::{
        Needs::{self, Administrator, Management, Monitoring, Nothing, Policymaker},
        Visitor,
    },
};

/// A path; `*` stands for a name.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    /// Methods with what they need; GET means HEAD too.
    pub(crate) methods: &'static [(&'static str, Needs)],
}

const fn route(path: &'static str, methods: &'static [(&'static str, Needs)]) -> Route {
    Route { path, methods }
}

const READ: &[(&str, Needs)] = &[("GET", Management)];
const ADMINISTRATE: &[(&str, Needs)] = &[
    ("GET", Administrator),
    ("PUT", Administrator),
    ("DELETE", Administrator),
];
const SET_POLICY: &[(&str, Needs)] = &[
    ("GET", Management),
    ("PUT", Policymaker),
    ("DELETE", Policymaker),
];
const SET_PARAMETER: &[(&str, Needs)] = &[
    ("GET", Policymaker),
    ("PUT", Policymaker),
    ("DELETE", Policymaker),
];
const SET_LIMIT: &[(&str, Needs)] = &[("PUT", Administrator), ("DELETE", Administrator)];
const USE: &[(&str, Needs)] = &[
    ("GET", Management),
    ("PUT", Management),
    ("DELETE", Management),
];
const GET_POST: &[(&str, Needs)] = &[("GET", Management), ("POST", Management)];
const GET_DELETE: &[(&str, Needs)] = &[("GET", Management), ("DELETE", Management)];
const POST: &[(&str, Needs)] = &[("POST", Management)];
const DELETE: &[(&str, Needs)] = &[("DELETE", Management)];
const ORDER: &[(&str, Needs)] = &[("POST", Administrator)];

pub(crate) const ROUTES: &[Route] = &[
    route("aliveness-test/*", READ),
    route("auth/hash_password/*", READ),
    route("bindings", READ),
    route("bindings/*", READ),
    route("bindings/*/e/*/e/*", GET_POST),
    route("bindings/*/e/*/e/*/*", GET_DELETE),
    route("bindings/*/e/*/q/*", GET_POST),
    route("bindings/*/e/*/q/*/*", GET_DELETE),
    route("channels", READ),
    route("channels/*", READ),
    route(
        "cluster-name",
        &[("GET", Management), ("PUT", Administrator)],
    ),
    route("connections", READ),
    route("connections/*", GET_DELETE),
    route("connections/*/channels", READ),
    route("connections/username/*", GET_DELETE),
    route("consumers", READ),
    route("consumers/*", READ),
    route(
        "definitions",
        &[("GET", Administrator), ("POST", Administrator)],
    ),
    route(
        "definitions/*",
        &[("GET", Administrator), ("POST", Administrator)],
    ),
    route("deprecated-features", READ),
    route("deprecated-features/used", READ),
    route("exchanges", READ),
    route("exchanges/*", READ),
    route("exchanges/*/*", USE),
    route("exchanges/*/*/bindings/destination", READ),
    route("exchanges/*/*/bindings/source", READ),
    route("exchanges/*/*/publish", POST),
    route("extensions", READ),
    route("feature-flags", READ),
    route("feature-flags/*/enable", &[("PUT", Administrator)]),
    route("federation-links", READ),
    route("federation-links/*", READ),
    route("global-parameters", SET_PARAMETER),
    route("global-parameters/*", SET_PARAMETER),
    route("health/checks/alarms", READ),
    route("health/checks/below-node-connection-limit", READ),
    route("health/checks/certificate-expiration/*/*", READ),
    route("health/checks/is-in-service", READ),
    route("health/checks/local-alarms", READ),
    route("health/checks/node-is-quorum-critical", READ),
    route("health/checks/port-listener/*", READ),
    route("health/checks/protocol-listener/*", READ),
    route("health/checks/ready-to-serve-clients", READ),
    route("health/checks/virtual-hosts", READ),
    route("healthchecks/node", READ),
    route("healthchecks/node/*", READ),
    route("login", &[("POST", Nothing)]),
    route("nodes", &[("GET", Monitoring)]),
    route("nodes/*", &[("GET", Monitoring)]),
    route("operator-policies", READ),
    route("operator-policies/*", READ),
    route(
        "operator-policies/*/*",
        &[
            ("GET", Management),
            ("PUT", Administrator),
            ("DELETE", Administrator),
        ],
    ),
    route("overview", READ),
    route("parameters", &[("GET", Policymaker)]),
    route("parameters/*", &[("GET", Policymaker)]),
    route("parameters/*/*", &[("GET", Policymaker)]),
    route("parameters/*/*/*", SET_PARAMETER),
    route("permissions", &[("GET", Administrator)]),
    route("permissions/*/*", ADMINISTRATE),
    route("policies", READ),
    route("policies/*", READ),
    route("policies/*/*", SET_POLICY),
    route("queues", READ),
    route("queues/*", READ),
    route("queues/*/*", USE),
    route("queues/*/*/bindings", READ),
    route("queues/*/*/contents", DELETE),
    route("queues/*/*/get", POST),
    route("queues/detailed", READ),
    route("rebalance/queues", &[("POST", Administrator)]),
    route("shovels", READ),
    route("shovels/*", READ),
    route("topic-permissions", &[("GET", Administrator)]),
    route(
        "topic-permissions/*/*",
        &[
            ("GET", Administrator),
            ("PUT", Administrator),
            ("DELETE", Administrator),
        ],
    ),
    route(
        "topic-permissions/*/*/*",
        &[("GET", Administrator), ("DELETE", Administrator)],
    ),
    route("user-limits", &[("GET", Administrator)]),
    route("user-limits/*", &[("GET", Administrator)]),
    route("user-limits/*/*", SET_LIMIT),
    route("users", &[("GET", Administrator)]),
    route("users/*", ADMINISTRATE),
    route("users/*/permissions", &[("GET", Administrator)]),
    route("users/*/queues", &[("GET", Administrator)]),
    route("users/*/topic-permissions", &[("GET", Administrator)]),
    route("users/bulk-delete", &[("POST", Administrator)]),
    route("users/without-permissions", &[("GET", Administrator)]),
    route("version", &[("GET", Nothing)]),
    route("vhost-limits", READ),
    route("vhost-limits/*", READ),
    route("vhost-limits/*/*", SET_LIMIT),
    route("vhosts", READ),
    route("vhosts/*", ADMINISTRATE),
    route("vhosts/*/channels", READ),
    route("vhosts/*/connections", READ),
    route(
        "vhosts/*/deletion/protection",
        &[("POST", Administrator), ("DELETE", Administrator)],
    ),
    route("vhosts/*/permissions", &[("GET", Administrator)]),
    route("vhosts/*/topic-permissions", &[("GET", Administrator)]),
    route("whoami", READ),
    route("x/node", &[("GET", Administrator)]),
    route(
        "x/node/alarms/*",
        &[("PUT", Administrator), ("DELETE", Administrator)],
    ),
    route("x/node/authenticate", ORDER),
    route("x/node/channels", &[("GET", Administrator)]),
    route("x/node/close-connections", ORDER),
    route("x/node/connections", &[("GET", Administrator)]),
    route("x/node/consumers", &[("GET", Administrator)]),
    route("x/node/disk-free-limit", &[("PUT", Administrator)]),
    route("x/node/memory-limit", &[("PUT", Administrator)]),
    route("x/node/queues", &[("GET", Administrator)]),
    route("x/node/reset", ORDER),
    route("x/node/start-app", ORDER),
    route("x/node/status", &[("GET", Administrator)]),
    route("x/node/stop", ORDER),
    route("x/node/stop-app", ORDER),
];

/// The route of a path; a word of the list beats a name.
pub(crate) fn find(path: &[String]) -> Option<&'static Route> {
    let stars = |route: &&Route| route.path.matches('*').count();
    let fits = |route: &&Route| {
        let mut words = route.path.split('/');
        let all = path
            .iter()
            .all(|segment| matches!(words.next(), Some(word) if word == "*" || word == segment));
        all && words.next().is_none()
    };
    ROUTES.iter().filter(fits).min_by_key(stars)
}

/// What a request needs, or that the path or method is none.
pub(crate) fn needs(request: &Request) -> Result<Needs, Refused> {
    let route = find(&request.path).ok_or_else(Refused::not_found)?;
    let method = match request.method.as_str() {
        "HEAD" => "GET",
        method => method,
    };
    let known = route.methods.iter().find(|(known, _)| *known == method);
    if let Some((_, needs)) = known {
        return Ok(*needs);
    }
    let mut allow: Vec<&str> = route.methods.iter().map(|(known, _)| *known).collect();
    if allow.contains(&"GET") {
        allow.insert(0, "HEAD");
    }
    allow.push("OPTIONS");
    let status = if request.method == Method::OPTIONS {
        StatusCode::OK
    } else {
        StatusCode::METHOD_NOT_ALLOWED
    };
    Err(Refused {
        allow: Some(allow.join(", ")),
        ..Refused::empty(status)
    })
}

/// Carries a request out. The visitor may use the route.
pub(crate) async fn carry_out(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
) -> Result<Reply, Refused> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["aliveness-test", vhost] => health::aliveness(api, visitor, vhost),
        ["auth", "hash_password", password] => Ok(users::hash(password)),
        ["bindings", rest @ ..] => bindings::answer(api, visitor, request, rest).await,
        ["channels", rest @ ..] => channels::answer(api, visitor, request, rest).await,
        ["cluster-name"] => parameters::cluster_name(api, request).await,
        ["connections", rest @ ..] => connections::answer(api, visitor, request, rest).await,
        ["consumers", rest @ ..] => consumers::answer(api, visitor, request, rest).await,
        ["definitions", rest @ ..] => definitions::answer(api, visitor, request, rest).await,
        ["deprecated-features", ..]
        | ["extensions"]
        | ["federation-links", ..]
        | ["shovels", ..] => Ok(Reply::Json(serde_json::json!([]))),
        ["exchanges", vhost, exchange, "publish"] => {
            messages::publish(api, visitor, request, vhost, exchange).await
        }
        ["exchanges", rest @ ..] => exchanges::answer(api, visitor, request, rest).await,
        ["feature-flags", _, "enable"] | ["rebalance", "queues"] => Ok(Reply::NoContent),
        ["feature-flags"] => Ok(node::feature_flags()),
        ["global-parameters", rest @ ..] => parameters::global(api, request, rest).await,
        ["health", "checks", rest @ ..] => health::check(api, rest),
        ["healthchecks", ..] => Ok(Reply::Json(serde_json::json!({"status": "ok"}))),
        ["login"] => overview::login(api, request),
        ["nodes", rest @ ..] => node::answer(api, request, rest),
        ["operator-policies", rest @ ..] => {
            policies::answer(api, visitor, request, policies::OPERATOR, rest).await
        }
        ["overview"] => overview::show(api, visitor, request),
        ["parameters", rest @ ..] => parameters::answer(api, visitor, request, rest).await,
        ["permissions", rest @ ..] => permissions::answer(api, request, rest).await,
        ["policies", rest @ ..] => {
            policies::answer(api, visitor, request, policies::USER, rest).await
        }
        ["queues", vhost, queue, "get"] => messages::get(api, visitor, request, vhost, queue).await,
        ["queues", rest @ ..] => queues::answer(api, visitor, request, rest).await,
        ["topic-permissions", rest @ ..] => topic_permissions::answer(api, request, rest).await,
        ["user-limits", rest @ ..] => limits::of_users(api, request, rest).await,
        ["users", user, "permissions"] => permissions::of_user(api, request, user),
        ["users", user, "queues"] => queues::of_user(api, request, user),
        ["users", user, "topic-permissions"] => topic_permissions::of_user(api, request, user),
        ["users", rest @ ..] => users::answer(api, request, rest).await,
        ["version"] => Ok(Reply::Json(node::VERSION.into())),
        ["vhost-limits", rest @ ..] => limits::of_vhosts(api, visitor, request, rest).await,
        ["vhosts", vhost, "permissions"] => permissions::of_vhost(api, request, vhost),
        ["vhosts", vhost, "topic-permissions"] => topic_permissions::of_vhost(api, request, vhost),
        ["vhosts", vhost, "connections"] => {
            connections::of_vhost(api, visitor, request, vhost).await
        }
        ["vhosts", vhost, "channels"] => channels::of_vhost(api, visitor, request, vhost).await,
        ["vhosts", rest @ ..] => vhosts::answer(api, visitor, request, rest).await,
        ["whoami"] => Ok(overview::whoami(visitor)),
        _ => Err(Refused::not_found()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn every_route_is_found_by_its_own_path_and_needs_something() {
        for route in ROUTES {
            let found = find(&path(route.path)).expect("it is in the list");
            assert_eq!(found.path, route.path);
            assert!(!route.methods.is_empty());
            let is_open = route.methods.iter().any(|(_, needs)| *needs == Nothing);
            let may_be_open = ["login", "version"].contains(&route.path);
            assert_eq!(is_open, may_be_open, "{}", route.path);
        }
    }

    #[test]
    fn a_word_beats_a_name() {
        let found = |text| find(&path(text)).map(|route| route.path);
        assert_eq!(found("users/bulk-delete"), Some("users/bulk-delete"));
        assert_eq!(found("users/alice"), Some("users/*"));
        assert_eq!(found("queues/v/q/nothing"), None);
    }

    #[test]
    fn what_changes_users_or_vhosts_is_for_administrators() {
        for word in [
            "users",
            "permissions",
            "topic-permissions",
            "vhosts",
            "user-limits",
            "vhost-limits",
            "x",
        ] {
            let of_word = ROUTES
                .iter()
                .filter(|route| route.path.split('/').next() == Some(word));
            for (method, needs) in of_word.flat_map(|route| route.methods) {
                assert!(
                    *method == "GET" || *needs == Administrator,
                    "{method} {word}"
                );
            }
        }
    }
}
