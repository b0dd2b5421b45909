//! What is said at the start, in the words that RabbitMQ says it: tools and scripts wait for some of these lines.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use leveret_management::LogControl;
use tracing::info;

use crate::logging::ForExchange;

/// The line that says that clients are accepted.
const COMPLETE: &str = "Server startup complete";

/// What the management plugin brings along.
const IMPLIED_PLUGINS: [&str; 2] = ["rabbitmq_management_agent", "rabbitmq_web_dispatch"];

/// What of a start is worth telling.
#[derive(Debug, Default)]
pub(crate) struct Boot {
    /// The name of the node.
    pub(crate) node: String,
    /// The files that were read.
    pub(crate) config_files: Vec<PathBuf>,
    /// Where log lines go, in RabbitMQ's words.
    pub(crate) log_files: Vec<String>,
    /// What can change how many of them there are.
    pub(crate) log: Option<Arc<dyn LogControl>>,
    /// Lines that the broker is to publish.
    pub(crate) for_exchange: Option<ForExchange>,
    /// Where data are; `None` in memory.
    pub(crate) data_dir: Option<PathBuf>,
    /// Names in the list of plugins.
    pub(crate) plugins: Vec<String>,
}

/// A listener and what it serves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Served {
    Amqp,
    Amqps,
    Http,
    Https,
    Metrics,
    MetricsTls,
}

impl Boot {
    /// Before anything is opened.
    pub(crate) fn begin(&self, product: &str, version: &str) {
        info!(
            "Starting Leveret {}, which answers as {product} {version}",
            env!("CARGO_PKG_VERSION")
        );
        info!(" node           : {}", self.node);
        let home = std::env::var("HOME").unwrap_or_default();
        info!(" home dir       : {home}");
        let mut files = self.config_files.iter();
        match files.next() {
            None => info!(" config file(s) : (none)"),
            Some(first) => info!(" config file(s) : {}", first.display()),
        }
        for file in files {
            info!("                : {}", file.display());
        }
        let mut logs = self.log_files.iter();
        if let Some(first) = logs.next() {
            info!(" log(s)         : {first}");
        }
        for log in logs {
            info!("                : {log}");
        }
        match &self.data_dir {
            None => info!(" data dir       : (none, in memory)"),
            Some(dir) => info!(" data dir       : {}", dir.display()),
        }
    }

    /// When everything is served, in as many lines as it takes.
    pub(crate) fn complete(&self, listening: &[(Served, SocketAddr)], took: Duration) {
        let mut said = Vec::new();
        for (served, address) in listening {
            let line = served.line(*address);
            if !said.contains(&line) {
                info!("{line}");
                said.push(line);
            }
        }
        let plugins = self.plugins_with(listening);
        info!("{COMPLETE}; {} plugins started.", plugins.len());
        for plugin in plugins {
            info!(" * {plugin}");
        }
        info!(
            "Time to start Leveret: {:.1} ms",
            took.as_secs_f64() * 1000.0
        );
    }

    /// What somebody has enabled, or, where nobody was asked, what is served.
    pub(crate) fn enabled_plugins(&self, listening: &[(Served, SocketAddr)]) -> Vec<String> {
        if !self.plugins.is_empty() {
            return self.plugins.clone();
        }
        let mut served = self.plugins_with(listening);
        served.retain(|name| !IMPLIED_PLUGINS.contains(&name.as_str()));
        served
    }

    /// What is listed, and what is served without being listed.
    pub(crate) fn plugins_with(&self, listening: &[(Served, SocketAddr)]) -> Vec<String> {
        let serves =
            |wanted: fn(&Served) -> bool| listening.iter().any(|(served, _)| wanted(served));
        let mut plugins = self.plugins.clone();
        if serves(|served| matches!(served, Served::Http | Served::Https)) {
            plugins.push("rabbitmq_management".to_owned());
            plugins.extend(IMPLIED_PLUGINS.map(str::to_owned));
        }
        if serves(|served| matches!(served, Served::Metrics | Served::MetricsTls)) {
            plugins.push("rabbitmq_prometheus".to_owned());
        }
        plugins.sort();
        plugins.dedup();
        plugins
    }
}

impl Served {
    fn line(self, address: SocketAddr) -> String {
        // Both families of every address are one listener to RabbitMQ.
        let address = if address.ip().is_unspecified() {
            format!("[::]:{}", address.port())
        } else {
            address.to_string()
        };
        let port = address.rsplit(':').next().unwrap_or_default();
        match self {
            Self::Amqp => format!("started TCP listener on {address}"),
            Self::Amqps => format!("started TLS (SSL) listener on {address}"),
            Self::Http => {
                format!("Management plugin: HTTP (non-TLS) listener started on port {port}")
            }
            Self::Https => format!("Management plugin: HTTPS listener started on port {port}"),
            Self::Metrics => {
                format!("Prometheus metrics: HTTP (non-TLS) listener started on port {port}")
            }
            Self::MetricsTls => {
                format!("Prometheus metrics: HTTPS listener started on port {port}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_told_in_rabbitmqs_words() {
        let every: SocketAddr = ([0, 0, 0, 0], 5672).into();
        let one: SocketAddr = ([127, 0, 0, 1], 5671).into();
        assert_eq!(
            Served::Amqp.line(every),
            "started TCP listener on [::]:5672"
        );
        assert_eq!(
            Served::Amqps.line(one),
            "started TLS (SSL) listener on 127.0.0.1:5671"
        );
        assert_eq!(
            Served::Http.line(every),
            "Management plugin: HTTP (non-TLS) listener started on port 5672"
        );
    }

    #[test]
    fn what_is_served_counts_as_a_plugin_once() {
        let boot = Boot {
            plugins: vec![
                "rabbitmq_management".to_owned(),
                "rabbitmq_shovel".to_owned(),
            ],
            ..Boot::default()
        };
        let http: SocketAddr = ([0, 0, 0, 0], 15672).into();
        let plugins = boot.plugins_with(&[(Served::Http, http)]);
        assert_eq!(
            plugins,
            [
                "rabbitmq_management",
                "rabbitmq_management_agent",
                "rabbitmq_shovel",
                "rabbitmq_web_dispatch"
            ]
        );
        assert!(Boot::default().plugins_with(&[]).is_empty());
    }
}
