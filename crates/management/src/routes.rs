//! Every path with its methods and who may use it: the one list of what this API offers.

use axum::http::{Method, StatusCode};

use crate::{
    error::Refused,
    openapi,
    reply::Reply,
    request::Request,
    resource::{
        bindings, channels, connections, consumers, definitions, deprecated, entered, exchanges,
        health, limits, logins, look, messages, node, overview, parameters, permissions, policies,
        queues, topic_permissions, users, vhosts,
    },
    server::Api,
    visitor::{
        Needs::{self, Administrator, Management, Monitoring, Nothing, Policymaker},
        Visitor,
    },
};

/// A path; a word in braces stands for a name.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    /// What is there.
    pub(crate) about: &'static str,
    /// Methods with what they need; GET means HEAD too.
    pub(crate) methods: &'static [(&'static str, Needs)],
}

const fn route(
    path: &'static str,
    about: &'static str,
    methods: &'static [(&'static str, Needs)],
) -> Route {
    Route {
        path,
        about,
        methods,
    }
}

/// The name that a word of a route stands for, if it stands for one.
pub(crate) fn placeholder(word: &str) -> Option<&str> {
    word.strip_prefix('{')?.strip_suffix('}')
}

const OPEN: &[(&str, Needs)] = &[("GET", Nothing)];
const READ: &[(&str, Needs)] = &[("GET", Management)];
const ADMINISTRATE: &[(&str, Needs)] = &[
    ("GET", Administrator),
    ("PUT", Administrator),
    ("DELETE", Administrator),
];
const SET_POLICY: &[(&str, Needs)] = &[
    ("GET", Policymaker),
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
const MONITOR: &[(&str, Needs)] = &[("GET", Monitoring)];
const MONITOR_RESET: &[(&str, Needs)] = &[("GET", Monitoring), ("DELETE", Administrator)];

pub(crate) const ROUTES: &[Route] = &[
    route(
        "all-configuration",
        "Definitions under their old name",
        &[("GET", Administrator), ("POST", Administrator)],
    ),
    route("aliveness-test/{vhost}", "Whether a vhost is there", READ),
    route(
        "auth/attempts/{node}",
        "Logins so far, by protocol",
        MONITOR_RESET,
    ),
    route(
        "auth/attempts/{node}/source",
        "Logins so far, by address",
        MONITOR_RESET,
    ),
    route(
        "auth/hash_password/{password}",
        "A password as users have it",
        &[("GET", Administrator)],
    ),
    route("bindings", "All bindings", READ),
    route("bindings/{vhost}", "The bindings of a vhost", READ),
    route(
        "bindings/{vhost}/e/{source}/e/{destination}",
        "Bindings between two exchanges",
        GET_POST,
    ),
    route(
        "bindings/{vhost}/e/{source}/e/{destination}/{props}",
        "One binding between two exchanges",
        GET_DELETE,
    ),
    route(
        "bindings/{vhost}/e/{source}/q/{queue}",
        "Bindings between an exchange and a queue",
        GET_POST,
    ),
    route(
        "bindings/{vhost}/e/{source}/q/{queue}/{props}",
        "One binding between an exchange and a queue",
        GET_DELETE,
    ),
    route("channels", "Open channels", READ),
    route("channels/{name}", "One channel", READ),
    route(
        "cluster-name",
        "The name of the cluster",
        &[("GET", Management), ("PUT", Administrator)],
    ),
    route("connections", "Open connections", READ),
    route(
        "connections/{name}",
        "One connection; deleting closes it",
        GET_DELETE,
    ),
    route(
        "connections/{name}/channels",
        "The channels of a connection",
        READ,
    ),
    route(
        "connections/username/{user}",
        "The connections of a user",
        GET_DELETE,
    ),
    route("consumers", "All consumers", READ),
    route("consumers/{vhost}", "The consumers of a vhost", READ),
    route(
        "definitions",
        "Everything that was declared or set, to export and import",
        &[("GET", Administrator), ("POST", Administrator)],
    ),
    route(
        "definitions/{vhost}",
        "What was declared or set in a vhost",
        &[("GET", Administrator), ("POST", Administrator)],
    ),
    route("deprecated-features", "Features that will go", READ),
    route(
        "deprecated-features/used",
        "Features that will go and are used",
        READ,
    ),
    route("exchanges", "All exchanges", READ),
    route("exchanges/{vhost}", "The exchanges of a vhost", READ),
    route("exchanges/{vhost}/{exchange}", "One exchange", USE),
    route(
        "exchanges/{vhost}/{exchange}/bindings/destination",
        "Bindings to an exchange",
        READ,
    ),
    route(
        "exchanges/{vhost}/{exchange}/bindings/source",
        "Bindings from an exchange",
        READ,
    ),
    route(
        "exchanges/{vhost}/{exchange}/publish",
        "Publishes one message",
        POST,
    ),
    route("extensions", "Extensions of the management pages", READ),
    route("feature-flags", "Feature flags, all of them enabled", READ),
    route(
        "feature-flags/{flag}/enable",
        "Enables a feature flag",
        &[("PUT", Administrator)],
    ),
    route(
        "federation-links",
        "Links of federation; there are none",
        READ,
    ),
    route(
        "federation-links/{vhost}",
        "Links of federation; there are none",
        READ,
    ),
    route(
        "global-parameters",
        "Parameters of no vhost",
        &[("GET", Policymaker)],
    ),
    route(
        "global-parameters/{name}",
        "One parameter of no vhost",
        SET_PARAMETER,
    ),
    route(
        "health/checks/alarms",
        "Whether memory or disk are low",
        READ,
    ),
    route(
        "health/checks/below-node-connection-limit",
        "Whether further connections may come",
        OPEN,
    ),
    route(
        "health/checks/certificate-expiration/{number}/{unit}",
        "Whether certificates last so long",
        READ,
    ),
    route(
        "health/checks/is-in-service",
        "Whether the broker serves",
        OPEN,
    ),
    route(
        "health/checks/local-alarms",
        "Whether memory or disk of this node are low",
        READ,
    ),
    route(
        "health/checks/metadata-store/initialized",
        "Whether metadata are there",
        READ,
    ),
    route(
        "health/checks/metadata-store/initialized/with-data",
        "Whether metadata are there",
        READ,
    ),
    route(
        "health/checks/node-is-quorum-critical",
        "Whether queues need this node",
        READ,
    ),
    route(
        "health/checks/port-listener/{port}",
        "Whether somebody listens on a port",
        READ,
    ),
    route(
        "health/checks/protocol-listener/{protocols}",
        "Whether these protocols are spoken",
        READ,
    ),
    route(
        "health/checks/quorum-queues-without-elected-leaders/all-vhosts",
        "Whether every quorum queue has a leader",
        READ,
    ),
    route(
        "health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
        "Whether these quorum queues have a leader",
        READ,
    ),
    route(
        "health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}",
        "Whether the quorum queues of a vhost have a leader",
        READ,
    ),
    route(
        "health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
        "Whether these quorum queues have a leader",
        READ,
    ),
    route(
        "health/checks/reached-target-cluster-size",
        "Whether all nodes are there",
        OPEN,
    ),
    route(
        "health/checks/ready-to-serve-clients",
        "Whether clients can be served",
        OPEN,
    ),
    route(
        "health/checks/virtual-hosts",
        "Whether every vhost is there",
        READ,
    ),
    route("healthchecks/node", "An old check; always well", READ),
    route(
        "healthchecks/node/{node}",
        "An old check; always well",
        READ,
    ),
    route(
        "login",
        "Checks credentials that come in a form; deleting forgets them, which are not kept",
        &[("POST", Nothing), ("DELETE", Nothing)],
    ),
    route("nodes", "The nodes of the cluster", MONITOR),
    route("nodes/{node}", "One node", MONITOR),
    route(
        "nodes/{node}/memory",
        "What memory is for, in bytes",
        MONITOR,
    ),
    route(
        "nodes/{node}/memory/relative",
        "What memory is for, in percent",
        MONITOR,
    ),
    route("operator-policies", "All operator policies", READ),
    route(
        "operator-policies/{vhost}",
        "The operator policies of a vhost",
        READ,
    ),
    route(
        "operator-policies/{vhost}/{name}",
        "One operator policy",
        ADMINISTRATE,
    ),
    route("overview", "Everything at a glance", READ),
    route("parameters", "All parameters", &[("GET", Policymaker)]),
    route(
        "parameters/{component}",
        "The parameters of a component",
        &[("GET", Policymaker)],
    ),
    route(
        "parameters/{component}/{vhost}",
        "The parameters of a component in a vhost",
        &[("GET", Policymaker)],
    ),
    route(
        "parameters/{component}/{vhost}/{name}",
        "One parameter",
        SET_PARAMETER,
    ),
    route("permissions", "All permissions", &[("GET", Administrator)]),
    route(
        "permissions/{vhost}/{user}",
        "A user's permission in a vhost",
        ADMINISTRATE,
    ),
    route("policies", "All policies", READ),
    route("policies/{vhost}", "The policies of a vhost", READ),
    route("policies/{vhost}/{name}", "One policy", SET_POLICY),
    route("queues", "All queues", READ),
    route("queues/{vhost}", "The queues of a vhost", READ),
    route("queues/{vhost}/{queue}", "One queue", USE),
    route(
        "queues/{vhost}/{queue}/actions",
        "What was done to mirrored queues; there is nothing to do",
        ORDER,
    ),
    route(
        "queues/{vhost}/{queue}/bindings",
        "Bindings to a queue",
        READ,
    ),
    route("queues/{vhost}/{queue}/contents", "Purges a queue", DELETE),
    route(
        "queues/{vhost}/{queue}/get",
        "Takes messages off a queue",
        POST,
    ),
    route("queues/detailed", "All queues", READ),
    route(
        "rebalance/queues",
        "Spreads queues over nodes; there is one",
        &[("POST", Administrator)],
    ),
    route(
        "reset",
        "Forgets rates and samples",
        &[("DELETE", Administrator)],
    ),
    route(
        "reset/{node}",
        "Forgets rates and samples",
        &[("DELETE", Administrator)],
    ),
    route("shovels", "Shovels; none of them runs", READ),
    route("shovels/{vhost}", "Shovels; none of them runs", READ),
    route(
        "topic-permissions",
        "All topic permissions",
        &[("GET", Administrator)],
    ),
    route(
        "topic-permissions/{vhost}/{user}",
        "A user's topic permissions in a vhost",
        &[
            ("GET", Administrator),
            ("PUT", Administrator),
            ("DELETE", Administrator),
        ],
    ),
    route(
        "topic-permissions/{vhost}/{user}/{exchange}",
        "A user's topic permission for an exchange; the body of a PUT names another",
        ADMINISTRATE,
    ),
    route(
        "user-limits",
        "The limits of all users",
        &[("GET", Administrator)],
    ),
    route("user-limits/{user}", "The limits of a user", MONITOR),
    route(
        "user-limits/{user}/{limit}",
        "One limit of a user",
        SET_LIMIT,
    ),
    route("users", "All users", &[("GET", Administrator)]),
    route("users/{user}", "One user", ADMINISTRATE),
    route(
        "users/{user}/permissions",
        "A user's permissions",
        &[("GET", Administrator)],
    ),
    route(
        "users/{user}/queues",
        "Queues that are exclusive to a user's connections",
        READ,
    ),
    route(
        "users/{user}/topic-permissions",
        "A user's topic permissions",
        &[("GET", Administrator)],
    ),
    route(
        "users/bulk-delete",
        "Deletes users",
        &[("POST", Administrator)],
    ),
    route(
        "users/without-permissions",
        "Users without any permission",
        &[("GET", Administrator)],
    ),
    route(
        "version",
        "The version of RabbitMQ whose API this is",
        &[("GET", Nothing)],
    ),
    route("vhost-limits", "The limits of all vhosts", READ),
    route("vhost-limits/{vhost}", "The limits of a vhost", READ),
    route(
        "vhost-limits/{vhost}/{limit}",
        "One limit of a vhost",
        SET_LIMIT,
    ),
    route("vhosts", "All vhosts", READ),
    route("vhosts/{vhost}", "One vhost", ADMINISTRATE),
    route("vhosts/{vhost}/channels", "The channels of a vhost", READ),
    route(
        "vhosts/{vhost}/connections",
        "The connections of a vhost",
        READ,
    ),
    route(
        "vhosts/{vhost}/deletion/protection",
        "Keeps a vhost from being deleted",
        &[("POST", Administrator), ("DELETE", Administrator)],
    ),
    route(
        "vhosts/{vhost}/permissions",
        "The permissions in a vhost",
        &[("GET", Administrator)],
    ),
    route(
        "vhosts/{vhost}/start/{node}",
        "Starts a vhost, which all are while the broker runs",
        ORDER,
    ),
    route(
        "vhosts/{vhost}/topic-permissions",
        "The topic permissions in a vhost",
        &[("GET", Administrator)],
    ),
    route("x/node", "What this node is", &[("GET", Administrator)]),
    route(
        "x/node/alarms/{alarm}",
        "Raises or ends an alarm by hand",
        &[("PUT", Administrator), ("DELETE", Administrator)],
    ),
    route("x/node/authenticate", "Whether a password is right", ORDER),
    route(
        "x/node/channel-max",
        "Sets how many channels new connections are offered",
        &[("PUT", Administrator)],
    ),
    route(
        "x/node/channels",
        "Open channels, with what the command line shows",
        &[("GET", Administrator)],
    ),
    route("x/node/close-connections", "Closes many connections", ORDER),
    route(
        "x/node/connections",
        "Open connections, with what the command line shows",
        &[("GET", Administrator)],
    ),
    route(
        "x/node/consumer-timeout",
        "How long consumers of quorum queues may keep a message when nobody else says",
        &[("GET", Administrator), ("PUT", Administrator)],
    ),
    route(
        "x/node/consumers",
        "Consumers, with what the command line shows",
        &[("GET", Administrator)],
    ),
    route(
        "x/node/disk-free-limit",
        "Sets the limit of free disk space",
        &[("PUT", Administrator)],
    ),
    route(
        "x/node/log",
        "The newest lines of the log",
        &[("GET", Administrator)],
    ),
    route(
        "x/node/log-level",
        "Sets how much is logged",
        &[("PUT", Administrator)],
    ),
    route(
        "x/node/loopback-users",
        "Users who may log in from this machine only",
        &[("GET", Administrator), ("PUT", Administrator)],
    ),
    route(
        "x/node/memory-limit",
        "Sets the limit of memory",
        &[("PUT", Administrator)],
    ),
    route(
        "x/node/plugins",
        "Takes the list of enabled plugins",
        &[("PUT", Administrator)],
    ),
    route(
        "x/node/queues",
        "Queues, with what the command line shows",
        &[("GET", Administrator)],
    ),
    route(
        "x/node/reset",
        "Deletes all data of a stopped broker",
        ORDER,
    ),
    route(
        "x/node/start-app",
        "Starts the broker that was stopped",
        ORDER,
    ),
    route(
        "x/node/status",
        "How the broker is",
        &[("GET", Administrator)],
    ),
    route("x/node/stop", "Ends the process", ORDER),
    route(
        "x/node/stop-app",
        "Stops the broker and keeps the process",
        ORDER,
    ),
    route("x/openapi.json", "This description", READ),
    route(
        "x/consumers/{connection}/{channel}/{tag}",
        "Cancels a consumer; its client is told",
        &[("DELETE", Management)],
    ),
    route(
        "x/queues/{vhost}/{queue}/messages",
        "Messages of a queue as they stand; nothing of them changes",
        &[("GET", Management)],
    ),
    route("x/ready", "Whether clients can be served", OPEN),
    route("whoami", "Who asks", READ),
];

/// The route of a path; a word of the list beats a name.
pub(crate) fn find(path: &[String]) -> Option<&'static Route> {
    let names = |route: &&Route| route.path.matches('{').count();
    let fits = |route: &&Route| {
        let mut words = route.path.split('/');
        let all = path
            .iter()
            .all(|segment| matches!(words.next(), Some(word) if word == segment || placeholder(word).is_some()));
        all && words.next().is_none()
    };
    ROUTES.iter().filter(fits).min_by_key(names)
}

/// What a request needs, or that the path or method is none.
pub(crate) fn needs(request: &Request) -> Result<Needs, Refused> {
    let methods = match find(&request.path) {
        Some(route) => route.methods,
        None if request.method == Method::GET => return Err(Refused::not_found()),
        // RabbitMQ takes every other path for one of its pages, and those can only be read.
        None => OPEN,
    };
    let known = methods
        .iter()
        .find(|(known, _)| *known == request.method.as_str());
    if let Some((_, needs)) = known {
        return Ok(*needs);
    }
    let mut allow: Vec<&str> = methods.iter().map(|(known, _)| *known).collect();
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
        ["all-configuration"] => definitions::answer(api, visitor, request, &[]).await,
        ["aliveness-test", vhost] => health::aliveness(api, visitor, vhost),
        ["auth", "attempts", rest @ ..] => logins::answer(api, request, rest),
        ["auth", "hash_password", password] => Ok(users::hash(api, password)),
        ["bindings", rest @ ..] => bindings::answer(api, visitor, request, rest).await,
        ["channels", rest @ ..] => channels::answer(api, visitor, request, rest).await,
        ["cluster-name"] => parameters::cluster_name(api, request).await,
        ["connections", rest @ ..] => connections::answer(api, visitor, request, rest).await,
        ["consumers", rest @ ..] => consumers::answer(api, visitor, request, rest).await,
        ["definitions", rest @ ..] => definitions::answer(api, visitor, request, rest).await,
        ["deprecated-features", rest @ ..] => deprecated::answer(api, rest),
        ["extensions"] | ["federation-links"] => Ok(Reply::Json(serde_json::json!([]))),
        ["federation-links", vhost] => {
            entered(api, visitor, vhost)?;
            Ok(Reply::Json(serde_json::json!([])))
        }
        ["exchanges", vhost, exchange, "publish"] => {
            messages::publish(api, visitor, request, vhost, exchange).await
        }
        ["exchanges", rest @ ..] => exchanges::answer(api, visitor, request, rest).await,
        ["feature-flags", flag, "enable"] => node::enable_feature_flag(flag),
        ["rebalance", "queues"] => Ok(Reply::NoContent),
        ["feature-flags"] => Ok(node::feature_flags()),
        ["global-parameters", rest @ ..] => parameters::global(api, request, rest).await,
        ["health", "checks", rest @ ..] => health::check(api, visitor, rest),
        ["healthchecks", "node", node @ ..] => health::old(api, node),
        ["login"] => overview::login(api, request).await,
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
        ["queues", vhost, queue, "actions"] => queues::act(api, visitor, request, vhost, queue),
        ["queues", rest @ ..] => queues::answer(api, visitor, request, rest).await,
        ["reset", node @ ..] => {
            node::of_path(api, node)?;
            api.rates.forget();
            Ok(Reply::NoContent)
        }
        ["shovels", rest @ ..] => parameters::shovels(api, visitor, request, rest),
        ["topic-permissions", rest @ ..] => topic_permissions::answer(api, request, rest).await,
        ["user-limits", rest @ ..] => limits::of_users(api, request, rest).await,
        ["users", user, "permissions"] => permissions::of_user(api, request, user),
        ["users", user, "queues"] => queues::of_user(api, visitor, request, user),
        ["users", user, "topic-permissions"] => topic_permissions::of_user(api, request, user),
        ["users", rest @ ..] => users::answer(api, visitor, request, rest).await,
        ["version"] => Ok(Reply::Json(api.facts.version.clone().into())),
        ["vhost-limits", rest @ ..] => limits::of_vhosts(api, visitor, request, rest).await,
        ["vhosts", vhost, "permissions"] => permissions::of_vhost(api, request, vhost),
        ["vhosts", vhost, "topic-permissions"] => topic_permissions::of_vhost(api, request, vhost),
        ["vhosts", vhost, "connections"] => {
            connections::of_vhost(api, visitor, request, vhost).await
        }
        ["vhosts", vhost, "channels"] => channels::of_vhost(api, visitor, request, vhost).await,
        ["vhosts", rest @ ..] => vhosts::answer(api, visitor, request, rest).await,
        ["whoami"] => Ok(overview::whoami(api, visitor)),
        ["x", "consumers", connection, channel, tag] => {
            consumers::cancel(api, visitor, connection, channel, tag).await
        }
        ["x", "queues", vhost, queue, "messages"] => {
            look::messages(api, visitor, request, vhost, queue).await
        }
        ["x", "openapi.json"] => Ok(openapi::describe(api)),
        ["x", "ready"] => Ok(health::ready(api)),
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
            // Load balancers have no credentials.
            let may_be_open = [
                "health/checks/below-node-connection-limit",
                "health/checks/is-in-service",
                "health/checks/reached-target-cluster-size",
                "health/checks/ready-to-serve-clients",
                "login",
                "version",
                "x/ready",
            ]
            .contains(&route.path);
            assert_eq!(is_open, may_be_open, "{}", route.path);
        }
    }

    /// What the cells say is tried on a running broker: `conformance/python/management/test_rights.py`.
    #[test]
    fn every_route_and_method_has_a_row_in_the_table_of_rights() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rights.md");
        let text = std::fs::read_to_string(place).expect("docs/rights.md");
        let (_, table) = text.split_once("\n## HTTP API\n").expect("its section");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
        let mut written: Vec<Vec<&str>> = rows
            .skip(2)
            .map(|row| row.split(" | ").take(3).collect())
            .collect();
        let mut there: Vec<Vec<&str>> = Vec::new();
        for route in ROUTES {
            for (method, needs) in route.methods {
                let needs = match needs {
                    Nothing => "nothing",
                    Management => "management",
                    Policymaker => "policymaker",
                    Monitoring => "monitoring",
                    Administrator => "administrator",
                };
                there.push(vec![method, route.path, needs]);
            }
        }
        written.sort_unstable();
        there.sort_unstable();
        assert_eq!(written, there);
    }

    #[test]
    fn a_word_beats_a_name() {
        let found = |text| find(&path(text)).map(|route| route.path);
        assert_eq!(found("users/bulk-delete"), Some("users/bulk-delete"));
        assert_eq!(found("users/alice"), Some("users/{user}"));
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
            "x/node",
        ] {
            let is_below = |path: &str| {
                let rest = path.strip_prefix(word);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let of_word = ROUTES.iter().filter(|route| is_below(route.path));
            for (method, needs) in of_word.flat_map(|route| route.methods) {
                assert!(
                    *method == "GET" || *needs == Administrator,
                    "{method} {word}"
                );
            }
        }
    }
}
