//! What the merge promises, and that the table agrees with what it stands for.

use std::{collections::BTreeSet, net::Ipv6Addr, path::Path};

use clap::{Args, Command, FromArgMatches};
use leveret_runtime::{Limits, NodeOptions};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A configuration in the making.
#[derive(Default)]
pub(super) struct Scenario {
    files: Vec<(&'static str, String)>,
    variables: Vec<(&'static str, &'static str)>,
    flags: Vec<&'static str>,
}

impl Scenario {
    pub(super) fn conf(text: &str) -> Self {
        Self::default().file("rabbitmq.conf", text)
    }

    pub(super) fn file(mut self, name: &'static str, text: &str) -> Self {
        self.files.push((name, text.to_owned()));
        self
    }

    pub(super) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    fn flags(mut self, flags: &[&'static str]) -> Self {
        self.flags.extend(flags);
        self
    }

    pub(super) fn load(&self) -> Loaded {
        let dir = TempDir::new().expect("a directory");
        self.load_in(dir.path())
    }

    fn load_in(&self, dir: &Path) -> Loaded {
        for (name, text) in &self.files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        let places = Places {
            main: Some(dir.join("rabbitmq.conf")),
            more: Some(dir.join("conf.d/*.conf")),
            advanced: Some(dir.join("advanced.config")),
            environment: Some(dir.join("rabbitmq-env.conf")),
        };
        let inside = |text: &str| text.replace("DIR", &dir.display().to_string());
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), inside(value)));
        let command = Given::augment_args(Command::new("leveret"));
        let flags = self.flags.iter().map(|flag| inside(flag));
        let matches = command
            .try_get_matches_from(std::iter::once("leveret".to_owned()).chain(flags))
            .expect("flags");
        let given = Given::from_arg_matches(&matches).expect("flags");
        load(&given, variables.collect(), &places)
    }

    #[track_caller]
    fn text(&self, name: &str) -> String {
        let loaded = self.load();
        assert_eq!(loaded.problems, [], "{name}");
        loaded.text(name).to_owned()
    }

    /// What is wrong, without the directory.
    fn problems(&self) -> Vec<String> {
        let dir = TempDir::new().expect("a directory");
        let loaded = self.load_in(dir.path());
        let prefix = format!("{}/", dir.path().display());
        let problems = loaded.problems.iter();
        problems
            .map(|problem| problem.to_string().replace(&prefix, ""))
            .collect()
    }
}

#[test]
fn the_defaults_are_allowed_and_those_of_what_they_set() {
    let settings = Scenario::default().load().settings().expect("defaults");
    let connections = crate::connection_settings::of(&settings);
    let theirs = leveret_session::Settings {
        // The cluster is called what the node is, and that is called after the machine.
        cluster_name: leveret_ctl::node_name(None),
        ..Default::default()
    };
    assert_eq!(format!("{connections:?}"), format!("{theirs:?}"));
    let (limits, node) = (Limits::default(), NodeOptions::default());
    assert_eq!(settings.storage.memory_limit, limits.memory);
    assert_eq!(settings.storage.disk_free_limit, limits.disk_free);
    assert_eq!(settings.node.loopback_users, node.loopback_users);
    assert_eq!(settings.node.default_user, node.default_user);
    assert_eq!(settings.node.default_pass, node.default_password);
    assert_eq!(settings.node.default_vhost, node.default_vhost);
    assert_eq!(
        settings.connections.consumer_timeout.0,
        node.consumer_timeout_millis
    );
    assert_eq!(settings.node.default_queue_type, QueueType::Classic);
    assert_eq!(settings.listeners.listen, None);
}

#[test]
fn every_name_is_there_once() {
    let mut names = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for row in ROWS {
        assert!(names.insert(row.name), "{}", row.name);
        assert!(
            !row.sentence().ends_with('.'),
            "{}: no point at the end",
            row.name
        );
        for key in row.keys.iter().chain(row.under).chain(row.over) {
            assert!(keys.insert(key.pattern), "{}", key.pattern);
        }
    }
    for pattern in table::WITHOUT_EFFECT.iter().flat_map(|keys| keys.patterns) {
        assert!(keys.insert(pattern), "{pattern}");
    }
}

#[test]
fn the_page_about_settings_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = fs::read_to_string(path).expect("the page");
    assert_eq!(
        page,
        document(),
        "leveret config document > docs/configuration.md"
    );
}

#[test]
fn what_is_nearer_to_the_operator_wins() {
    let file = Scenario::conf("heartbeat = 1\ndefault_user = file\n");
    assert_eq!(file.text("heartbeat"), "1");
    let more = file
        .file("conf.d/10.conf", "heartbeat = 2\n")
        .file("conf.d/20.conf", "heartbeat = 3\n");
    assert_eq!(more.text("heartbeat"), "3");
    let more = more.file("conf.d/30.conf.off", "heartbeat = 4\n");
    assert_eq!(more.text("heartbeat"), "3");
    let named = more
        .file("own.conf", "heartbeat = 5\n")
        .variable("LEVERET_CONFIG", "DIR/own.conf");
    assert_eq!(named.text("heartbeat"), "5");
    let toml = named
        .file("own.toml", "heartbeat = 6\n")
        .flags(&["--config", "DIR/own.toml,DIR/own.conf"]);
    assert_eq!(toml.text("heartbeat"), "6");
    let theirs = toml.variable("RABBITMQ_DEFAULT_USER", "environment");
    assert_eq!(theirs.text("default_user"), "environment");
    let own = theirs
        .variable("LEVERET_HEARTBEAT", "7")
        .variable("LEVERET_DEFAULT_USER", "own");
    assert_eq!(own.text("heartbeat"), "7");
    assert_eq!(own.text("default_user"), "own");
    let flags = own.flags(&["--heartbeat", "8"]);
    assert_eq!(flags.text("heartbeat"), "8");
}

#[test]
fn a_listener_of_a_file_beats_the_port_of_the_environment() {
    let port = Scenario::default().variable("RABBITMQ_NODE_PORT", "5673");
    assert_eq!(port.text("listen"), "5673");
    let both = port.variable("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
    assert_eq!(both.text("listen"), "127.0.0.1:5673");
    let file = both.file("rabbitmq.conf", "listeners.tcp.default = 5674\n");
    assert_eq!(file.text("listen"), "5674");
    let v6 = Scenario::default().variable("RABBITMQ_NODE_IP_ADDRESS", "::1");
    assert_eq!(v6.text("listen"), "[::1]:5672");
}

#[test]
fn listeners_are_gathered_and_replaced_one_by_one() {
    let two = Scenario::conf(
        "listeners.tcp.2 = ::1:2\nlisteners.tcp.10 = 10\nlisteners.tcp.1 = 127.0.0.1:1\n",
    );
    assert_eq!(two.text("listen"), "127.0.0.1:1,::1:2,10");
    let replaced = two.file("conf.d/1.conf", "listeners.tcp.2 = 3\n");
    assert_eq!(replaced.text("listen"), "127.0.0.1:1,3,10");
    assert_eq!(
        Scenario::conf("listeners.tcp = none\n").text("listen"),
        "none"
    );
}

#[test]
fn every_address_of_ipv6_is_every_address() {
    for (text, expected) in [
        (":::5672", Endpoint::Port(5672)),
        ("0.0.0.0:5672", Endpoint::At(([0, 0, 0, 0], 5672).into())),
        ("::1:5672", Endpoint::At((Ipv6Addr::LOCALHOST, 5672).into())),
    ] {
        let listening = Scenario::conf(&format!("listeners.tcp.1 = {text}\n"));
        let settings = listening.load().settings().expect("nothing is wrong");
        assert_eq!(
            settings.listeners.listen.as_deref(),
            Some(&[expected][..]),
            "{text}"
        );
    }
}

#[test]
fn port_and_address_of_the_http_api_are_two_keys() {
    let http = |text: &str| Scenario::conf(text).text("http_listen");
    assert_eq!(http("management.tcp.port = 8080\n"), "8080");
    assert_eq!(
        http("management.tcp.port = 8080\nmanagement.tcp.ip = 127.0.0.1\n"),
        "127.0.0.1:8080"
    );
    assert_eq!(http("management.tcp.ip = ::1\n"), "[::1]:15672");
    assert_eq!(http("management.listener.port = 1\n"), "1");
    assert_eq!(
        http("management.listener.port = 1\nmanagement.tcp.port = 2\n"),
        "2"
    );
}

#[test]
fn who_may_log_in_from_here_only_is_a_list_of_names() {
    let users = |text: &str| Scenario::conf(text).text("loopback_users");
    assert_eq!(Scenario::default().text("loopback_users"), "guest");
    assert_eq!(users("loopback_users.guest = false\n"), "none");
    assert_eq!(users("loopback_users = none\n"), "none");
    assert_eq!(users("loopback_users.admin = true\n"), "admin");
    assert_eq!(
        users("loopback_users.a\\.b = true\nloopback_users.c = true\n"),
        "a.b,c"
    );
}

#[test]
fn an_absolute_limit_beats_a_relative_one() {
    let memory = |text: &str| Scenario::conf(text).text("memory_limit");
    assert_eq!(memory("vm_memory_high_watermark.relative = 0.4\n"), "0.4");
    for wrong in ["1", "40%", ".4"] {
        let text = format!("vm_memory_high_watermark.relative = {wrong}\n");
        let told = Scenario::conf(&text).problems();
        assert!(told[0].contains("a number with a point"), "{told:?}");
    }
    assert_eq!(
        memory(
            "vm_memory_high_watermark.absolute = 2GB\nvm_memory_high_watermark.relative = 0.4\n"
        ),
        "2GB"
    );
    let wrong = Scenario::conf("vm_memory_high_watermark.absolute = 0.4\n").problems();
    assert!(wrong[0].contains("allowed is bytes"), "{wrong:?}");
    let disk = Scenario::conf("disk_free_limit.relative = 2.0\n");
    assert_eq!(disk.text("disk_free_limit"), "2.0");
}

#[test]
fn a_wrong_value_names_file_line_and_what_is_allowed() {
    let wrong =
        Scenario::conf("# first\nheartbeat = often\nframe_max = 1\n\nlisteners.tcp.x = there\n");
    assert_eq!(
        wrong.problems(),
        [
            "rabbitmq.conf:3: frame_max = 1 is not possible; allowed is bytes, or a size like 16MB or 16MiB, from 8192 to 2147483647",
            "rabbitmq.conf:2: heartbeat = often is not possible; allowed is a whole number",
            "rabbitmq.conf:5: listeners.tcp.x = there is not possible; allowed is a whole number, or ADDRESS:PORT",
        ]
    );
    assert!(wrong.load().settings().is_none());
    let variable = Scenario::default()
        .variable("LEVERET_FRAME_MAX", "1")
        .problems();
    assert!(
        variable[0].starts_with("LEVERET_FRAME_MAX: "),
        "{variable:?}"
    );
}

#[test]
fn a_secret_is_never_shown() {
    let scenario = Scenario::conf("default_pass = hidden\n");
    let loaded = scenario.load();
    assert!(!loaded.rows().any(|(_, text, _)| text == "hidden"));
    assert_eq!(
        loaded.settings().expect("settings").node.default_pass,
        "hidden"
    );
}

#[test]
fn a_secret_that_is_encrypted_is_told_to_be_unreadable() {
    let conf = Scenario::conf("default_pass = encrypted:abc\n");
    let terms = "[{rabbit, [{default_pass, {encrypted, <<\"abc\">>}}]}].";
    let terms = Scenario::default().file("advanced.config", terms);
    for (file, scenario) in [("rabbitmq.conf:1", conf), ("advanced.config:1", terms)] {
        let told = scenario.problems();
        let expected = format!("{file}: default_pass is encrypted");
        assert!(told[0].starts_with(&expected), "{told:?}");
        assert!(scenario.load().settings().is_none());
    }
}

#[test]
fn an_unknown_key_is_a_warning_with_a_suggestion_or_an_error() {
    let unknown = Scenario::conf("heartbeet = 1\nnosuch.key = 1\nlistener.tcp.default = 5672\n");
    assert_eq!(
        unknown.problems(),
        [
            "rabbitmq.conf:1: there is no setting heartbeet; did you mean heartbeat?",
            "rabbitmq.conf:3: there is no setting listener.tcp.default; did you mean listeners.tcp.$name?",
            "rabbitmq.conf:2: there is no setting nosuch.key",
        ]
    );
    assert!(unknown.load().settings().is_some());
    let strict = unknown.flags(&["--config-strict"]);
    assert_eq!(strict.load().errors().count(), 3);
    let toml = Scenario::default()
        .file("a.toml", "hearbeat = 1\n")
        .flags(&["--config", "DIR/a.toml"]);
    assert_eq!(
        toml.problems(),
        ["a.toml:1: there is no setting hearbeat; did you mean heartbeat?"]
    );
}

#[test]
fn a_misspelt_variable_is_told_and_a_strange_one_is_not() {
    let scenario = Scenario::default()
        .variable("LEVERET_HEARBEAT", "1")
        .variable("RABBITMQ_DEFALT_USER", "me")
        .variable("RABBITMQ_SERVICE_HOST", "10.0.0.1")
        .variable("LEVERET_PORT_5672_TCP", "tcp://10.0.0.1")
        .variable("RABBITMQ_DIST_PORT", "1")
        .variable("PATH", "/bin");
    assert_eq!(
        scenario.problems(),
        [
            "LEVERET_HEARBEAT: there is no variable of that name; did you mean LEVERET_HEARTBEAT?",
            "RABBITMQ_DEFALT_USER: there is no variable of that name; did you mean RABBITMQ_DEFAULT_USER?",
        ]
    );
}

#[test]
fn keys_of_what_is_not_here_are_noted_and_warn_nobody() {
    let keys = "cluster_partition_handling = autoheal\nmqtt.allow_anonymous = true\n\
                tcp_listen_options.backlog = 128\ncollect_statistics_interval = 10000\n\
                queue_master_locator = min-masters\ncluster_formation.peer_discovery_backend = classic_config\n";
    let loaded = Scenario::conf(keys).load();
    assert_eq!(loaded.problems.len(), 6);
    for problem in &loaded.problems {
        assert_eq!(problem.severity, Severity::Note, "{problem}");
    }
}

#[test]
fn a_cluster_that_will_not_be_one_is_a_warning() {
    for (keys, warned) in [
        ("cluster_formation.classic_config.nodes.1 = rabbit@a\n", 0),
        (
            "cluster_formation.classic_config.nodes.1 = rabbit@a\n\
             cluster_formation.classic_config.nodes.2 = rabbit@b\n",
            1,
        ),
        ("cluster_formation.dns.hostname = mq.example.com\n", 1),
    ] {
        let loaded = Scenario::conf(keys).load();
        let warnings = loaded
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Warning);
        assert_eq!(warnings.count(), warned, "{keys}");
    }
}

#[test]
fn what_would_keep_somebody_out_and_has_no_effect_keeps_the_broker_from_starting() {
    for keys in [
        "auth_backends.1.authn = ldap\nauth_backends.1.authz = internal\n",
        "auth_backends.1.authn = rabbit_auth_backend_ip_range\n",
        "auth_backends.1 = rabbit_auth_backend_ip_range\n",
        "http_dispatch.auth_backends.1 = http\n",
        "prometheus.authentication.enabled = true\n",
        "management.disable_basic_auth = true\n",
        "management.oauth_disable_basic_auth = true\n",
        "management.ssl.fail_if_no_peer_cert = true\n",
        "ssl_options.crl_sources.1 = http\n",
    ] {
        assert!(Scenario::conf(keys).load().settings().is_none(), "{keys}");
    }
    for terms in [
        "[{rabbit, [{auth_backends, [{rabbit_auth_backend_ldap, rabbit_auth_backend_internal}]}]}].",
        "[{rabbit, [{auth_backends, [rabbit_auth_backend_ip_range]}]}].",
        "[{rabbit, [{auth_backends, []}]}].",
        "[{rabbitmq_web_dispatch, [{auth_backends, [rabbit_auth_backend_http]}]}].",
        "[{rabbitmq_prometheus, [{authentication, [{enabled, true}]}]}].",
        "[{rabbitmq_management, [{disable_basic_auth, true}]}].",
    ] {
        let scenario = Scenario::default().file("advanced.config", terms);
        assert!(scenario.load().settings().is_none(), "{terms}");
    }
    let nothing =
        "management.disable_basic_auth = false\nprometheus.authentication.enabled = false\n";
    assert_eq!(Scenario::conf(nothing).problems(), [""; 0]);
    let tokens = "[{rabbit, [{auth_backends, [rabbit_auth_backend_oauth2, rabbit_auth_backend_internal]}]}].";
    let tokens = Scenario::default().file("advanced.config", tokens);
    assert_eq!(
        tokens.text("auth_backends"),
        "rabbit_auth_backend_oauth2,rabbit_auth_backend_internal"
    );
}

#[test]
fn a_file_may_hold_what_must_not_be_seen() {
    let scenario = Scenario::default()
        .file("user", "swarm\n")
        .file("pass", "secret\n")
        .variable("RABBITMQ_DEFAULT_USER_FILE", "DIR/user")
        .variable("RABBITMQ_DEFAULT_PASS_FILE", "DIR/pass");
    assert_eq!(scenario.text("default_user"), "swarm");
    assert_eq!(scenario.text("default_pass"), "secret");
    let own = scenario
        .file("other", "own")
        .variable("LEVERET_DEFAULT_PASS_FILE", "DIR/other");
    assert_eq!(own.text("default_pass"), "own");
    let missing = Scenario::default().variable("RABBITMQ_DEFAULT_PASS_FILE", "DIR/none");
    assert!(missing.problems()[0].contains("cannot read"));
}

#[test]
fn the_file_of_the_environment_fills_in_what_is_not_set() {
    let scenario = Scenario::default().file(
        "rabbitmq-env.conf",
        "NODENAME=rabbit@file\nDEFAULT_USER=file\n",
    );
    assert_eq!(scenario.text("node_name"), "rabbit@file");
    let set = scenario.variable("RABBITMQ_NODENAME", "rabbit@set");
    assert_eq!(set.text("node_name"), "rabbit@set");
    assert_eq!(set.text("default_user"), "file");
}

#[test]
fn the_main_file_may_be_named_without_its_extension() {
    for name in ["DIR/other", "DIR/other.conf"] {
        let scenario = Scenario::conf("heartbeat = 1\n")
            .file("other.conf", "heartbeat = 2\n")
            .variable("RABBITMQ_CONFIG_FILE", name);
        assert_eq!(scenario.text("heartbeat"), "2");
    }
    let missing = Scenario::default().variable("RABBITMQ_CONFIG_FILE", "DIR/nowhere");
    assert_eq!(
        missing.problems(),
        ["RABBITMQ_CONFIG_FILE: there is no file nowhere"]
    );
    assert!(missing.load().settings().is_some());
}

#[test]
fn erlang_terms_are_read_as_main_file_and_last() {
    let terms = "[{rabbit, [{heartbeat, 7}]}].";
    let advanced = Scenario::conf("heartbeat = 1\n").file("advanced.config", terms);
    assert_eq!(advanced.text("heartbeat"), "7");
    let main = Scenario::default()
        .file("rabbit.config", terms)
        .variable("RABBITMQ_CONFIG_FILE", "DIR/rabbit");
    assert_eq!(main.text("heartbeat"), "7");
    let wrong = Scenario::default().file("advanced.config", "[{rabbit, [}].");
    assert!(wrong.problems()[0].starts_with("advanced.config:1: "));
}

#[test]
fn arguments_of_the_virtual_machine_count_below_files_and_never_keep_from_starting() {
    let name = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS";
    let arguments = Scenario::default().variable(name, "+S 2:2 -rabbit heartbeat 7 -kernel x 1");
    assert_eq!(arguments.text("heartbeat"), "7");
    let file = arguments.file("rabbitmq.conf", "heartbeat = 8\n");
    assert_eq!(file.text("heartbeat"), "8");
    let wrong = Scenario::default().variable(name, "-rabbit heartbeat often -rabbit nosuch 1");
    assert_eq!(wrong.problems().len(), 2, "{:?}", wrong.problems());
    assert!(wrong.load().settings().is_some());
}

#[test]
fn further_files_are_a_directory_or_a_pattern() {
    let files = Scenario::default()
        .file("x/a.conf", "heartbeat = 1\n")
        .file("x/b.cfg", "heartbeat = 2\n");
    let with = |more: &'static str| {
        let scenario = Scenario {
            files: files.files.clone(),
            ..Scenario::default()
        };
        scenario
            .variable("RABBITMQ_CONFIG_FILES", more)
            .text("heartbeat")
    };
    // RabbitMQ reads all that is in a directory.
    assert_eq!(with("DIR/x"), "2");
    assert_eq!(with("DIR/x/*.conf"), "1");
    assert_eq!(with("DIR/x/*.cfg"), "2");
    assert_eq!(with("DIR/x/*"), "2");
    assert_eq!(with("DIR/nowhere"), "60");
}

#[test]
fn a_file_of_ours_that_is_not_there_is_an_error() {
    let missing = Scenario::default().flags(&["--config", "DIR/none.toml"]);
    assert!(missing.problems()[0].starts_with("none.toml: cannot read it"));
    assert!(missing.load().settings().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_file_is_read_without_a_panic(
        key in prop::sample::select(ROWS.iter().flat_map(|row| row.keys).map(|key| key.pattern).collect::<Vec<_>>()),
        value in "[^\n]{0,40}",
        noise in ".{0,100}",
    ) {
        let text = format!("{key} = {value}\n{noise}\n");
        let loaded = Scenario::conf(&text).file("a.toml", &noise).flags(&["--config", "DIR/a.toml"]).load();
        // Either everything is right or something is told.
        prop_assert!(loaded.settings().is_some() || loaded.errors().count() > 0);
    }
}

/// What fuzzing found worth keeping, and what is near it.
#[test]
fn any_text_is_lines_or_told_to_be_none() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/configuration"
    );
    mutation::run(
        &mutation::seeds(folder),
        20_000,
        configuration::configuration,
    );
}

#[test]
fn what_rabbitmq_is_told_to_permit_of_its_past_is_permitted_or_refused_here() {
    let settings = Scenario::conf(
        "deprecated_features.permit.global_qos = false\n\
         deprecated_features.permit.transient_nonexcl_queues = false\n\
         deprecated_features.permit.queue_master_locator = true\n",
    )
    .load()
    .settings()
    .expect("all of it is known");
    assert!(!settings.connections.permit_global_qos);
    assert!(!settings.connections.permit_transient_nonexcl_queues);
    assert!(settings.connections.permit_queue_master_locator);
}

/// Why a value is refused here that RabbitMQ's check of its files lets through.
fn why_refused_here(key: &str, value: &str) -> Option<&'static str> {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
    let number: Option<f64> = value.parse().ok();
    let is_beyond =
        |least: f64, most: f64| number.is_some_and(|number| number < least || number > most);
    if value.starts_with('-') {
        return Some("less than nothing of anything");
    }
    if begins(&[
        "listeners.",
        "management.",
        "prometheus.",
        "log.syslog.port",
    ]) && (is_beyond(0.0, 65_535.0) || value.ends_with(":99999") || value == "0")
    {
        return Some("no such port, no wait at all or one of weeks, no body at all");
    }
    if begins(&[
        "heartbeat",
        "max_channels_per_connection",
        "ssl_cert_login_san_index",
    ]) && is_beyond(0.0, 65_535.0)
    {
        return Some("more than the protocol has room for");
    }
    if begins(&["handshake_timeout", "ssl_handshake_timeout"]) && is_beyond(1.0, 3_600_000.0) {
        return Some("no time at all, or hours of a connection that nobody has logged in on");
    }
    if begins(&["frame_max", "initial_frame_max"])
        && (is_beyond(8192.0, 2_147_483_647.0) || value == "1kb")
    {
        return Some("nothing that clients and broker could talk in");
    }
    if begins(&["auth_oauth2.", "default_", "log.file.rotation."]) && is_beyond(1.0, 1000.0) {
        return Some("a limit that is none, and numbers of certificates and files");
    }
    if key.starts_with("total_memory") || key.ends_with(".absolute") {
        return match value.parse() {
            Ok(leveret_runtime::Amount::Bytes(bytes)) => (bytes == 0).then_some("no memory at all"),
            Ok(leveret_runtime::Amount::Share(_)) => Some("a share of itself"),
            Err(_) => Some("RabbitMQ falls back to its default"),
        };
    }
    let words = [
        "auth_backends.",
        "auth_mechanisms.",
        "auth_oauth2.algorithms.",
        "auth_oauth2.oauth_providers.name.algorithms.",
        "credential_validator.validation_backend",
        "default_policies.operator.id.apply_to",
        "default_queue_type",
        "loopback_users.",
        "password_hashing_module",
        "ssl_options.versions.",
        "log.file.rotation.date",
    ];
    if begins(&words) {
        return Some(
            "a word that nothing here or there stands behind, or that somebody is kept out by",
        );
    }
    if leveret_runtime::Pattern::new(value).is_err() {
        return Some("no pattern");
    }
    if value == "https://" {
        return Some("an address of nobody");
    }
    (value == "encrypted:abc").then_some("it cannot be read")
}

#[test]
fn what_rabbitmq_takes_does_not_keep_the_broker_from_starting_and_what_it_refuses_does() {
    let (values, _) = theirs::observed();
    let has_effect = |pattern: &&str| {
        let key = pattern.replace('$', "");
        let mut known = ROWS.iter().flat_map(|row| row.keys);
        known.any(|one| one.matches(&key).is_some())
    };
    let keys: Vec<&str> = theirs::patterns().filter(has_effect).collect();
    assert!(keys.len() > 150, "{}", keys.len());
    let mut wrong = Vec::new();
    for value in values {
        let mut merge = Merge::of_defaults();
        for (number, key) in keys.iter().enumerate() {
            let origin = Origin::File(Arc::default(), number + 1);
            merge.conf(key.replace('$', ""), value.to_owned(), origin);
        }
        merge.settle_conf();
        let (_, problems) = merge.into_parts();
        for (number, pattern) in keys.iter().enumerate() {
            let key = pattern.replace('$', "");
            let taken = theirs::read(&key, value).expect("a key").is_ok();
            let origin = Origin::File(Arc::default(), number + 1);
            let mut errors = problems
                .iter()
                .filter(|one| one.severity == Severity::Error);
            let error = errors.find(|one| one.origin == origin);
            let is_excused = taken && why_refused_here(&key, value).is_some();
            if taken == error.is_some() && !is_excused {
                wrong.push(format!("{key} = {value}: {error:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} {wrong:#?}", wrong.len());
}

#[test]
fn passwords_and_types_of_queues_have_rabbitmqs_keys() {
    let conf = Scenario::conf(
        "credential_validator.validation_backend = rabbit_credential_validator_password_regexp\n\
         credential_validator.regexp = ^[a-z]+$\ncredential_validator.min_length = 8\n\
         queue_types.classic.enabled = false\n",
    );
    assert_eq!(conf.text("password_regexp"), "^[a-z]+$");
    assert_eq!(conf.text("password_min_length"), "8");
    assert_eq!(conf.text("queue_types_classic"), "false");
    let settings = conf.load().settings().expect("nothing is wrong");
    assert_eq!(settings.contradiction(), None);
    let without =
        "credential_validator.validation_backend = rabbit_credential_validator_password_regexp\n";
    let settings = Scenario::conf(without)
        .load()
        .settings()
        .expect("each is possible");
    assert!(settings.contradiction().is_some());
    let unknown = Scenario::conf("credential_validator.validation_backend = our_own\n");
    assert!(unknown.load().settings().is_none());
}

#[test]
fn terms_replace_what_the_main_file_says_of_the_same() {
    let terms = |text: &str| {
        Scenario::conf(
            "listeners.tcp.default = 5672\nloopback_users.x = true\n\
             vm_memory_high_watermark.absolute = 1GB\n",
        )
        .file("advanced.config", text)
    };
    let one = terms("[{rabbit, [{tcp_listeners, [5673]}, {loopback_users, [<<\"y\">>]}]}].");
    assert_eq!(one.text("listen"), "5673");
    assert_eq!(one.text("loopback_users"), "y");
    assert_eq!(one.text("memory_limit"), "1GB");
    let two = terms("[{rabbit, [{vm_memory_high_watermark, 0.3}]}].");
    assert_eq!(two.text("memory_limit"), "0.3");
    assert_eq!(two.text("listen"), "5672");
}

#[test]
fn a_main_file_of_terms_goes_before_one_of_lines_and_is_read_last() {
    let both = Scenario::conf("heartbeat = 1\n")
        .file("rabbitmq.config", "[{rabbit, [{heartbeat, 2}]}].")
        .file("conf.d/1.conf", "heartbeat = 3\nframe_max = 9000\n")
        .file("advanced.config", "[{rabbit, [{heartbeat, 4}]}].")
        .variable("RABBITMQ_CONFIG_FILE", "DIR/rabbitmq");
    assert_eq!(both.text("heartbeat"), "2");
    assert_eq!(both.text("frame_max"), "9000");
    let by_content = Scenario::default()
        .file("other", "%% a comment\n[{rabbit, [{heartbeat, 5}]}].")
        .variable("RABBITMQ_CONFIG_FILE", "DIR/other");
    assert_eq!(by_content.text("heartbeat"), "5");
}

#[test]
fn a_file_lets_others_in_and_takes_values_from_others() {
    let scenario = Scenario::conf(
        "heartbeat = 1\ninclude d/*.conf\ndefault_pass = $(<pass)\ninclude nowhere/*.conf\n",
    )
    .file("d/1.conf", "heartbeat = 2\n")
    .file("d/2.conf", "heartbeat = 3\n")
    .file("d/3.other", "heartbeat = 4\n")
    .file("pass", "secret\n");
    assert_eq!(scenario.text("heartbeat"), "3");
    assert_eq!(scenario.text("default_pass"), "secret");
    let circle = Scenario::conf("include rabbitmq.conf\n").problems();
    assert_eq!(
        circle,
        ["rabbitmq.conf: files include each other in a circle"]
    );
}

#[test]
fn the_listener_of_old_has_tls_if_it_says_so() {
    let old = Scenario::conf(
        "management.listener.port = 15671\nmanagement.listener.ip = 127.0.0.1\n\
         management.listener.ssl = true\n\
         management.listener.ssl_opts.certfile = /c.pem\nmanagement.listener.ssl_opts.keyfile = /k.pem\n",
    );
    assert_eq!(old.text("http_tls_listen"), "127.0.0.1:15671");
    assert_eq!(old.text("http_listen"), "");
    let terms = Scenario::default().file(
        "advanced.config",
        "[{rabbitmq_management, [{listener, [{port, 15671}, {ssl, true}, \
         {ssl_opts, [{certfile, \"/c.pem\"}, {keyfile, \"/k.pem\"}]}]}]}].",
    );
    assert_eq!(terms.text("http_tls_listen"), "15671");
    assert_eq!(terms.text("http_tls_cert"), "/c.pem");
}
