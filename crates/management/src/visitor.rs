//! Who asks, and what they may see.

use std::{net::IpAddr, sync::Arc};

use axum::http::{HeaderMap, StatusCode, header};
use base64::{Engine, engine::general_purpose::STANDARD};
use leveret_core::{directory::Directory, rights::Rights};
use leveret_runtime::{Actor, Broker, LoginOver, LoginRefused, Token};
use leveret_wire::value::ShortString;
use tracing::warn;

use crate::error::Refused;

/// What a route needs of its visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing, not even credentials.
    Nothing,
    /// Any of the four tags.
    Management,
    /// `policymaker` or `administrator`.
    Policymaker,
    /// `monitoring` or `administrator`.
    Monitoring,
    /// `administrator`.
    Administrator,
}

/// Who acts when the command line does.
const COMMAND_LINE: &str = "rmq-cli";

/// A user of the API.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) name: ShortString,
    pub(crate) tags: Vec<String>,
    /// What they came with instead of a password; then it says all they may do.
    token: Option<Arc<Token>>,
    /// An administrator of this machine, known by the socket they came through; no user of the broker.
    pub(crate) is_of_machine: bool,
}

impl Visitor {
    /// Who asks for what is for everybody.
    pub(crate) const fn nobody() -> Self {
        Self {
            name: ShortString::empty(),
            tags: Vec::new(),
            token: None,
            is_of_machine: false,
        }
    }

    /// Who may open the administrators' socket.
    pub(crate) fn of_machine() -> Self {
        Self {
            name: ShortString::empty(),
            tags: vec!["administrator".to_owned()],
            token: None,
            is_of_machine: true,
        }
    }

    /// In whose name things are done for the visitor.
    pub(crate) fn actor(&self) -> Actor {
        Actor::named(if self.is_of_machine {
            ShortString::from_static(COMMAND_LINE)
        } else {
            self.name.clone()
        })
    }

    /// What the visitor may do in a vhost.
    pub(crate) fn rights(&self, broker: &Broker, vhost: &ShortString) -> Arc<Rights> {
        if self.is_of_machine {
            return Arc::new(Rights::all(vhost.clone(), self.name.clone()));
        }
        if let Some(token) = &self.token {
            let (vhost, user) = (vhost.clone(), self.name.clone());
            return Arc::new(Rights::by_token(vhost, user, &token.scopes));
        }
        broker.rights(vhost, &self.name)
    }

    /// Whether they are a user of this broker, and not one of whoever signed their token.
    pub(crate) const fn is_internal(&self) -> bool {
        self.token.is_none()
    }

    /// The user whose credentials the request carries.
    pub(crate) async fn of(
        broker: &Broker,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Self, Refused> {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return Err(Refused {
                asks_for_login: true,
                ..Refused::empty(StatusCode::UNAUTHORIZED)
            });
        };
        let refused = || Refused::new(StatusCode::UNAUTHORIZED, "not_authorized", "Not_Authorized");
        let value = value.as_bytes();
        let space = value.iter().position(|octet| *octet == b' ');
        let (scheme, rest) = value.split_at(space.ok_or_else(refused)?);
        let rest = rest.trim_ascii();
        let credentials = if scheme.eq_ignore_ascii_case(b"basic") {
            STANDARD
                .decode(rest)
                .map_err(|_| Refused::empty(StatusCode::BAD_REQUEST))?
        } else if scheme.eq_ignore_ascii_case(b"bearer") {
            // The token says who comes.
            [b":", rest].concat()
        } else {
            return Err(refused());
        };
        let Some(colon) = credentials.iter().position(|octet| *octet == b':') else {
            return Err(Refused::empty(StatusCode::BAD_REQUEST));
        };
        let (name, password) = (&credentials[..colon], &credentials[colon + 1..]);
        let admitted = broker.login(name, password, peer).await;
        broker.note_login(LoginOver::Http, admitted.is_ok());
        match admitted {
            Ok(user) => Ok(Self {
                name: user.name,
                tags: user.tags,
                token: user.token,
                is_of_machine: false,
            }),
            Err(reason) => {
                let name = String::from_utf8_lossy(name);
                if reason == LoginRefused::TooMany {
                    // Told once, when it began.
                    return Err(refused());
                }
                warn!(%peer, "HTTP access denied: {}", reason.told_of(&name));
                Err(refused())
            }
        }
    }

    /// Whether the visitor may use a route.
    pub(crate) fn check(&self, needs: Needs) -> Result<(), Refused> {
        match needs {
            Needs::Nothing => Ok(()),
            Needs::Management if self.is_management() => Ok(()),
            Needs::Policymaker if self.has("policymaker") || self.is_administrator() => Ok(()),
            Needs::Monitoring if self.is_monitor() => Ok(()),
            Needs::Administrator if self.is_administrator() => Ok(()),
            _ if !self.is_management() => Err(Refused::not_authorised("Not management user")),
            Needs::Monitoring => Err(Refused::not_authorised("Not monitor user")),
            Needs::Policymaker => Err(Refused::not_authorised("Not policymaker")),
            Needs::Management | Needs::Administrator => {
                Err(Refused::not_authorised("Not administrator user"))
            }
        }
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.has("administrator")
    }

    pub(crate) fn is_monitor(&self) -> bool {
        self.has("monitoring") || self.is_administrator()
    }

    fn is_management(&self) -> bool {
        self.has("management") || self.has("policymaker") || self.is_monitor()
    }

    /// Whether things in this vhost are shown.
    pub(crate) fn may_enter(&self, directory: &Directory, vhost: &ShortString) -> bool {
        let is_member = || match &self.token {
            Some(token) => token.scopes.is_member(vhost.as_bytes()),
            None => directory.rights(vhost, &self.name).is_member(),
        };
        self.is_administrator() || is_member()
    }

    fn has(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known == tag)
    }
}
