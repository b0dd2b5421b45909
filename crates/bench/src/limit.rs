//! What this machine's loopback and this client can do at most, so that a broker's figures stand as a share of it.
//!
//! The same load runs against [`echo`], in a process of its own so that its CPU can be told apart.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::error::BenchError;
use crate::load::{ExchangeKind, Load};
use crate::run::{self, Outcome, Peer};

mod echo;

/// The command of this binary that becomes the echo.
pub(crate) const ECHO_COMMAND: &str = "echo";

/// Runs a load against an echo.
pub(crate) fn limit(load: &Load) -> Result<Outcome, BenchError> {
    if load.exchange != ExchangeKind::Default || load.get || load.producers == 0 {
        return Err(BenchError::Arguments(
            "the echo has neither exchanges nor queues: no --exchange, no --get, no --producers 0"
                .to_owned(),
        ));
    }
    let echo = EchoProcess::start()?;
    run::run(&echo.peer, load)
}

/// Becomes the echo: prints the port and serves until the process is ended.
pub(crate) fn serve_echo() -> Result<(), BenchError> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    Ok(echo::serve(&listener)?)
}

/// An echo in a process of its own, ended with this value.
#[derive(Debug)]
pub(crate) struct EchoProcess {
    child: Child,
    pub(crate) peer: Peer,
}

impl EchoProcess {
    pub(crate) fn start() -> Result<Self, BenchError> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ECHO_COMMAND)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut port)?;
        }
        let url = format!("amqp://127.0.0.1:{}", port.trim())
            .parse()
            .map_err(|error| BenchError::Arguments(format!("the echo did not start: {error}")))?;
        let pid = Some(child.id());
        Ok(Self {
            child,
            peer: Peer { url, pid },
        })
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
