//! Where keys are: addresses of https and no others.

use std::fmt;

use hyper::Uri;

/// Where an issuer tells of itself, below its own address.
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

const HTTPS_PORT: u16 = 443;

/// Why a text is no address that keys come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAddress {
    /// Not one at all.
    #[error("is no URL")]
    NoUrl,
    /// Of another kind, such as http or file.
    #[error("does not begin with https://")]
    NotHttps,
    /// It has a user in it.
    #[error("has credentials in it")]
    Credentials,
}

/// An address of https.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    authority: String,
    host: String,
    port: u16,
    path: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Without the query, which may have a secret in it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "https://{}{path}", self.authority)
    }
}

impl Address {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// [`NoAddress`].
    pub fn read(text: &str) -> Result<Self, NoAddress> {
        let uri: Uri = text.parse().map_err(|_| NoAddress::NoUrl)?;
        let scheme = uri.scheme_str().ok_or(NoAddress::NotHttps)?;
        if scheme != "https" {
            return Err(NoAddress::NotHttps);
        }
        let authority = uri.authority().ok_or(NoAddress::NoUrl)?;
        if authority.as_str().contains('@') {
            return Err(NoAddress::Credentials);
        }
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(NoAddress::NoUrl);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            authority: authority.as_str().to_owned(),
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(HTTPS_PORT),
            path: path.to_owned(),
        })
    }

    /// Where the issuer at this address tells of itself.
    ///
    /// # Errors
    ///
    /// [`NoAddress`] for a path that is none.
    pub fn discovery(
        &self,
        path: Option<&str>,
        parameters: &[(String, String)],
    ) -> Result<Self, NoAddress> {
        let (own, query) = match self.path.split_once('?') {
            Some((own, query)) => (own, Some(query)),
            None => (self.path.as_str(), None),
        };
        let below = path.unwrap_or(DISCOVERY_PATH).trim_start_matches('/');
        let own = own.strip_suffix('/').unwrap_or(own);
        let mut query = query.unwrap_or_default().to_owned();
        if !parameters.is_empty() {
            let mut written = form_urlencoded::Serializer::new(String::new());
            written.extend_pairs(parameters);
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(&written.finish());
        }
        let mut text = format!("https://{}{own}/{below}", self.authority);
        if !query.is_empty() {
            text.push('?');
            text.push_str(&query);
        }
        Self::read(&text)
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// With the query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_an_address() {
        for (text, why) in [
            ("http://127.0.0.1/keys", NoAddress::NotHttps),
            ("HTTP://host/keys", NoAddress::NotHttps),
            ("file:///etc/passwd", NoAddress::NoUrl),
            ("ftp://host/", NoAddress::NotHttps),
            ("/keys", NoAddress::NotHttps),
            ("host", NoAddress::NotHttps),
            ("", NoAddress::NoUrl),
            ("https://", NoAddress::NoUrl),
            ("https:///keys", NoAddress::NoUrl),
            ("https://user:secret@host/keys", NoAddress::Credentials),
            ("https://host@evil/keys", NoAddress::Credentials),
            ("https://ho st/keys", NoAddress::NoUrl),
            ("https://host/a\r\nX: y", NoAddress::NoUrl),
        ] {
            assert_eq!(Address::read(text), Err(why), "{text}");
        }
    }

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        for (text, host, port, path) in [
            ("https://host", "host", 443, "/"),
            ("https://host:8443/a/b?c=d", "host", 8443, "/a/b?c=d"),
            ("https://[::1]:444/k", "::1", 444, "/k"),
            ("https://127.0.0.1/k#part", "127.0.0.1", 443, "/k"),
        ] {
            let read = Address::read(text).expect("good");
            assert_eq!(
                (read.host(), read.port(), read.path()),
                (host, port, path),
                "{text}"
            );
        }
    }

    #[test]
    fn no_query_is_shown() {
        let read = Address::read("https://host/keys?secret=1").expect("good");
        assert_eq!(read.to_string(), "https://host/keys");
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn an_issuer_tells_of_itself_below_its_address() {
        let found = |issuer: &str, path: Option<&str>, parameters: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let parameters: Vec<_> = parameters.iter().map(pair).collect();
            let issuer = Address::read(issuer).expect("good");
            let found = issuer.discovery(path, &parameters).expect("good");
            format!("{}{}", found.authority(), found.path())
        };
        let realm = "https://kc:8443/realms/main";
        let usual = "kc:8443/realms/main/.well-known/openid-configuration";
        assert_eq!(found(realm, None, &[]), usual);
        assert_eq!(found("https://kc:8443/realms/main/", None, &[]), usual);
        assert_eq!(
            found("https://kc", None, &[]),
            "kc/.well-known/openid-configuration"
        );
        assert_eq!(found(realm, Some("own"), &[]), "kc:8443/realms/main/own");
        assert_eq!(
            found("https://kc/r?a=b", Some("/own"), &[("appid", "x y&z")]),
            "kc/r/own?a=b&appid=x+y%26z"
        );
    }
}
