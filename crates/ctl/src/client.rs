//! Asking a node through its administrators' socket.

use std::{
    io,
    time::{Duration, Instant},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{
    command::not_running,
    failure::{DATA, Failure, UNAVAILABLE},
    http::{self, Answer, Question},
    socket,
};

/// Beyond what a command may take, so that the node's own answer comes first.
const GRACE: Duration = Duration::from_secs(5);

/// A part of a path: everything but what never means anything there.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A name as a part of a path.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// One node as administrators of its machine reach it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) node: String,
    pub(crate) timeout: Duration,
}

impl Client {
    /// Asks; the error is that nobody answered.
    pub(crate) fn try_ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<Answer> {
        let began = Instant::now();
        let stream = socket::connect(&self.node)?;
        let left = self.timeout.saturating_sub(began.elapsed()) + GRACE;
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        let path = format!("/api/{path}");
        let question = Question {
            method,
            path: &path,
            body: body.map(Value::to_string),
            host: "localhost",
            ..Question::default()
        };
        http::ask(stream, &question)
    }

    /// Asks.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let answer = self
            .try_ask(method, path, body)
            .map_err(|error| Failure::unreachable(&self.node, &error))?;
        if answer.status == 503 && answer.json()["error"] == "not_running" {
            return Err(not_running());
        }
        Ok(answer)
    }

    /// What is there; `None` when nothing is.
    pub(crate) fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        let answer = self.ask("GET", path, None)?;
        match answer.status {
            404 => Ok(None),
            200 => Ok(Some(answer.json())),
            _ => Err(Failure::error(UNAVAILABLE, answer.why())),
        }
    }

    /// What must be there.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.find(path)?
            .ok_or_else(|| Failure::error(DATA, format!("{path} was not found")))
    }

    /// A list, empty where it hangs on something that is not there.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<Value>, Failure> {
        match self.find(path)? {
            Some(Value::Array(list)) => Ok(list),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Asks for a change; `refused` says what the command makes of a refusal.
    pub(crate) fn change(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        refused: impl FnOnce(&Answer) -> Failure,
    ) -> Result<Answer, Failure> {
        let answer = self.ask(method, path, body)?;
        if answer.is_good() {
            Ok(answer)
        } else {
            Err(refused(&answer))
        }
    }

    /// Whether there is such a vhost.
    pub(crate) fn has_vhost(&self, vhost: &str) -> Result<bool, Failure> {
        let found = self.find(&format!("vhosts/{}?columns=name", segment(vhost)))?;
        Ok(found.is_some())
    }

    /// That there is such a vhost.
    pub(crate) fn need_vhost(&self, vhost: &str) -> Result<(), Failure> {
        if self.has_vhost(vhost)? {
            Ok(())
        } else {
            Err(Failure::no_vhost(vhost))
        }
    }

    /// The user of this name.
    pub(crate) fn user(&self, user: &str) -> Result<Option<Value>, Failure> {
        self.find(&format!("users/{}", segment(user)))
    }
}

/// What the node says to a change it refuses.
pub(crate) fn as_told(answer: &Answer) -> Failure {
    Failure::error(UNAVAILABLE, answer.why())
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn names_become_one_part_of_a_path() {
        assert_eq!(segment("/"), "%2F");
        assert_eq!(segment("\u{e9} a/b?"), "%C3%A9%20a%2Fb%3F");
        assert_eq!(segment("amq.topic"), "amq.topic");
    }
}
