//! What an operator sees: one clear line and an exit code for everything that can go wrong at start.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use tempfile::TempDir;

fn leveret(data_dir: &Path, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command
        .arg("--data-dir")
        .arg(data_dir)
        .arg("--listen")
        .arg(listen);
    command
}

/// Runs a broker that is expected to refuse the start.
fn refused(data_dir: &Path, listen: &str) -> String {
    let Output { status, stderr, .. } = leveret(data_dir, listen).output().expect("it runs");
    let text = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(1), "{text}");
    let last = text
        .lines()
        .last()
        .expect("a line that says why")
        .to_owned();
    assert!(last.starts_with("leveret: "), "{text}");
    last
}

/// A running broker; killed at the end of the test if it still runs.
struct Running {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    /// What was read of the log.
    seen: String,
}

impl Running {
    fn start(command: Command) -> Self {
        let mut running = Self::begin(command);
        running.wait_for("Server startup complete");
        running
    }

    fn begin(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        let seen = String::new();
        Self { child, log, seen }
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.log.read_line(&mut line).expect("a log"),
                0,
                "no {text:?} in:\n{}",
                self.seen
            );
            self.seen.push_str(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    fn terminate(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .arg(&pid)
                .status()
                .expect("kill runs")
                .success()
        );
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended in tests that stop it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_leveret"))
        .args(words)
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn help_is_a_page_with_the_usual_options_and_exit_codes() {
    let text = help(&["--help"]);
    for option in [
        "--config",
        "--data-dir",
        "--storage",
        "--storage-sync",
        "--memory-limit",
        "--disk-free-limit",
        "--listen",
        "--http-listen",
        "--definitions",
        "--default-user",
        "--node-name",
        "--ports-file",
        "--log-level",
        "--version",
        "Exit codes:",
        "Examples:",
        "LEVERET_DATA_DIR",
        "leveret help settings",
    ] {
        assert!(text.contains(option), "no {option} in:\n{text}");
    }
    assert!(text.lines().count() < 110, "longer than a page:\n{text}");
}

#[test]
fn help_settings_has_every_option() {
    let text = help(&["help", "settings"]);
    for option in [
        "--data-dir",
        "--loopback-users",
        "--max-message-size",
        "--auth-mechanisms",
        "--connection-max",
        "--channel-max-per-node",
        "--tls-cert",
        "--rates-mode",
        "--log-format",
        "--log-syslog-host",
    ] {
        assert!(text.contains(option), "no {option} in:\n{text}");
    }
    assert_eq!(help(&["--help-all"]), text);
}

#[test]
fn version_names_the_program_and_its_number() {
    let output = Command::new(env!("CARGO_BIN_EXE_leveret"))
        .arg("--version")
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(
        text.trim(),
        format!("leveret {}", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_wrong_command_line_is_explained_and_ends_with_2() {
    let output = Command::new(env!("CARGO_BIN_EXE_leveret"))
        .args(["--listen", "nowhere"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--listen"));
}

#[test]
fn a_weaker_sync_mode_is_warned_of_in_one_line_at_start() {
    for (mode, words) in [("interval", "in the last 1000 ms"), ("never", "is never")] {
        let dir = TempDir::new().expect("a directory");
        let mut command = leveret(dir.path(), "127.0.0.1:0");
        command.args(["--storage-sync", mode]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let mut warnings = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).expect("a log"), 0, "{warnings:?}");
            if line.contains("Server startup complete") {
                break;
            }
            if line.contains("[warning]") {
                warnings.push(line);
            }
        }
        let seen = String::new();
        Running { child, log, seen }.terminate();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains(words) && warnings[0].contains("power cut"),
            "{warnings:?}"
        );
    }
}

#[test]
fn a_broker_in_memory_runs_without_a_directory_and_leaves_none() {
    let dir = TempDir::new().expect("a directory");
    let data_dir = dir.path().join("data");
    let mut command = leveret(&data_dir, "127.0.0.1:0");
    command.args(["--storage", "memory"]);
    let mut running = Running::start(command);
    assert_eq!(running.terminate(), Some(0));
    assert!(!running.seen.contains("[error]"), "{}", running.seen);
    assert!(!data_dir.exists(), "{}", data_dir.display());
}

#[test]
fn a_busy_port_is_named_and_nothing_is_touched() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    let dir = TempDir::new().expect("a directory");
    let data_dir = dir.path().join("data");
    let line = refused(&data_dir, &address.to_string());
    assert!(
        line.contains(&format!("port {} is in use", address.port())),
        "{line}"
    );
    assert!(
        !data_dir.exists(),
        "a broker that could not listen made {}",
        data_dir.display()
    );
}

#[test]
fn a_locked_directory_is_refused_by_name() {
    let dir = TempDir::new().expect("a directory");
    let first = Running::start(leveret(dir.path(), "127.0.0.1:0"));
    let line = refused(dir.path(), "127.0.0.1:0");
    assert!(line.contains(&dir.path().display().to_string()), "{line}");
    assert!(
        line.contains(&first.child.id().to_string()),
        "the holder's pid is missing: {line}"
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_refused_by_name() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("a-file");
    fs::write(&file, "").expect("written");
    let data_dir = file.join("data");
    let line = refused(&data_dir, "127.0.0.1:0");
    assert!(line.contains(&data_dir.display().to_string()), "{line}");
}

#[test]
fn the_ports_file_says_where_clients_are_accepted() {
    let dir = TempDir::new().expect("a directory");
    let ports_file = dir.path().join("ports");
    let mut command = leveret(&dir.path().join("data"), "127.0.0.1:0");
    command
        .arg("--listen")
        .arg("[::1]:0")
        .arg("--ports-file")
        .arg(&ports_file);
    let _running = Running::start(command);
    let text = fs::read_to_string(&ports_file).expect("a ports file");
    assert_eq!(text.lines().count(), 1, "{text}");
    let ports: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let port =
        |at: usize| u16::try_from(ports["amqp"][at].as_u64().expect("a port")).expect("16 bits");
    for address in [
        format!("127.0.0.1:{}", port(0)),
        format!("[::1]:{}", port(1)),
    ] {
        let mut socket = TcpStream::connect(&address).expect("it listens");
        socket.write_all(b"GET / HT").expect("written");
        let mut answer = Vec::new();
        socket
            .read_to_end(&mut answer)
            .expect("an answer, then the end");
        assert_eq!(answer, b"AMQP\x00\x00\x09\x01", "{address}");
    }
}

#[test]
fn sigterm_ends_a_start_that_has_not_ended_with_0() {
    let directory = TempDir::new().expect("a directory");
    // Nobody ever writes to it, so that reading it never ends.
    let definitions = directory.path().join("definitions.json");
    let made = Command::new("mkfifo").arg(&definitions).status();
    assert!(made.expect("mkfifo runs").success());
    let mut command = leveret(&directory.path().join("data"), "127.0.0.1:0");
    command.arg("--definitions").arg(&definitions);
    let mut running = Running::begin(command);
    running.wait_for("made a new store");
    assert_eq!(running.terminate(), Some(0));
    assert!(!running.seen.contains("Server startup complete"));
}

#[test]
fn sigterm_ends_with_0_and_the_next_start_finds_everything_in_order() {
    let dir = TempDir::new().expect("a directory");
    let mut running = Running::start(leveret(dir.path(), "127.0.0.1:0"));
    assert_eq!(running.terminate(), Some(0));
    let mut again = leveret(dir.path(), "127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    let log = BufReader::new(again.stderr.take().expect("piped"));
    let found = log
        .lines()
        .map(|line| line.expect("a log"))
        .find(|line| line.contains("stopped"));
    assert!(found.is_some_and(|line| line.contains("stopped in order")));
    again.kill().expect("killed");
    again.wait().expect("it ends");
}

#[test]
fn data_is_for_its_owner_only() {
    let dir = TempDir::new().expect("a directory");
    let data_dir = dir.path().join("data");
    let _running = Running::start(leveret(&data_dir, "127.0.0.1:0"));
    let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&data_dir), 0o700);
    let mut waiting = vec![data_dir];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
}

#[test]
fn json_logs_are_one_object_a_line() {
    let dir = TempDir::new().expect("a directory");
    let mut command = leveret(dir.path(), "127.0.0.1:0");
    command.args(["--log-format", "json"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let log = BufReader::new(child.stderr.take().expect("piped"));
    for line in log.lines() {
        let line = line.expect("a log");
        let entry: serde_json::Value = serde_json::from_str(&line).expect("an object");
        assert_eq!(entry["level"], "info", "{line}");
        let message = entry["msg"].as_str().expect("a message").to_owned();
        if message.contains("Server startup complete") {
            break;
        }
    }
    child.kill().expect("killed");
    child.wait().expect("it ends");
}

/// What a path of the HTTP side answers, head and body.
fn http(port: u64, path: &str, credentials: Option<&str>) -> String {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    let login = credentials.map_or_else(String::new, |login| {
        format!("Authorization: Basic {login}\r\n")
    });
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{login}Connection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

fn ports(dir: &Path) -> serde_json::Value {
    let text = fs::read_to_string(dir.join("ports")).expect("a ports file");
    serde_json::from_str(&text).expect("JSON")
}

fn with_http(dir: &Path) -> Command {
    let mut command = leveret(&dir.join("data"), "127.0.0.1:0");
    command
        .args(["--http-listen", "127.0.0.1:0"])
        .args(["--metrics-listen", "127.0.0.1:0"])
        .arg("--ports-file")
        .arg(dir.join("ports"));
    command
}

/// `guest:guest`.
const GUEST: &str = "Z3Vlc3Q6Z3Vlc3Q=";

#[test]
fn the_http_side_has_ports_of_its_own() {
    let dir = TempDir::new().expect("a directory");
    let _running = Running::start(with_http(dir.path()));
    let ports = ports(dir.path());
    let api = ports["http"][0].as_u64().expect("a port");
    let metrics = ports["metrics"][0].as_u64().expect("a port");
    let answer = http(api, "/api/whoami", Some(GUEST));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\"name\":\"guest\""), "{answer}");
    assert!(http(api, "/api/whoami", None).starts_with("HTTP/1.1 401"));
    let answer = http(metrics, "/metrics", None);
    assert!(answer.contains("\nrabbitmq_connections 0\n"), "{answer}");
    assert!(answer.contains("rabbitmq_identity_info{"), "{answer}");
}

#[test]
fn an_address_that_was_chosen_for_amqp_opens_no_other_port() {
    let dir = TempDir::new().expect("a directory");
    let mut command = leveret(&dir.path().join("data"), "127.0.0.1:0");
    command.arg("--ports-file").arg(dir.path().join("ports"));
    let _running = Running::start(command);
    let ports = ports(dir.path());
    assert!(ports["http"].is_null() && ports["metrics"].is_null());
}

#[test]
fn with_definitions_there_is_nobody_but_those_in_them() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("definitions.json");
    // The password is "test12".
    let definitions = r#"{
        "users": [{
            "name": "alice", "tags": "administrator",
            "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
            "hashing_algorithm": "rabbit_password_hashing_sha256"
        }],
        "vhosts": [{"name": "app"}],
        "permissions": [{"user": "alice", "vhost": "app", "configure": ".*", "write": ".*", "read": ".*"}],
        "queues": [{"name": "jobs", "vhost": "app"}]
    }"#;
    fs::write(&file, definitions).expect("written");
    let mut command = with_http(dir.path());
    command.arg("--definitions").arg(&file);
    let _running = Running::start(command);
    let api = ports(dir.path())["http"][0].as_u64().expect("a port");
    assert!(http(api, "/api/whoami", Some(GUEST)).starts_with("HTTP/1.1 401"));
    // alice:test12
    let queues = http(api, "/api/queues/app", Some("YWxpY2U6dGVzdDEy"));
    assert!(queues.contains("\"name\":\"jobs\""), "{queues}");
}

#[test]
fn definitions_that_cannot_be_applied_keep_the_broker_from_starting() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("definitions.json");
    for (text, expected) in [
        ("[", "it is not a JSON object"),
        (
            r#"{"queues": [{"name": "q", "vhost": "none"}]}"#,
            "Please create virtual host",
        ),
    ] {
        fs::write(&file, text).expect("written");
        let mut command = leveret(&dir.path().join("data"), "127.0.0.1:0");
        let output = command.arg("--definitions").arg(&file).output();
        let Output { status, stderr, .. } = output.expect("it runs");
        let log = String::from_utf8(stderr).expect("text");
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(expected), "{log}");
    }
}

#[test]
fn the_first_user_and_vhost_may_be_named() {
    let dir = TempDir::new().expect("a directory");
    let mut command = with_http(dir.path());
    command
        .env("RABBITMQ_DEFAULT_USER", "alice")
        .env("RABBITMQ_DEFAULT_PASS", "test12")
        .env("RABBITMQ_DEFAULT_VHOST", "app")
        .env("RABBITMQ_NODENAME", "hare@warren");
    let _running = Running::start(command);
    let api = ports(dir.path())["http"][0].as_u64().expect("a port");
    assert!(http(api, "/api/whoami", Some(GUEST)).starts_with("HTTP/1.1 401"));
    let vhosts = http(api, "/api/vhosts", Some("YWxpY2U6dGVzdDEy"));
    assert!(vhosts.contains("\"name\":\"app\""), "{vhosts}");
    assert!(!vhosts.contains("\"name\":\"/\""), "{vhosts}");
    assert!(vhosts.contains("hare@warren"), "{vhosts}");
}

#[test]
fn messages_of_a_file_are_there_before_anybody_is_let_in() {
    let dir = TempDir::new().expect("a directory");
    let (definitions, messages) = (dir.path().join("d.json"), dir.path().join("m.jsonl"));
    let queue = r#"{"vhosts": [{"name": "/"}], "queues": [{"name": "jobs", "vhost": "/", "durable": true}],
        "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}]}"#;
    fs::write(&definitions, queue).expect("written");
    let lines =
        "{\"queue\": \"jobs\", \"payload\": \"one\"}\n{\"queue\": \"jobs\", \"payload\": [2]}\n";
    fs::write(&messages, lines).expect("written");
    let mut command = with_http(dir.path());
    command.arg("--definitions").arg(&definitions);
    command.arg("--messages").arg(&messages);
    let _running = Running::start(command);
    let api = ports(dir.path())["http"][0].as_u64().expect("a port");
    let queue = http(api, "/api/queues/%2F/jobs", Some(GUEST));
    assert!(queue.contains("\"messages_ready\":2,"), "{queue}");
}

#[test]
fn a_message_that_is_wrong_keeps_the_broker_from_starting() {
    let dir = TempDir::new().expect("a directory");
    let messages = dir.path().join("m.jsonl");
    fs::write(&messages, "\n{\"queue\": \"nowhere\", \"payload\": \"\"}\n").expect("written");
    let mut command = leveret(&dir.path().join("data"), "127.0.0.1:0");
    let output = command.arg("--messages").arg(&messages).output();
    let Output { status, stderr, .. } = output.expect("it runs");
    let log = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(1), "{log}");
    let expected = format!(
        "leveret: {}:2: there is no queue 'nowhere' in vhost '/'",
        messages.display()
    );
    assert_eq!(log.lines().last(), Some(expected.as_str()), "{log}");
}

#[test]
fn ports_that_nobody_chose_are_told_on_standard_output_too() {
    let dir = TempDir::new().expect("a directory");
    let mut command = with_http(dir.path());
    command.stdout(Stdio::piped());
    let mut running = Running::start(command);
    let mut line = String::new();
    let stdout = running.child.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(told, ports(dir.path()));
}

#[test]
fn the_log_goes_to_a_file_with_a_level_of_its_own() {
    let dir = TempDir::new().expect("a directory");
    let conf = dir.path().join("leveret.conf");
    let settings = format!(
        "log.file = all.log\nlog.dir = {}\nlog.file.level = debug\nlog.console = false\n",
        dir.path().join("logs").display()
    );
    fs::write(&conf, settings).expect("written");
    let mut command = leveret(&dir.path().join("data"), "127.0.0.1:0");
    command.arg("--config").arg(&conf);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let log = dir.path().join("logs/all.log");
    let text = loop {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.contains("Server startup complete") {
            break text;
        }
        assert!(child.try_wait().expect("asked").is_none(), "{text}");
        std::thread::yield_now();
    };
    assert!(text.contains("[debug]"), "{text}");
    assert!(
        text.contains(&format!(" log(s)         : {}", log.display())),
        "{text}"
    );
    child.kill().expect("killed");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "",
        "the console is off"
    );
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up_and_says_later_what_it_lost() {
    let dir = TempDir::new().expect("a directory");
    let mut command = leveret(dir.path(), "127.0.0.1:0");
    command.arg("--ports-file").arg(dir.path().join("ports"));
    command.args(["--log-level", "debug"]);
    let mut running = Running::start(command);
    let port = ports(dir.path())["amqp"][0].as_u64().expect("a port");
    // A line each: the pipe and what waits for it are full long before.
    for _ in 0..3000 {
        let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).expect("connected");
        let patience = Some(std::time::Duration::from_secs(20));
        client.set_read_timeout(patience).expect("set");
        client.write_all(b"AMQP\0\0\x09\x01").expect("sent");
        let mut answer = [0];
        client.read_exact(&mut answer).expect("answered");
    }
    running.wait_for("lines were too many to log to the console");
    assert_eq!(running.terminate(), Some(0));
    // The last lines are among those that are still in the pipe.
    running.wait_for("stopped");
}
