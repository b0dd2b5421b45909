//! What people have in the files they publish around RabbitMQ: each kind either works or is told in words.
//!
//! The cases are written after compose files, images and charts of public projects; each names the kind it stands for.

use super::tests::Scenario;

/// The kind; what is said; settings that come of it; words that are told of what has no effect. Nothing else is.
type Case = (
    &'static str,
    Scenario,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

fn variables(of: &[(&'static str, &'static str)]) -> Scenario {
    of.iter()
        .fold(Scenario::default(), |scenario, (name, value)| {
            scenario.variable(name, value)
        })
}

fn machine(arguments: &'static str) -> Scenario {
    variables(&[("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", arguments)])
}

fn terms(text: &str) -> Scenario {
    Scenario::default().file("advanced.config", text)
}

#[expect(clippy::too_many_lines, reason = "it is a list")]
fn cases() -> Vec<Case> {
    let conf = Scenario::conf;
    vec![
        (
            "user, password and vhost of a compose file",
            variables(&[
                ("RABBITMQ_DEFAULT_USER", "app"),
                ("RABBITMQ_DEFAULT_PASS", "pa$$"),
                ("RABBITMQ_DEFAULT_VHOST", "app"),
            ]),
            &[("default_user", "app"), ("default_vhost", "app")],
            &[],
        ),
        (
            "a cookie, a name and long names",
            variables(&[
                ("RABBITMQ_ERLANG_COOKIE", "secret"),
                ("RABBITMQ_NODENAME", "rabbit@mq"),
                ("RABBITMQ_USE_LONGNAME", "true"),
            ]),
            &[("node_name", "rabbit@mq")],
            &[],
        ),
        (
            "memory of an older image, in bytes",
            variables(&[("RABBITMQ_VM_MEMORY_HIGH_WATERMARK", "1024MiB")]),
            &[("memory_limit", "1024MiB")],
            &[],
        ),
        (
            "memory of an older image, as a share",
            variables(&[("RABBITMQ_VM_MEMORY_HIGH_WATERMARK", "0.49")]),
            &[("memory_limit", "0.49")],
            &[],
        ),
        (
            "another image's variables",
            variables(&[
                ("RABBITMQ_USERNAME", "u"),
                ("RABBITMQ_PASSWORD", "p"),
                ("RABBITMQ_PLUGINS", "rabbitmq_management"),
                ("RABBITMQ_MANAGEMENT_ALLOW_WEB_ACCESS", "true"),
            ]),
            &[("default_user", "guest")],
            &[
                "RABBITMQ_MANAGEMENT_ALLOW_WEB_ACCESS",
                "RABBITMQ_PASSWORD",
                "RABBITMQ_PLUGINS",
                "RABBITMQ_USERNAME",
            ],
        ),
        (
            "definitions by arguments of the machine",
            machine("-rabbitmq_management load_definitions \"/etc/rabbitmq/definitions.json\""),
            &[("definitions", "/etc/rabbitmq/definitions.json")],
            &[],
        ),
        (
            "no timeout of consumers, by arguments of the machine",
            machine("-rabbit consumer_timeout false"),
            &[("consumer_timeout", "0")],
            &[],
        ),
        (
            "a limit of the disk and levels of the log, by arguments of the machine",
            machine("-rabbit disk_free_limit 2147483648 -rabbit log [{console,[{level,error}]}]"),
            &[
                ("disk_free_limit", "2147483648"),
                ("log_console_level", "error"),
            ],
            &[],
        ),
        (
            "schedulers and allocators of the machine",
            machine("+S 2:2 +MBas aobf +sbwt none -kernel inet_dist_listen_min 9100"),
            &[],
            &[],
        ),
        (
            "what other hosts are told of streams",
            machine("-rabbitmq_stream advertised_host localhost"),
            &[],
            &["stream.advertised_host has no effect"],
        ),
        (
            "no timeout of consumers, in terms",
            terms("[ {rabbit, [ {consumer_timeout, undefined} ]} ]."),
            &[("consumer_timeout", "0")],
            &[],
        ),
        (
            "limits and listeners in terms",
            terms(
                "[{rabbit, [{tcp_listeners, [5673]}, {vm_memory_high_watermark, {absolute, \"2GB\"}},\
                 {disk_free_limit, {mem_relative, 1.0}}, {cluster_nodes, {[], disc}}]}].",
            ),
            &[
                ("listen", "5673"),
                ("memory_limit", "2GB"),
                ("disk_free_limit", "1.0"),
            ],
            &["rabbit:cluster_nodes has no effect: one node, no cluster"],
        ),
        (
            "the management plugin in terms",
            terms("[{rabbitmq_management, [{listener, [{port, 15673}]}, {rates_mode, none}]}]."),
            &[("http_listen", "15673"), ("rates_mode", "none")],
            &[],
        ),
        (
            "guests from everywhere",
            conf("loopback_users.guest = false\nlisteners.tcp.default = 5672\n"),
            &[("loopback_users", "none"), ("listen", "5672")],
            &[],
        ),
        (
            "the image's default file",
            conf("loopback_users.guest = false\nlog.console = true\n"),
            &[("loopback_users", "none"), ("log_console", "true")],
            &[],
        ),
        (
            "definitions of the management plugin",
            conf("management.load_definitions = /etc/rabbitmq/definitions.json\n"),
            &[("definitions", "/etc/rabbitmq/definitions.json")],
            &[],
        ),
        (
            "a listener of the management plugin, as before 3.8",
            conf("management.listener.port = 15672\nmanagement.listener.ssl = false\n"),
            &[("http_listen", "15672")],
            &[],
        ),
        (
            "tasks that take a year",
            conf("consumer_timeout = 31622400000\n"),
            &[("consumer_timeout", "31622400000")],
            &[],
        ),
        (
            "what the machinery of RabbitMQ is tuned by",
            conf("delegate_count = 64\nqueue_index_embed_msgs_below = 0\nhipe_compile = false\n"),
            &[],
            &[
                "delegate_count has no effect: one node, no cluster",
                "queue_index_embed_msgs_below has no effect",
            ],
        ),
        (
            "memory and disk by every key",
            conf("vm_memory_high_watermark.absolute = 1GiB\ndisk_free_limit.relative = 1.5\n"),
            &[("memory_limit", "1GiB"), ("disk_free_limit", "1.5")],
            &[],
        ),
        (
            "memory of a container that hides it",
            conf(
                "total_memory_available_override_value = 2GB\nvm_memory_high_watermark.relative = 0.7\n",
            ),
            &[("total_memory", "2GB"), ("memory_limit", "0.7")],
            &[],
        ),
        (
            "peers in Kubernetes",
            conf(
                "cluster_formation.peer_discovery_backend = rabbit_peer_discovery_k8s\n\
                 cluster_formation.k8s.host = kubernetes.default\n\
                 cluster_partition_handling = autoheal\nqueue_master_locator = min-masters\n",
            ),
            &[],
            &[
                "cluster_formation.k8s.host has no effect",
                "cluster_formation.peer_discovery_backend has no effect",
                "cluster_partition_handling has no effect",
                "queue_master_locator has no effect",
            ],
        ),
        (
            "MQTT",
            conf("mqtt.listeners.tcp.default = 1883\nmqtt.allow_anonymous = true\n"),
            &[],
            &[
                "mqtt.allow_anonymous has no effect: of a plugin",
                "mqtt.listeners.tcp.default has no effect: of a plugin",
            ],
        ),
        (
            "STOMP in browsers",
            conf("web_stomp.tcp.port = 15674\n"),
            &[],
            &["web_stomp.tcp.port has no effect: of a plugin"],
        ),
        (
            "the stream protocol",
            conf("stream.listeners.tcp.1 = 5552\nstream.advertised_host = localhost\n"),
            &[],
            &[
                "stream.advertised_host has no effect",
                "stream.listeners.tcp.1 has no effect",
            ],
        ),
        (
            "a log in a file, rotated every day",
            conf(
                "log.file = /var/log/rabbitmq/rabbit.log\nlog.file.level = warning\n\
                 log.file.rotation.date = $D0\nlog.file.rotation.count = 5\n",
            ),
            &[
                ("log_file", "/var/log/rabbitmq/rabbit.log"),
                ("log_file_level", "warning"),
                ("log_file_rotation_date", "$D0"),
            ],
            &[],
        ),
        (
            "the log as JSON, for a collector",
            conf("log.console.formatter = json\nlog.console.level = info\n"),
            &[("log_format", "json")],
            &[],
        ),
        (
            "categories of the log",
            conf(
                "log.connection.level = error\nlog.upgrade.level = info\nlog.default.level = warning\n",
            ),
            &[
                ("log_categories", "connection=error,upgrade=info"),
                ("log_level", "warning"),
            ],
            &[],
        ),
        (
            "the log for machines elsewhere",
            conf("log.syslog = true\nlog.syslog.ip = 10.0.0.1\nlog.syslog.transport = tcp\n"),
            &[
                ("log_syslog", "true"),
                ("log_syslog_host", "10.0.0.1"),
                ("log_syslog_transport", "tcp"),
            ],
            &[],
        ),
        (
            "heartbeats, frames, channels and bodies",
            conf(
                "heartbeat = 600\nframe_max = 131072\nchannel_max = 0128\nmax_message_size = 134217728\n",
            ),
            &[
                ("heartbeat", "600"),
                ("channel_max", "0128"),
                ("max_message_size", "134217728"),
            ],
            &[],
        ),
        (
            "types of queues and of what is no longer liked",
            conf(
                "default_queue_type = quorum\n\
                 deprecated_features.permit.transient_nonexcl_queues = false\n\
                 deprecated_features.permit.management_metrics_collection = true\n",
            ),
            &[
                ("default_queue_type", "quorum"),
                ("permit_transient_nonexcl_queues", "false"),
            ],
            &["deprecated_features.permit.management_metrics_collection has no effect"],
        ),
        (
            "metrics by object",
            conf("prometheus.return_per_object_metrics = true\nprometheus.tcp.port = 15692\n"),
            &[("metrics_per_object", "true"), ("metrics_listen", "15692")],
            &[],
        ),
        (
            "statistics that are taken more seldom",
            conf("collect_statistics_interval = 30000\nmanagement.rates_mode = none\n"),
            &[("rates_mode", "none")],
            &["collect_statistics_interval has no effect: counts are exact"],
        ),
        (
            "a page of elsewhere that asks the API",
            conf(
                "management.cors.allow_origins.1 = https://a.example\nmanagement.cors.max_age = 60\n",
            ),
            &[
                ("http_cors_origins", "https://a.example"),
                ("http_cors_max_age_secs", "60"),
            ],
            &[],
        ),
        (
            "behind a proxy with a path",
            conf("management.path_prefix = /rabbitmq\nproxy_protocol = true\n"),
            &[
                ("http_path_prefix", "/rabbitmq"),
                ("proxy_protocol", "true"),
            ],
            &[],
        ),
        (
            "certificates",
            conf(
                "listeners.ssl.default = 5671\nssl_options.cacertfile = DIR/ca.pem\n\
                 ssl_options.certfile = DIR/cert.pem\nssl_options.keyfile = DIR/key.pem\n\
                 ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
            ),
            &[("tls_listen", "5671")],
            &[],
        ),
        (
            "sockets of the operating system",
            conf("tcp_listen_options.backlog = 4096\ntcp_listen_options.nodelay = true\n"),
            &[],
            &[
                "tcp_listen_options.backlog has no effect",
                "tcp_listen_options.nodelay has no effect",
            ],
        ),
        (
            "only what RabbitMQ hashes anyway",
            conf("password_hashing_module = rabbit_password_hashing_sha256\n"),
            &[("password_hashing", "rabbit_password_hashing_sha256")],
            &[],
        ),
        (
            "another hash of passwords",
            conf("password_hashing_module = rabbit_password_hashing_sha512\n"),
            &[("password_hashing", "rabbit_password_hashing_sha512")],
            &[],
        ),
        (
            "tokens of an issuer that publishes its keys",
            conf(
                "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = rabbitmq\n\
                 auth_oauth2.issuer = https://keycloak:8443/realms/test\n\
                 auth_oauth2.https.cacertfile = DIR/ca.pem\n\
                 auth_oauth2.https.peer_verification = verify_peer\n\
                 auth_oauth2.https.hostname_verification = wildcard\n\
                 auth_oauth2.https.crl_check = false\n\
                 auth_oauth2.oauth_providers.other.jwks_uri = https://other/keys\n\
                 auth_oauth2.oauth_providers.other.https.depth = 2\n\
                 auth_oauth2.oauth_providers.other.algorithms.1 = RS256\n\
                 auth_oauth2.resource_servers.a.oauth_provider_id = other\n\
                 auth_oauth2.end_session_endpoint = https://keycloak:8443/end\n",
            ),
            &[
                ("oauth2_issuer", "https://keycloak:8443/realms/test"),
                (
                    "oauth2_providers",
                    "other.algorithms.1=RS256,other.jwks_uri=https://other/keys,other.https.depth=2",
                ),
                ("oauth2_resource_servers", "a.oauth_provider_id=other"),
            ],
            &[
                "hostname_verification has no effect",
                "end_session_endpoint has no effect",
            ],
        ),
        (
            "a file of users elsewhere",
            conf("auth_ldap.servers.1 = ldap.example\n"),
            &[],
            &["auth_ldap.servers.1 has no effect: of a plugin"],
        ),
        (
            "queries to a directory, over several lines",
            conf(
                "auth_ldap.queries.tags = '''\n[{administrator, {constant, false}}].\n'''\nheartbeat = 20\n",
            ),
            &[("heartbeat", "20")],
            &["auth_ldap.queries.tags has no effect: of a plugin"],
        ),
        (
            "no limits, in so many words",
            conf(
                "max_connections = infinity\nvhost_max = infinity\nchannel_max_per_node = infinity\n\
                 handshake_timeout = infinity\nlog.file.rotation.size = 0\n",
            ),
            &[
                ("connection_max", "infinity"),
                ("vhost_max", "infinity"),
                ("channel_max_per_node", "infinity"),
                ("handshake_timeout", "infinity"),
                ("log_file_rotation_size", "0"),
            ],
            &[],
        ),
        (
            "frames with a unit that counts by 1024, an address of IPv6 without brackets, short waits",
            conf(
                "frame_max = 1MB\nlisteners.tcp.1 = ::1:5672\nmanagement.tcp.idle_timeout = 5\n\
                 log.syslog.facility = authpriv\n",
            ),
            &[
                ("frame_max", "1048576"),
                ("listen", "::1:5672"),
                ("http_body_timeout", "5"),
                ("log_syslog_facility", "authpriv"),
            ],
            &[],
        ),
        (
            "what RabbitMQ's other parts are tuned by",
            conf(
                "amqp10_client.ssl_options.verify = verify_peer\nlog.file.formatter.json.field_map = time:ts\n\
                 ranch_connection_max = 5\n",
            ),
            &[],
            &[
                "amqp10_client.ssl_options.verify has no effect",
                "log.file.formatter.json.field_map has no effect: not yet",
                "ranch_connection_max has no effect",
            ],
        ),
        (
            "a slip of the pen",
            conf("manaement.tcp.port = 15672\n"),
            &[],
            &["there is no setting manaement.tcp.port; did you mean management.tcp.port?"],
        ),
    ]
}

#[test]
fn each_kind_of_published_setting_works_or_is_told() {
    let mut wrong = Vec::new();
    for (kind, scenario, settings, told) in cases() {
        let loaded = scenario.load();
        let problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
        if loaded.errors().next().is_some() {
            wrong.push(format!("{kind}: the broker would not start"));
        }
        for (name, value) in settings {
            let is = loaded.text(name);
            if is != *value {
                wrong.push(format!("{kind}: {name} is {is}, not {value}"));
            }
        }
        for problem in &problems {
            if !told.iter().any(|words| problem.contains(words)) {
                wrong.push(format!("{kind}: nobody expects {problem:?}"));
            }
        }
        for words in told {
            if !problems.iter().any(|problem| problem.contains(words)) {
                wrong.push(format!("{kind}: nothing of {words:?} is told"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
