//! The HTTP API and the metrics.

use super::super::{
    setting::{Form::Member, Row, in_form, key},
    value::{Bytes, Millis, Value},
};
use super::MESSAGE_SIZE_CAP;
use super::types::{HeaderText, RatesMode};

settings! {
    HttpSettings "HTTP"

    /// Path below which the HTTP API is, such as `/mq`
    http_path_prefix: String {
        value_name: "PATH",
        default_words: "none",
        keys: &[key("management.path_prefix")],
    }
    /// How long the head of a request may take, and a connection be idle, in milliseconds
    http_request_timeout: Millis {
        value_name: "MILLIS",
        default: "5000",
        range: (1, 604_800_000),
        keys: &[key("management.tcp.request_timeout"), key("management.ssl.request_timeout")],
    }
    /// How long the body of a request may take, in milliseconds
    http_body_timeout: Millis {
        value_name: "MILLIS",
        default: "60000",
        range: (1, 604_800_000),
        keys: &[key("management.tcp.idle_timeout"), key("management.ssl.idle_timeout")],
    }
    /// Origins whose pages may use the HTTP API; `*` for every one
    http_cors_origins: Vec<String> {
        value_name: "ORIGIN",
        default_words: "none",
        keys: &[
            key("management.cors.allow_origins"),
            in_form("management.cors.allow_origins.$number", Member),
        ],
    }
    /// How long a browser may remember that it may, in seconds
    http_cors_max_age_secs: Option<u64> {
        value_name: "SECS",
        default: "1800",
        keys: &[key("management.cors.max_age")],
    }
    /// Largest body of a request
    http_body_max: Bytes {
        value_name: "SIZE",
        default: "20000000",
        range: (1, MESSAGE_SIZE_CAP),
        keys: &[key("management.http.max_body_size")],
    }
    /// `content-security-policy` of every answer
    http_csp: Option<HeaderText> {
        value_name: "TEXT",
        default_words: "script-src 'self'; object-src 'self'",
        keys: &[key("management.csp.policy")],
    }
    /// `strict-transport-security` of every answer
    http_hsts: Option<HeaderText> {
        value_name: "TEXT",
        default_words: "max-age=31536000 with TLS, else none",
        keys: &[key("management.hsts.policy")],
    }
    /// `x-content-type-options` of every answer
    http_content_type_options: Option<HeaderText> {
        value_name: "TEXT",
        default_words: "nosniff",
        keys: &[key("management.headers.content_type_options")],
    }
    /// `x-frame-options` of every answer
    http_frame_options: Option<HeaderText> {
        value_name: "TEXT",
        default_words: "DENY",
        keys: &[key("management.headers.frame_options")],
    }
    /// `x-xss-protection` of every answer
    http_xss_protection: Option<HeaderText> {
        value_name: "TEXT",
        default_words: "none",
        keys: &[key("management.headers.xss_protection")],
    }
    /// `referrer-policy` of every answer
    http_referrer_policy: Option<HeaderText> {
        value_name: "TEXT",
        default_words: "no-referrer",
        keys: &[key("management.headers.referrer_policy")],
    }
    /// Which rates the HTTP API shows: with `none` queues, exchanges, channels and vhosts are without `message_stats`;
    /// `detailed` shows what `basic` does
    rates_mode: RatesMode {
        value_name: "MODE",
        default: "basic",
        keys: &[key("management.rates_mode")],
    }
    /// The HTTP API answers every request as if it said `disable_stats=true`
    http_disable_stats: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("management.disable_stats")],
    }
    /// And shows the depths of queues all the same
    http_enable_queue_totals: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("management.enable_queue_totals")],
    }
    /// Nobody sees or changes operator policies over HTTP
    operator_policies_fixed: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("management.restrictions.operator_policy_changes.disabled")],
    }
    /// Told to pages that upload definitions: the file's name must end in `.json`
    http_json_extension: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("management.definitions.require_json_extension")],
    }
    /// Told to pages that log in: after how many minutes they should ask for the password again
    http_login_session: Option<u64> {
        value_name: "MINUTES",
        default_words: "never",
        keys: &[key("management.login_session_timeout")],
    }
    /// Where the metrics are
    metrics_path: String {
        value_name: "PATH",
        default: "/metrics",
        keys: &[key("prometheus.path")],
    }
    /// `/metrics` has a series for every object, as `/metrics/per-object` always has
    metrics_per_object: bool {
        value_name: "BOOL",
        default: "false",
        keys: &[key("prometheus.return_per_object_metrics")],
    }
}
