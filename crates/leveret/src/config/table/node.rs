//! Names, what an empty broker begins with, and bounds of the whole.

use std::path::PathBuf;

use super::super::{
    keyed::{DefaultLimitsOfVhosts, DefaultOperatorPolicies, DefaultUsers, PatternText},
    setting::{
        Form::{Contents, Leaf, Named},
        Row, in_form, key,
    },
    value::{Limit, Value},
};
use super::types::QueueType;

settings! {
    NodeSettings "Node"

    /// Name of this node in the HTTP API and in texts; without @ the name of this machine is put behind it
    node_name: Option<String> {
        value_name: "NAME@HOST",
        default_words: "rabbit@ and the name of this machine",
        range: (1, 255),
        over: &[key("RABBITMQ_NODENAME")],
    }
    /// Name of the cluster that this broker is alone in, as the HTTP API and clients are told it; one that was given to it
    /// while it ran goes before it
    cluster_name: Option<String> {
        value_name: "NAME",
        default_words: "that of the node",
        range: (1, 255),
        keys: &[key("cluster_name")],
    }
    /// Users, vhosts, queues and so on, as the HTTP API exports them: applied at every start, before anybody is let in;
    /// a directory's files in the order of their names. Without data there is then nobody but those in the file
    definitions: Option<PathBuf> {
        value_name: "FILE",
        default_words: "none",
        keys: &[
            key("definitions.local.path"),
            key("management.load_definitions"),
            key("load_definitions"),
        ],
    }
    /// Messages, one JSON object a line (docs/in-tests.md): published at every start, after the definitions and before
    /// anybody is let in. For brokers of tests, which begin empty
    messages: Option<PathBuf> {
        value_name: "FILE",
        default_words: "none",
    }
    /// The administrator that an empty data directory gets
    default_user: String {
        value_name: "USER",
        default: "guest",
        range: (1, 255),
        keys: &[key("default_user")],
        over: &[key("RABBITMQ_DEFAULT_USER"), in_form("RABBITMQ_DEFAULT_USER_FILE", Contents)],
    }
    /// Their password
    default_pass: String {
        value_name: "PASSWORD",
        default: "guest",
        is_secret: true,
        keys: &[key("default_pass")],
        over: &[key("RABBITMQ_DEFAULT_PASS"), in_form("RABBITMQ_DEFAULT_PASS_FILE", Contents)],
    }
    /// Their tags
    default_user_tags: Vec<String> {
        value_name: "TAGS",
        default: "administrator",
        range: (1, 255),
        keys: &[in_form("default_user_tags.$tag", Named)],
    }
    /// Pattern of what they may declare and delete
    default_permission_configure: PatternText {
        value_name: "PATTERN",
        default: ".*",
        keys: &[key("default_permissions.configure")],
    }
    /// Pattern of what they may publish to
    default_permission_write: PatternText {
        value_name: "PATTERN",
        default: ".*",
        keys: &[key("default_permissions.write")],
    }
    /// Pattern of what they may consume from
    default_permission_read: PatternText {
        value_name: "PATTERN",
        default: ".*",
        keys: &[key("default_permissions.read")],
    }
    /// The vhost that an empty data directory gets
    default_vhost: String {
        value_name: "VHOST",
        default: "/",
        range: (1, 255),
        keys: &[key("default_vhost")],
        over: &[key("RABBITMQ_DEFAULT_VHOST")],
    }
    /// Users of every new vhost whose name matches their `vhost_pattern`: with the permissions `configure`, `write` and
    /// `read`; who is not there yet is made, with `password` and `tags`
    default_users: DefaultUsers {
        value_name: "USER.KEY=VALUE",
        default_words: "none",
        is_secret: true,
        keys: &[
            in_form("default_users.$name.vhost_pattern", Leaf),
            in_form("default_users.$name.password", Leaf),
            in_form("default_users.$name.tags", Leaf),
            in_form("default_users.$name.configure", Leaf),
            in_form("default_users.$name.write", Leaf),
            in_form("default_users.$name.read", Leaf),
        ],
    }
    /// Operator policies of every new vhost whose name matches their `vhost_pattern`
    default_operator_policies: DefaultOperatorPolicies {
        value_name: "POLICY.KEY=VALUE",
        default_words: "none",
        keys: &[
            in_form("default_policies.operator.$name.vhost_pattern", Leaf),
            in_form("default_policies.operator.$name.queue_pattern", Leaf),
            in_form("default_policies.operator.$name.apply_to", Leaf),
            in_form("default_policies.operator.$name.expires", Leaf),
            in_form("default_policies.operator.$name.message_ttl", Leaf),
            in_form("default_policies.operator.$name.max_length", Leaf),
            in_form("default_policies.operator.$name.max_length_bytes", Leaf),
            in_form("default_policies.operator.$name.max_in_memory_length", Leaf),
            in_form("default_policies.operator.$name.max_in_memory_bytes", Leaf),
            in_form("default_policies.operator.$name.delivery_limit", Leaf),
        ],
    }
    /// Limits of every new vhost whose name matches their `pattern`; the first that does counts, by their names
    default_vhost_limits: DefaultLimitsOfVhosts {
        value_name: "NAME.KEY=VALUE",
        default_words: "none",
        keys: &[
            in_form("default_limits.vhosts.$name.pattern", Leaf),
            in_form("default_limits.vhosts.$name.max_connections", Leaf),
            in_form("default_limits.vhosts.$name.max_queues", Leaf),
        ],
    }
    /// The type of a durable queue whose declaration names none, in vhosts that name none either
    default_queue_type: QueueType {
        value_name: "TYPE",
        default: "classic",
        keys: &[key("default_queue_type")],
    }
    /// Users who may log in from this machine only; `none` for nobody
    loopback_users: Vec<String> {
        value_name: "USER",
        default: "guest",
        range: (1, 255),
        keys: &[in_form("loopback_users.$user", Named), key("loopback_users")],
    }
    /// Whether what happens to connections, queues, users and so on is told as messages of the exchange
    /// `amq.rabbitmq.event`; as rabbitmq-server also if the plugin rabbitmq_event_exchange is enabled
    event_exchange: bool {
        value_name: "BOOL",
        default: "false",
    }
    /// Connections that may be open at once
    connection_max: Limit {
        value_name: "N",
        default_words: "any number",
        keys: &[key("max_connections"), key("connection_max")],
    }
    /// Vhosts there may be
    vhost_max: Limit {
        value_name: "N",
        default_words: "any number",
        keys: &[key("vhost_max")],
    }
    /// Channels that may be open at once, over all connections
    channel_max_per_node: Limit {
        value_name: "N",
        default_words: "any number",
        keys: &[key("channel_max_per_node")],
    }
}
