//! Every setting there is, once. From this come the flags and their help, the variables, the keys of rabbitmq.conf and
//! of TOML, what `leveret config` prints, what is suggested for a name that does not exist, and docs/configuration.md.
//!
//! To add one: a row in `settings!` below; it is then a field of [`Settings`], a flag, a `LEVERET_` variable and a key
//! in TOML under its own name. `keys` are its names in rabbitmq.conf, `over` and `under` RabbitMQ's own variables for it,
//! which a configuration file yields to or overrides. Then `leveret config document > docs/configuration.md`.

mod types;
mod without_effect;

use std::path::PathBuf;

use leveret_issuer::Address;
use leveret_runtime::Amount;
use leveret_server::Network;

use self::types::{HeaderText, HostFiles, LogCategories, NamedFiles, Wordlists};
pub(crate) use self::{
    types::{
        AuthBackendName, AuthMechanism, ClientCrlCheck, LogFileName, LogFormat, LogLevel,
        LogMoments, LogTo, LoginPart, PasswordHashing, QueueType, RatesMode, SanType, Storage,
        StorageSync, SyslogFacility, SyslogProtocol, SyslogTransport, TlsVersion, TokenAlgorithm,
        VerifyWhom,
    },
    without_effect::WITHOUT_EFFECT,
};
use super::{
    keyed::{DefaultLimitsOfVhosts, DefaultOperatorPolicies, DefaultUsers, PatternText},
    setting::{
        Form::{Branch, Contents, IfAllowed, Ip, Leaf, Member, Named, Pair, Port, Share, Size},
        Row, in_form, key,
    },
    tokens::{CrlCheck, NamedTexts, Providers, Servers},
    value::{Bytes, Endpoint, Limit, Millis, OptionalEndpoint, Secs, Value},
};

/// No operator can allow a larger body.
const MESSAGE_SIZE_CAP: u64 = 512 * 1024 * 1024;

macro_rules! settings {
    ($($section:literal { $(
        $(#[doc = $doc:literal])+
        $name:ident: $type:ty { $($attribute:ident: $value:expr),* $(,)? }
    )* })*) => {
        /// What everything is set to.
        #[derive(Debug)]
        #[expect(dead_code, reason = "those about configuration itself are read while the others are merged")]
        pub(crate) struct Settings {
            $($( $(#[doc = $doc])+ pub(crate) $name: $type, )*)*
        }

        /// The table.
        pub(crate) static ROWS: &[Row] = &[$($(
            Row {
                $($attribute: $value,)*
                ..Row::of::<$type>(stringify!($name), $section, concat!($($doc, "\n"),+))
            },
        )*)*];

        impl Settings {
            /// From one text for each row; `None` if one of them is not allowed.
            pub(crate) fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
                let mut texts = ROWS.iter().zip(texts);
                Some(Self { $($(
                    $name: {
                        let (row, text) = texts.next()?;
                        <$type as Value>::read(text, row.range)?
                    },
                )*)* })
            }
        }
    };
}

settings! {
    "Configuration" {
        /// Files to read settings from: TOML if the name ends in .toml, else lines as in rabbitmq.conf. Of several the
        /// later overrides the earlier
        config: Vec<PathBuf> {
            value_name: "FILE",
        }
        /// Whether a key that does not exist keeps the broker from starting; it is a warning otherwise
        config_strict: bool {
            value_name: "BOOL",
            default: "false",
        }
    }

    "Storage" {
        /// Directory for everything durable; made if it is missing, used by one broker at a time
        data_dir: Option<PathBuf> {
            value_name: "DIR",
            default_words: "./leveret-data",
            over: &[key("RABBITMQ_MNESIA_DIR")],
        }
        /// Directory in which the data directory lies, under the name of the node; --data-dir overrides it
        data_base: Option<PathBuf> {
            value_name: "DIR",
            default_words: "none; /var/lib/rabbitmq/mnesia as rabbitmq-server",
            over: &[key("RABBITMQ_MNESIA_BASE")],
        }
        /// Where queues and messages are kept: in the data directory, or in memory, for tests: nothing then outlives the
        /// process, and the data directory is not touched
        storage: Storage {
            value_name: "WHERE",
            default: "disk",
        }
        /// When a message counts as stored and is confirmed; docs/durability.md tells what each promises
        storage_sync: StorageSync {
            value_name: "WHEN",
            default: "always",
        }
        /// Memory in use from which on publishers wait, told by connection.blocked: a size like 512MiB, or a share of the
        /// memory this machine or container has
        memory_limit: Amount {
            value_name: "SIZE",
            default: "0.6",
            keys: &[
                key("vm_memory_high_watermark"),
                in_form("vm_memory_high_watermark.relative", Share),
                in_form("vm_memory_high_watermark.absolute", Size),
            ],
            over: &[key("RABBITMQ_VM_MEMORY_HIGH_WATERMARK")],
        }
        /// Memory to take shares of, in place of what this machine or container has
        total_memory: Option<Bytes> {
            value_name: "SIZE",
            default_words: "what the machine or the control group has",
            range: (1, u64::MAX),
            keys: &[key("total_memory_available_override_value")],
        }
        /// Free space on the disk of the data directory below which publishers wait
        disk_free_limit: Amount {
            value_name: "SIZE",
            default: "50MB",
            keys: &[
                key("disk_free_limit"),
                in_form("disk_free_limit.relative", Share),
                in_form("disk_free_limit.absolute", Size),
            ],
        }
    }

    "Listeners" {
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

    "Node" {
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

    "Connections" {
        /// Largest body in bytes; a larger one closes the channel
        max_message_size: Bytes {
            value_name: "BYTES",
            default: "16777216",
            range: (1, MESSAGE_SIZE_CAP),
            keys: &[key("max_message_size")],
        }
        /// Largest frame in bytes
        frame_max: Bytes {
            value_name: "BYTES",
            default: "131072",
            range: (8192, 0x7fff_ffff),
            keys: &[key("frame_max")],
        }
        /// How long a consumer of a quorum queue may keep a message without an ack, in milliseconds, when neither the queue,
        /// its policy nor the consumer says; then the message goes to another. 0 is as long as it likes
        consumer_timeout: Millis {
            value_name: "TIME",
            default: "1800000",
            range: (0, u64::MAX),
            keys: &[key("consumer_timeout")],
        }
        /// Channels that a client may have open at once; 0 is as many as there are numbers for
        channel_max: u16 {
            value_name: "N",
            default: "2047",
            range: (0, 65535),
            keys: &[key("max_channels_per_connection"), key("channel_max")],
        }
        /// Heartbeat interval that clients are offered, in seconds; 0 offers none
        heartbeat: Secs {
            value_name: "SECS",
            default: "60",
            keys: &[key("heartbeat")],
        }
        /// From accept to the end of the login, in milliseconds
        handshake_timeout: Millis {
            value_name: "MILLIS",
            default: "10000",
            range: (1, 3_600_000),
            keys: &[key("handshake_timeout")],
        }
        /// Ways to log in that clients are offered
        auth_mechanisms: Vec<AuthMechanism> {
            value_name: "NAMES",
            default: "plain,anonymous,amqplain",
            keys: &[in_form("auth_mechanisms.$n", Member)],
        }
        /// Who is asked, one after the other, whether somebody may come in: `internal` are the users of this broker,
        /// `oauth2` takes an access token as the password. There are no others, which is told at the start
        auth_backends: Vec<AuthBackendName> {
            value_name: "NAMES",
            default: "internal",
            range: (1, 64),
            keys: &[in_form("auth_backends.$n", Member)],
        }
        /// Logins from one address (of IPv6: one network of 64 bits) that may fail within a minute; then for the rest of it
        /// nobody from there is listened to. 0 is any number
        login_failures_max: u32 {
            value_name: "N",
            default: "1000",
        }
        /// How new passwords are hashed; those that are stored stay as they are, and each user logs in with theirs. Definitions go
        /// to RabbitMQ and back with all but `argon2id`, which makes a stolen hash hard to guess from: it takes 19 MiB and some
        /// ten milliseconds for each login, of which two at a time
        password_hashing: PasswordHashing {
            value_name: "NAME",
            default: "sha256",
            keys: &[key("password_hashing_module")],
        }
        /// Largest frame before a client has logged in; an access token must have room in it
        initial_frame_max: Bytes {
            value_name: "BYTES",
            default: "8192",
            range: (4096, 0x7fff_ffff),
            keys: &[key("initial_frame_max")],
        }
        /// Who an anonymous client is; `none` for nobody
        anonymous_login_user: String {
            value_name: "USER",
            default: "guest",
            range: (1, 255),
            keys: &[key("anonymous_login_user")],
        }
        /// Product that clients are told; some libraries look for RabbitMQ
        compat_product: String {
            value_name: "NAME",
            default: "RabbitMQ",
        }
        /// Version that clients are told
        compat_version: String {
            value_name: "VERSION",
            default: "4.3.6",
        }
        /// Whether what RabbitMQ 4.3 does not do any more, or permits for the time being only, is refused: queues that
        /// neither last nor are exclusive, `x-queue-mode`, and a prefetch that all consumers of a channel share, which is
        /// then one of each consumer. Older releases do all of that
        compat_strict: bool {
            value_name: "BOOL",
            default: "false",
        }
        /// Whether consumers of a channel may share a prefetch (`basic.qos` with `global`); if not, it is one of each
        /// consumer. RabbitMQ permits it only if told to
        permit_global_qos: bool {
            value_name: "BOOL",
            default: "true",
            keys: &[key("deprecated_features.permit.global_qos")],
        }
        /// Whether there may be new queues that neither last nor are exclusive
        permit_transient_nonexcl_queues: bool {
            value_name: "BOOL",
            default: "true",
            keys: &[key("deprecated_features.permit.transient_nonexcl_queues")],
        }
        /// Whether classic queues take `x-queue-master-locator`, which has no effect
        permit_queue_master_locator: bool {
            value_name: "BOOL",
            default: "false",
            keys: &[key("deprecated_features.permit.queue_master_locator")],
        }
    }

    "Access tokens (OAuth 2)" {
        /// Who this broker is: one of the audiences of a token that is for it
        oauth2_resource_server_id: Option<String> {
            value_name: "ID",
            default_words: "none: every token is refused",
            range: (1, 4096),
            keys: &[key("auth_oauth2.resource_server_id")],
        }
        /// What scopes that are for this broker begin with
        oauth2_scope_prefix: Option<String> {
            value_name: "TEXT",
            default_words: "oauth2_resource_server_id and a point",
            range: (0, 4096),
            keys: &[key("auth_oauth2.scope_prefix")],
        }
        /// Claims beside `scope` that have scopes, with spaces between them; a point leads into an object
        oauth2_additional_scopes_key: Option<String> {
            value_name: "CLAIMS",
            default_words: "none",
            range: (1, 4096),
            keys: &[key("auth_oauth2.additional_scopes_key")],
        }
        /// Scopes that stand for others: `ALIAS=SCOPE SCOPE`
        oauth2_scope_aliases: Wordlists {
            value_name: "ALIAS=SCOPES",
            default_words: "none",
            keys: &[in_form("auth_oauth2.scope_aliases.$alias", Pair)],
        }
        /// The alias of `oauth2_scope_alias_scopes` with the same number: `1=ALIAS`, as rabbitmq.conf has them
        oauth2_scope_alias_names: Wordlists {
            value_name: "N=ALIAS",
            default_words: "none",
            keys: &[in_form("auth_oauth2.scope_aliases.$index.alias", Pair)],
        }
        /// What the alias of that number stands for: `1=SCOPE SCOPE`
        oauth2_scope_alias_scopes: Wordlists {
            value_name: "N=SCOPES",
            default_words: "none",
            keys: &[in_form("auth_oauth2.scope_aliases.$index.scope", Pair)],
        }
        /// Claims that may name the user; the first of them that a token has does
        oauth2_preferred_username_claims: Vec<String> {
            value_name: "CLAIMS",
            default: "sub,client_id",
            range: (1, 4096),
            keys: &[in_form("auth_oauth2.preferred_username_claims.$n", Member)],
        }
        /// Whether a token that is not for this broker is refused
        oauth2_verify_aud: bool {
            value_name: "BOOL",
            default: "true",
            keys: &[key("auth_oauth2.verify_aud")],
        }
        /// Whether a token without an end is refused
        oauth2_require_exp: bool {
            value_name: "BOOL",
            default: "true",
            keys: &[key("auth_oauth2.require_exp")],
        }
        /// Public keys that tokens are signed with, in PEM: `ID=FILE`
        oauth2_signing_keys: NamedFiles {
            value_name: "ID=FILE",
            default_words: "none",
            keys: &[in_form("auth_oauth2.signing_keys.$id", Pair)],
        }
        /// The key of tokens that name none
        oauth2_default_key: Option<String> {
            value_name: "ID",
            default_words: "none: such a token is refused",
            range: (1, 4096),
            keys: &[key("auth_oauth2.default_key")],
        }
        /// Algorithms that are accepted; what is signed with a shared secret is never accepted
        oauth2_algorithms: Vec<TokenAlgorithm> {
            value_name: "NAMES",
            default_words: "all that fit the key",
            keys: &[in_form("auth_oauth2.algorithms.$n", Member)],
        }
        /// Where the issuer publishes its keys, as a URL of https. They are asked for at the start, every hour, and when a token
        /// has a key that is not known, then at most once in five seconds
        oauth2_jwks_uri: Option<Address> {
            value_name: "URL",
            default_words: "none",
            keys: &[key("auth_oauth2.jwks_url"), key("auth_oauth2.jwks_uri")],
        }
        /// The issuer, as a URL of https: what it says of itself below that tells where its keys are, unless
        /// `oauth2_jwks_uri` does
        oauth2_issuer: Option<Address> {
            value_name: "URL",
            default_words: "none",
            keys: &[key("auth_oauth2.issuer")],
        }
        /// Where below its URL the issuer says that
        oauth2_discovery_endpoint_path: Option<String> {
            value_name: "PATH",
            default_words: ".well-known/openid-configuration",
            range: (1, 4096),
            keys: &[key("auth_oauth2.discovery_endpoint_path")],
        }
        /// What is put behind that as its query: `NAME=TEXT`
        oauth2_discovery_endpoint_params: NamedTexts {
            value_name: "NAME=TEXT",
            default_words: "none",
            keys: &[in_form("auth_oauth2.discovery_endpoint_params.$param", Pair)],
        }
        /// The authorities that certificates of those who publish keys must lead to, in PEM; read each time
        oauth2_https_cacertfile: Option<PathBuf> {
            value_name: "FILE",
            default_words: "those of the system",
            keys: &[key("auth_oauth2.https.cacertfile")],
        }
        /// Whether that is asked of them at all. Without it whoever is between them and this broker says who may come in
        oauth2_https_verify: VerifyWhom {
            value_name: "WHOM",
            default: "peer",
            keys: &[
                key("auth_oauth2.https.peer_verification"),
                key("auth_oauth2.https.verify"),
            ],
        }
        /// Certificates that may lie between theirs and the authority's
        oauth2_https_depth: u32 {
            value_name: "N",
            default: "10",
            keys: &[key("auth_oauth2.https.depth")],
        }
        /// Whether certificates are looked for in lists of those that were taken back. There is no such look here: whoever
        /// asks for it is told at the start, which fails
        oauth2_https_crl_check: CrlCheck {
            value_name: "WORD",
            default: "false",
            keys: &[key("auth_oauth2.https.crl_check")],
        }
        /// The one of `oauth2_providers` that signs tokens for those who name none
        oauth2_default_provider: Option<String> {
            value_name: "PROVIDER",
            default_words: "the one of the settings above",
            range: (1, 4096),
            keys: &[key("auth_oauth2.default_oauth_provider")],
        }
        /// Further providers of keys: `PROVIDER.KEY=VALUE`, with the keys of rabbitmq.conf
        oauth2_providers: Providers {
            value_name: "PROVIDER.KEY=VALUE",
            default_words: "none",
            keys: &[
                in_form("auth_oauth2.oauth_providers.$name.issuer", Branch),
                in_form("auth_oauth2.oauth_providers.$name.jwks_uri", Branch),
                in_form("auth_oauth2.oauth_providers.$name.discovery_endpoint_path", Branch),
                in_form("auth_oauth2.oauth_providers.$name.discovery_endpoint_params.$param", Branch),
                in_form("auth_oauth2.oauth_providers.$name.default_key", Branch),
                in_form("auth_oauth2.oauth_providers.$name.signing_keys.$id", Branch),
                in_form("auth_oauth2.oauth_providers.$name.algorithms.$n", Branch),
                in_form("auth_oauth2.oauth_providers.$name.https.verify", Branch),
                in_form("auth_oauth2.oauth_providers.$name.https.peer_verification", Branch),
                in_form("auth_oauth2.oauth_providers.$name.https.cacertfile", Branch),
                in_form("auth_oauth2.oauth_providers.$name.https.depth", Branch),
                in_form("auth_oauth2.oauth_providers.$name.https.crl_check", Branch),
            ],
        }
        /// Further resource servers that this broker is: `NAME.KEY=VALUE`, with the keys of rabbitmq.conf. What is not said of
        /// one is as it is for `oauth2_resource_server_id`
        oauth2_resource_servers: Servers {
            value_name: "NAME.KEY=VALUE",
            default_words: "none",
            keys: &[
                in_form("auth_oauth2.resource_servers.$name.id", Branch),
                in_form("auth_oauth2.resource_servers.$name.oauth_provider_id", Branch),
                in_form("auth_oauth2.resource_servers.$name.scope_prefix", Branch),
                in_form("auth_oauth2.resource_servers.$name.additional_scopes_key", Branch),
                in_form("auth_oauth2.resource_servers.$name.verify_aud", Branch),
                in_form("auth_oauth2.resource_servers.$name.require_exp", Branch),
                in_form("auth_oauth2.resource_servers.$name.preferred_username_claims.$n", Branch),
                in_form("auth_oauth2.resource_servers.$name.scope_aliases.$alias", Branch),
                in_form("auth_oauth2.resource_servers.$name.scope_aliases.$index.alias", Branch),
                in_form("auth_oauth2.resource_servers.$name.scope_aliases.$index.scope", Branch),
            ],
        }
    }

    "TLS" {
        /// The broker's certificate and its chain, in PEM; with it AMQP clients can use TLS
        tls_cert: Option<PathBuf> {
            value_name: "FILE",
            default_words: "none",
            keys: &[key("ssl_options.certfile")],
            over: &[key("RABBITMQ_SSL_CERTFILE")],
        }
        /// The key of that certificate, in PEM, not encrypted
        tls_key: Option<PathBuf> {
            value_name: "FILE",
            default_words: "none",
            keys: &[key("ssl_options.keyfile")],
            over: &[key("RABBITMQ_SSL_KEYFILE")],
        }
        /// Another certificate and key, for clients that ask for this host; may be given several times
        tls_host: HostFiles {
            value_name: "HOST=CERT,KEY",
            default_words: "none",
        }
        /// Authorities whose certificates clients may show, in PEM
        tls_ca: Option<PathBuf> {
            value_name: "FILE",
            default_words: "none",
            keys: &[key("ssl_options.cacertfile")],
            over: &[key("RABBITMQ_SSL_CACERTFILE")],
        }
        /// Whether clients are asked for a certificate
        tls_verify: VerifyWhom {
            value_name: "WHOM",
            default: "none",
            keys: &[key("ssl_options.verify")],
            over: &[key("RABBITMQ_SSL_VERIFY")],
        }
        /// Send clients away that show no certificate
        tls_require_client_cert: bool {
            value_name: "BOOL",
            default: "false",
            keys: &[key("ssl_options.fail_if_no_peer_cert")],
            over: &[key("RABBITMQ_SSL_FAIL_IF_NO_PEER_CERT")],
        }
        /// Certificates that may lie between a client's own and an authority
        tls_depth: u32 {
            value_name: "N",
            default: "10",
            keys: &[key("ssl_options.depth")],
        }
        /// Whether certificates of clients are looked for in lists of those that were taken back
        tls_crl_check: ClientCrlCheck {
            value_name: "WORD",
            default: "false",
            keys: &[key("ssl_options.crl_check")],
        }
        /// Directories with these lists, in PEM or DER; read anew when they change
        tls_crl_dirs: Vec<PathBuf> {
            value_name: "DIRECTORIES",
            default_words: "none",
            keys: &[in_form("ssl_options.crl_sources.$n.path", Member)],
        }
        /// Versions offered
        tls_versions: Vec<TlsVersion> {
            value_name: "VERSIONS",
            default_words: "both",
            keys: &[in_form("ssl_options.versions.$n", Member)],
        }
        /// Cipher suites offered, by OpenSSL's names, best first
        tls_ciphers: Vec<String> {
            value_name: "NAMES",
            default_words: "all that are known to be good",
            keys: &[in_form("ssl_options.ciphers.$n", Member)],
        }
        /// Take the first of these suites that the client has, not the first of the client's
        tls_honor_cipher_order: bool {
            value_name: "BOOL",
            default: "false",
            keys: &[key("ssl_options.honor_cipher_order")],
        }
        /// How long a TLS handshake may take, in milliseconds
        ssl_handshake_timeout: Millis {
            value_name: "MILLIS",
            default: "5000",
            range: (1, 3_600_000),
            keys: &[key("ssl_handshake_timeout")],
        }
        /// Which part of a client's certificate is the user's name, for the mechanism EXTERNAL
        ssl_cert_login_from: LoginPart {
            value_name: "PART",
            default: "distinguished-name",
            keys: &[key("ssl_cert_login_from")],
        }
        /// The type of that alternative name, where ssl_cert_login_from names none
        ssl_cert_login_san_type: SanType {
            value_name: "TYPE",
            default: "dns",
            keys: &[key("ssl_cert_login_san_type")],
        }
        /// Which of several alternative names of that type, from 0
        ssl_cert_login_san_index: u16 {
            value_name: "N",
            default: "0",
            keys: &[key("ssl_cert_login_san_index")],
        }
        /// Address and port for AMQP clients that use TLS; may be given several times
        tls_listen: Option<Vec<Endpoint>> {
            value_name: "ADDR:PORT",
            default_words: "5671 if there is a certificate; none beside --listen",
            port: 5671,
            keys: &[in_form("listeners.ssl.$name", Member), key("listeners.ssl")],
        }
        /// The certificate of the HTTP API and of the metrics, where it is another than that of AMQP
        http_tls_cert: Option<PathBuf> {
            value_name: "FILE",
            default_words: "that of AMQP",
            keys: &[key("management.listener.ssl_opts.certfile"), key("management.ssl.certfile")],
            over: &[key("RABBITMQ_MANAGEMENT_SSL_CERTFILE")],
        }
        /// The key of that certificate
        http_tls_key: Option<PathBuf> {
            value_name: "FILE",
            default_words: "that of AMQP",
            keys: &[key("management.listener.ssl_opts.keyfile"), key("management.ssl.keyfile")],
            over: &[key("RABBITMQ_MANAGEMENT_SSL_KEYFILE")],
        }
        /// Address and port of the HTTP API with TLS
        http_tls_listen: Option<Endpoint> {
            value_name: "ADDR:PORT",
            default_words: "none",
            port: 15671,
            keys: &[in_form("management.ssl.port", Port), in_form("management.ssl.ip", Ip)],
        }
        /// Address and port of the metrics with TLS
        metrics_tls_listen: Option<Endpoint> {
            value_name: "ADDR:PORT",
            default_words: "none",
            port: 15691,
            keys: &[in_form("prometheus.ssl.port", Port), in_form("prometheus.ssl.ip", Ip)],
        }
        /// A socket in the file system for AMQP clients of this machine; may be given several times
        unix_listen: Vec<PathBuf> {
            value_name: "PATH",
            default_words: "none",
        }
        /// AMQP clients come by TCP through a proxy only, which tells who they are by the PROXY protocol
        proxy_protocol: bool {
            value_name: "BOOL",
            default: "false",
            keys: &[key("proxy_protocol")],
        }
        /// Addresses or networks, such as `10.0.0.0/8`, from which such a proxy may come; who comes from elsewhere is hung
        /// up on
        proxy_protocol_trusted: Vec<Network> {
            value_name: "NETWORK",
            default_words: "everywhere",
        }
    }

    "HTTP" {
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

    "Logging" {
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
}

impl Settings {
    /// What cannot be together, in words for the operator.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let has_certificate = self.tls_cert.is_some();
        if has_certificate != self.tls_key.is_some() {
            return Some("tls_cert and tls_key go together: one of them is missing");
        }
        if self.http_tls_cert.is_some() != self.http_tls_key.is_some() {
            return Some("http_tls_cert and http_tls_key go together: one of them is missing");
        }
        if self.tls_listen.iter().flatten().next().is_some() && !has_certificate {
            return Some("tls_listen needs a certificate: tls_cert and tls_key");
        }
        let serves_https = self.http_tls_listen.is_some() || self.metrics_tls_listen.is_some();
        if serves_https && !has_certificate && self.http_tls_cert.is_none() {
            return Some("an HTTP listener with TLS needs a certificate: tls_cert and tls_key");
        }
        None
    }

    /// Whether a port is any free one, so that nobody knows it before it is told.
    pub(crate) fn lets_system_choose_ports(&self) -> bool {
        let amqp = self.listen.iter().chain(&self.tls_listen).flatten();
        let plain = [self.http_listen, self.metrics_listen]
            .into_iter()
            .flatten();
        let plain = plain.filter_map(|endpoint| match endpoint {
            OptionalEndpoint::At(endpoint) => Some(endpoint),
            OptionalEndpoint::Off => None,
        });
        let encrypted = [self.http_tls_listen, self.metrics_tls_listen];
        let http = plain.chain(encrypted.into_iter().flatten());
        let mut all = amqp.copied().chain(http);
        all.any(|endpoint| endpoint.addresses().0.port() == 0)
    }

    /// Whether AMQP clients are served at addresses of the operator's choice, as brokers that live side by side are. A port
    /// alone is none: that is how RabbitMQ's own image is told to use another.
    pub(crate) fn has_chosen_addresses(&self) -> bool {
        let listen = self.listen.iter().flatten();
        listen
            .into_iter()
            .any(|endpoint| matches!(endpoint, Endpoint::At(_)))
    }
}
