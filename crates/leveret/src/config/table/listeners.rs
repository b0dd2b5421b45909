//! Addresses, and what tells others of them.

use std::path::PathBuf;

use super::super::{
    setting::{
        Form::{Ip, Member, Port},
        Row, in_form, key,
    },
    value::{Endpoint, OptionalEndpoint, Value},
};

settings! {
    ListenerSettings "Listeners"

    /// Address and port for AMQP clients; may be given several times; port 0 takes any free one, a port alone is one of
    /// every address, IPv4 and IPv6
    listen: Option<Vec<Endpoint>> {
        value_name: "ADDR:PORT",
        default_words: "5672",
        port: 5672,
        keys: &[in_form("listeners.tcp.$name", Member), key("listeners.tcp")],
        under: &[in_form("RABBITMQ_NODE_PORT", Port), in_form("RABBITMQ_NODE_IP_ADDRESS", Ip)],
    }
    /// Address and port of the HTTP API, or `off`; port 0 takes any free one
    http_listen: Option<OptionalEndpoint> {
        value_name: "ADDR:PORT|off",
        default_words: "15672; off beside --listen",
        port: 15672,
        keys: &[
            in_form("management.listener.port", Port),
            in_form("management.listener.ip", Ip),
            in_form("management.tcp.port", Port),
            in_form("management.tcp.ip", Ip),
        ],
    }
    /// Address and port of the metrics for Prometheus, or `off`; port 0 takes any free one
    metrics_listen: Option<OptionalEndpoint> {
        value_name: "ADDR:PORT|off",
        default_words: "15692; off beside --listen",
        port: 15692,
        keys: &[in_form("prometheus.tcp.port", Port), in_form("prometheus.tcp.ip", Ip)],
    }
    /// Write the ports in use to this file once connections are accepted, as one line of JSON. Where a port was 0 the
    /// same line goes to standard output
    ports_file: Option<PathBuf> {
        value_name: "FILE",
        default_words: "none",
    }
    /// Write the process id to this file once connections are accepted
    pid_file: Option<PathBuf> {
        value_name: "FILE",
        default_words: "none; beside the data directory as rabbitmq-server",
        over: &[key("RABBITMQ_PID_FILE")],
    }
}
