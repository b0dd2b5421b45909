//! As much of an HTTP client as asking once and hanging up needs.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

/// The longest answer that is read: an export of very many queues.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Fields in the head of an answer.
const FIELDS_MAX: usize = 64;

/// What was answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `OK`, `Not Found`.
    pub(crate) reason: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `Null` when it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) const fn is_good(&self) -> bool {
        self.status < 300
    }

    /// Why it was refused, as the API tells it.
    pub(crate) fn why(&self) -> String {
        let json = self.json();
        match &json["reason"] {
            Value::String(text) => text.clone(),
            Value::Null => format!("{} {}", self.status, self.reason),
            other => other.to_string(),
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Question<'a> {
    pub(crate) method: &'a str,
    /// With the query.
    pub(crate) path: &'a str,
    pub(crate) body: Option<String>,
    pub(crate) host: &'a str,
    pub(crate) login: Option<(&'a str, &'a str)>,
    /// Other fields of the head.
    pub(crate) fields: &'a [(&'a str, &'a str)],
}

/// Asks on a stream that is used for nothing else afterwards.
pub(crate) fn ask(mut stream: impl Read + Write, question: &Question<'_>) -> io::Result<Answer> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept: application/json\r\n",
        question.method, question.path, question.host
    );
    if let Some((user, password)) = question.login {
        let login = STANDARD.encode(format!("{user}:{password}"));
        head.push_str(&format!("authorization: Basic {login}\r\n"));
    }
    for (name, value) in question.fields {
        let value: String = value.chars().filter(|c| !c.is_control()).collect();
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = question.body.as_deref().unwrap_or_default();
    if question.body.is_some() {
        head.push_str("content-type: application/json\r\n");
    }
    if question.method != "GET" {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    head.push_str(body);
    stream.write_all(head.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    read(&bytes)
}

fn read(bytes: &[u8]) -> io::Result<Answer> {
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is cut off");
    let strange = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("no HTTP: {error}"))
    };
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let parsed = head.parse(bytes).map_err(|error| strange(&error))?;
    let httparse::Status::Complete(end) = parsed else {
        return Err(cut());
    };
    let field = |name: &str| {
        let mut fields = head.headers.iter();
        let found = fields.find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    let rest = &bytes[end..];
    let body = if field("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        whole(rest).ok_or_else(cut)?
    } else if let Some(length) = field("content-length") {
        let length: usize = length.trim().parse().map_err(|error| strange(&error))?;
        rest.get(..length).ok_or_else(cut)?.to_vec()
    } else {
        rest.to_vec()
    };
    Ok(Answer {
        status: head.code.unwrap_or_default(),
        reason: head.reason.unwrap_or_default().to_owned(),
        body,
    })
}

/// A body that came in chunks.
fn whole(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let Ok(httparse::Status::Complete((at, size))) = httparse::parse_chunk_size(rest) else {
            return None;
        };
        rest = &rest[at..];
        if size == 0 {
            return Some(body);
        }
        let (chunk, behind) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        body.extend_from_slice(chunk);
        rest = behind.strip_prefix(b"\r\n")?;
    }
}

/// A wait of which no more than this is meant when somebody says "infinity".
pub(crate) const FOR_EVER: Duration = Duration::from_secs(86_400 * 365);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_with_a_length_in_chunks_and_to_the_end() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[17]",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n[\r\n3\r\n17]\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n[17]",
        ] {
            let answer = read(text.as_bytes()).expect(text);
            assert_eq!((answer.status, answer.reason.as_str()), (200, "OK"));
            assert_eq!(answer.json(), serde_json::json!([17]));
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n[1",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n[1",
            "220 mail.example SMTP\r\n",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_refusal_tells_why() {
        let text = "HTTP/1.1 400 Bad Request\r\n\r\n{\"error\":\"bad_request\",\"reason\":\"no\"}";
        assert_eq!(read(text.as_bytes()).expect("an answer").why(), "no");
        let text = "HTTP/1.1 404 Not Found\r\n\r\n";
        assert_eq!(
            read(text.as_bytes()).expect("an answer").why(),
            "404 Not Found"
        );
    }
}
