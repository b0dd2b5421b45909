//! rabbitmqadmin: the HTTP API on a command line, in the grammars of both its generations.
//!
//! ```text
//!   declare queue name=q durable=true      the first: words are key=value
//!   declare queue --name q --durable true  the second: words are options
//! ```
//!
//! They differ in how things are said, in what is printed and in exit codes; what is asked of the API is the same
//! ([`things`]). Which one is meant shows in the words; where nothing does, as in `list queues`, it is the first.

mod first;
mod options;
mod second;
mod show;
mod things;

use std::{
    io::{self, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use serde_json::Value;

use self::options::{Generation, Options};
use crate::http::{self, Answer, Question};

/// How long the API may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command that ended badly: what standard error says, and the exit code.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    code: u8,
    text: String,
}

impl Ended {
    fn new(code: u8, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }
}

/// Why the API could not be asked.
#[derive(Debug)]
struct Unreached(io::Error);

/// The API that is meant.
#[derive(Debug)]
struct Api<'a> {
    options: &'a Options,
}

impl Api<'_> {
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Unreached> {
        let options = self.options;
        let target = (options.host.as_str(), options.port);
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        // `localhost` is two addresses, and a broker may listen on one.
        for address in target.to_socket_addrs().map_err(Unreached)? {
            let stream = match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => stream,
                Err(error) => {
                    refused = error;
                    continue;
                }
            };
            stream.set_read_timeout(Some(PATIENCE)).map_err(Unreached)?;
            let path = format!("{}{path}", options.path_prefix);
            let question = Question {
                method,
                path: &path,
                body: body.map(Value::to_string),
                host: &options.host,
                login: Some((&options.username, &options.password)),
                fields: &[],
            };
            return http::ask(stream, &question).map_err(Unreached);
        }
        Err(Unreached(refused))
    }
}

/// Runs a command line and says with which code the process ends.
pub(crate) fn run(words: &[String]) -> u8 {
    let outcome = Options::parse(words).and_then(|options| {
        let api = Api { options: &options };
        match options.generation {
            Generation::First => first::run(&api, &options),
            Generation::Second => second::run(&api, &options),
        }
    });
    match outcome {
        Ok(text) => {
            // Nobody may read any longer, as behind `| head`.
            let _ = io::stdout().write_all(text.as_bytes());
            0
        }
        Err(Ended { code, text }) => {
            let _ = writeln!(io::stderr(), "{text}");
            code
        }
    }
}
