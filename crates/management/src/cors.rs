//! Which pages of other origins may use the API: none, unless an operator says so.

use axum::http::{HeaderMap, HeaderValue, Method, header};

/// Who may use the API from a browser.
#[derive(Debug, Clone, Default)]
pub struct Cors {
    /// Origins such as `https://example.org`; `*` for every one. Empty for none.
    pub allow_origins: Vec<String>,
    /// How long a browser may remember the answer, in seconds.
    pub max_age_secs: Option<u64>,
}

/// Where a browser says whose page asks.
const FETCH_SITE: &str = "sec-fetch-site";

impl Cors {
    /// Whether a page of somebody else wants to change something with the credentials that a browser has for us. Forms are
    /// sent without asking first, and a browser adds what its user has logged in with.
    pub(crate) fn is_forged(&self, method: &Method, asked: &HeaderMap) -> bool {
        let is_foreign = asked
            .get(FETCH_SITE)
            .is_some_and(|site| site == "cross-site" || site == "same-site");
        let changes_something = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_allowed = || {
            let origin = asked
                .get(header::ORIGIN)
                .and_then(|name| name.to_str().ok());
            origin.is_some_and(|origin| self.allow_origins.iter().any(|known| known == origin))
        };
        is_foreign && changes_something && !is_allowed()
    }

    /// Answers a page of another origin, if it may ask.
    pub(crate) fn allow(&self, method: &Method, asked: &HeaderMap, answer: &mut HeaderMap) {
        let Some(origin) = asked.get(header::ORIGIN) else {
            return;
        };
        let is_named = |name: &str| self.allow_origins.iter().any(|known| known == name);
        let allowed = if origin.to_str().is_ok_and(is_named) {
            let yes = HeaderValue::from_static("true");
            answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
            origin.clone()
        } else if is_named("*") {
            HeaderValue::from_static("*")
        } else {
            return;
        };
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if method != Method::OPTIONS {
            return;
        }
        if let Some(headers) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, headers.clone());
        }
        if let Some(methods) = answer.get(header::ALLOW).cloned() {
            answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        }
        if let Some(secs) = self.max_age_secs {
            answer.insert(header::ACCESS_CONTROL_MAX_AGE, secs.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(origins: &[&str], origin: &'static str, method: &Method) -> HeaderMap {
        let cors = Cors {
            allow_origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
            max_age_secs: Some(1800),
        };
        let mut asked = HeaderMap::new();
        asked.insert(header::ORIGIN, HeaderValue::from_static(origin));
        let headers = HeaderValue::from_static("authorization");
        asked.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, headers);
        let mut answer = HeaderMap::new();
        answer.insert(
            header::ALLOW,
            HeaderValue::from_static("HEAD, GET, OPTIONS"),
        );
        cors.allow(method, &asked, &mut answer);
        answer
    }

    #[test]
    fn sc49_a_foreign_page_changes_nothing_with_the_credentials_of_a_browser() {
        let is_forged = |site: &'static str, origins: &[&str], method: &Method| {
            let cors = Cors {
                allow_origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
                max_age_secs: None,
            };
            let mut asked = HeaderMap::new();
            asked.insert(FETCH_SITE, HeaderValue::from_static(site));
            asked.insert(header::ORIGIN, HeaderValue::from_static("http://a"));
            cors.is_forged(method, &asked)
        };
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            assert!(is_forged("cross-site", &[], &method));
            assert!(is_forged("same-site", &["*", "http://b"], &method));
            assert!(!is_forged("cross-site", &["http://a"], &method));
            assert!(!is_forged("same-origin", &[], &method));
            assert!(!is_forged("none", &[], &method));
        }
        assert!(!is_forged("cross-site", &[], &Method::GET));
        let cors = Cors::default();
        assert!(
            !cors.is_forged(&Method::POST, &HeaderMap::new()),
            "no browser"
        );
    }

    #[test]
    fn nobody_is_allowed_unless_named() {
        let answer = answered(&[], "http://a", &Method::GET);
        assert_eq!(answer.len(), 1, "{answer:?}");
        let answer = answered(&["http://b"], "http://a", &Method::OPTIONS);
        assert_eq!(answer.len(), 1, "{answer:?}");
    }

    #[test]
    fn a_named_origin_and_everybody_are_answered() {
        let answer = answered(&["http://a"], "http://a", &Method::GET);
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_ORIGIN], "http://a");
        let answer = answered(&["*"], "http://a", &Method::OPTIONS);
        assert_eq!(answer[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert_eq!(
            answer[header::ACCESS_CONTROL_ALLOW_HEADERS],
            "authorization"
        );
        assert_eq!(
            answer[header::ACCESS_CONTROL_ALLOW_METHODS],
            "HEAD, GET, OPTIONS"
        );
        assert_eq!(answer[header::ACCESS_CONTROL_MAX_AGE], "1800");
    }
}
