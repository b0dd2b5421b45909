//! What is logged, where, and in which form.

use std::path::PathBuf;

use super::super::{
    setting::{
        Form::{IfAllowed, Pair},
        Row, in_form, key,
    },
    value::{Bytes, Value},
};
use super::types::{
    LogCategories, LogFileName, LogFormat, LogLevel, LogMoments, LogTo, SyslogFacility,
    SyslogProtocol, SyslogTransport,
};

settings! {
    LogSettings "Logging"

    /// How much is logged
    log_level: LogLevel {
        value_name: "LEVEL",
        default: "info",
        keys: &[key("log.level"), key("log.default.level")],
        over: &[in_form("RABBITMQ_LOG", IfAllowed)],
    }
    /// Whether the log goes to the console; it does in any case if it goes to no file
    log_console: bool {
        value_name: "BOOL",
        default: "true",
        keys: &[key("log.console.enabled"), key("log.console")],
    }
    /// Which console
    log_to: Option<LogTo> {
        value_name: "WHERE",
        default_words: "stderr; stdout as rabbitmq-server",
    }
    /// How much goes there, where it is another level
    log_console_level: Option<LogLevel> {
        value_name: "LEVEL",
        default_words: "that of log_level",
        keys: &[key("log.console.level")],
    }
    /// Lines for people, as RabbitMQ writes them, or for machines
    log_format: LogFormat {
        value_name: "FORMAT",
        default: "text",
        keys: &[key("log.console.formatter")],
    }
    /// A file that the log goes to; `-` for none and the console in any case
    log_file: LogFileName {
        value_name: "FILE",
        default_words: "none",
        keys: &[key("log.file")],
        over: &[key("RABBITMQ_LOGS")],
    }
    /// The directory of that file, if its name is not that of a path from the root
    log_dir: Option<PathBuf> {
        value_name: "DIR",
        default_words: "the current one",
        keys: &[key("log.dir")],
        over: &[key("RABBITMQ_LOG_BASE")],
    }
    /// How much goes there, where it is another level
    log_file_level: Option<LogLevel> {
        value_name: "LEVEL",
        default_words: "that of log_level",
        keys: &[key("log.file.level")],
    }
    /// Lines for people or for machines
    log_file_format: LogFormat {
        value_name: "FORMAT",
        default: "text",
        keys: &[key("log.file.formatter")],
    }
    /// Size at which the file is put aside under a number; 0 for never
    log_file_rotation_size: Option<Bytes> {
        value_name: "SIZE",
        default_words: "never; a file that was moved away is opened anew",
        keys: &[key("log.file.rotation.size")],
    }
    /// How many of those are kept
    log_file_rotation_count: u32 {
        value_name: "N",
        default: "5",
        range: (0, 1000),
        keys: &[key("log.file.rotation.count")],
    }
    /// Moments at which the file is put aside as well, in UTC: `$D0` every midnight, `$W1D5` every Monday at five, `$M1D0`
    /// the first of every month, `$H30` half past every hour
    log_file_rotation_date: Option<LogMoments> {
        value_name: "MOMENTS",
        default_words: "none",
        keys: &[key("log.file.rotation.date")],
    }
    /// Whether files that are put aside are packed with gzip: `leveret.log.0.gz`
    log_file_rotation_compress: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("log.file.rotation.compress")],
    }
    /// Whether every line is published to the exchange `amq.rabbitmq.log` of the default vhost, with its level as key
    log_exchange: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("log.exchange.enabled"), key("log.exchange")],
    }
    /// How much goes there, where it is another level
    log_exchange_level: Option<LogLevel> {
        value_name: "LEVEL",
        default_words: "that of log_level",
        keys: &[key("log.exchange.level")],
    }
    /// Lines for people or for machines
    log_exchange_format: LogFormat {
        value_name: "FORMAT",
        default: "text",
        keys: &[key("log.exchange.formatter")],
    }
    /// Whether the log goes to syslog
    log_syslog: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("log.syslog.enabled"), key("log.syslog")],
    }
    /// How much goes there, where it is another level
    log_syslog_level: Option<LogLevel> {
        value_name: "LEVEL",
        default_words: "that of log_level",
        keys: &[key("log.syslog.level")],
    }
    /// Lines for people or for machines
    log_syslog_format: LogFormat {
        value_name: "FORMAT",
        default: "text",
        keys: &[key("log.syslog.formatter")],
    }
    /// Its host
    log_syslog_host: String {
        value_name: "HOST",
        default: "localhost",
        range: (1, 255),
        keys: &[key("log.syslog.ip"), key("log.syslog.host")],
    }
    /// Its port
    log_syslog_port: u16 {
        value_name: "PORT",
        default: "514",
        range: (1, 65535),
        keys: &[key("log.syslog.port")],
    }
    /// How it is reached
    log_syslog_transport: SyslogTransport {
        value_name: "HOW",
        default: "udp",
        keys: &[key("log.syslog.transport")],
    }
    /// The form of its messages
    log_syslog_protocol: SyslogProtocol {
        value_name: "FORM",
        default: "rfc3164",
        keys: &[key("log.syslog.protocol")],
    }
    /// Which part of a system the broker is to it
    log_syslog_facility: SyslogFacility {
        value_name: "NAME",
        default: "daemon",
        keys: &[key("log.syslog.facility")],
    }
    /// What the broker calls itself in syslog and in the journal
    log_syslog_identity: String {
        value_name: "NAME",
        default: "rabbitmq-server",
        range: (1, 48),
        keys: &[key("log.syslog.identity")],
    }
    /// Whether the log goes to the journal of systemd
    log_journald: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("log.journald.enabled"), key("log.journald")],
    }
    /// How much goes there, where it is another level
    log_journald_level: Option<LogLevel> {
        value_name: "LEVEL",
        default_words: "that of log_level",
        keys: &[key("log.journald.level")],
    }
    /// Other levels for what belongs to a category: connection, channel, queue, default; those that only RabbitMQ has are
    /// taken too
    log_categories: LogCategories {
        value_name: "CATEGORY=LEVEL",
        default_words: "none",
        keys: &[in_form("log.$category.level", Pair)],
    }
}
