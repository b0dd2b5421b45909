//! Every path with its methods and who may use it: the one list of what this API offers.

mod answers;
mod table;

use std::pin::Pin;

use axum::http::{Method, StatusCode};

use self::table::OPEN;
pub(crate) use self::table::ROUTES;
use crate::{
    error::Refused,
    node::Node,
    reply::Reply,
    request::Request,
    server::Api,
    visitor::{Needs, Visitor},
};

/// A path; a word in braces stands for a name.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    /// What is there.
    pub(crate) about: &'static str,
    /// Methods with what they need; GET means HEAD too.
    pub(crate) methods: &'static [(&'static str, Needs)],
    answer: Answer,
}

/// Carries a request out whose visitor may use the route.
type Answer = for<'a> fn(&'a Asked<'a>) -> Work<'a>;

type Work<'a> = Pin<Box<dyn Future<Output = Result<Reply, Refused>> + Send + 'a>>;

/// A request with all that an answer is made of.
pub(crate) struct Asked<'a> {
    pub(crate) node: &'a Node,
    /// Unless the broker was stopped.
    pub(crate) api: Option<&'a Api>,
    pub(crate) visitor: &'a Visitor,
    pub(crate) request: &'a Request,
    path: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(
        node: &'a Node,
        api: Option<&'a Api>,
        visitor: &'a Visitor,
        request: &'a Request,
    ) -> Self {
        Self {
            node,
            api,
            visitor,
            request,
            path: request.path.iter().map(String::as_str).collect(),
        }
    }

    fn api(&self) -> Result<&'a Api, Refused> {
        self.api.ok_or_else(Refused::stopped)
    }

    /// A word of the path, which the route has.
    fn word(&self, at: usize) -> &'a str {
        self.path.get(at).copied().unwrap_or_default()
    }

    /// The path without its first words.
    fn below(&self, words: usize) -> &[&'a str] {
        self.path.get(words..).unwrap_or_default()
    }
}

impl Route {
    /// What the method needs, or that the path has no such method.
    pub(crate) fn needs(&self, method: &Method) -> Result<Needs, Refused> {
        needs_of(self.methods, method.as_str())
    }

    /// Carries a request out. The visitor may use the route.
    pub(crate) async fn answer(&self, asked: &Asked<'_>) -> Result<Reply, Refused> {
        let outcome = (self.answer)(asked).await;
        outcome.map_err(|refused| refused.of_method(&asked.request.method))
    }
}

/// The name that a word of a route stands for, if it stands for one.
pub(crate) fn placeholder(word: &str) -> Option<&str> {
    word.strip_prefix('{')?.strip_suffix('}')
}

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

/// The route of a request, or that there is none of its path.
pub(crate) fn of(request: &Request) -> Result<&'static Route, Refused> {
    match find(&request.path) {
        Some(route) => Ok(route),
        // RabbitMQ takes every other path for one of its pages.
        None => of_page(&request.method).and_then(|()| Err(Refused::not_found())),
    }
}

/// What is no part of the API can only be read.
pub(crate) fn of_page(method: &Method) -> Result<(), Refused> {
    let method = match method.as_str() {
        "HEAD" => "GET",
        method => method,
    };
    needs_of(OPEN, method).map(drop)
}

fn needs_of(methods: &[(&str, Needs)], method: &str) -> Result<Needs, Refused> {
    let known = methods.iter().find(|(known, _)| *known == method);
    if let Some((_, needs)) = known {
        return Ok(*needs);
    }
    let mut allow: Vec<&str> = methods.iter().map(|(known, _)| *known).collect();
    if allow.contains(&"GET") {
        allow.insert(0, "HEAD");
    }
    allow.push("OPTIONS");
    let status = if method == "OPTIONS" {
        StatusCode::OK
    } else {
        StatusCode::METHOD_NOT_ALLOWED
    };
    Err(Refused {
        allow: Some(allow.join(", ")),
        ..Refused::empty(status)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visitor::Needs::{Administrator, Management, Monitoring, Nothing, Policymaker};

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
