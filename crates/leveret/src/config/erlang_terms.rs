//! Configuration as Erlang terms: `rabbitmq.config`, `advanced.config`, and `-rabbit key value` of the arguments for
//! RabbitMQ's virtual machine.
//!
//! ```text
//!   [{rabbit, [{tcp_listeners, [5673]}, {loopback_users, []}]}].    % a list of applications, each with pairs
//! ```
//!
//! What is known becomes keys of rabbitmq.conf; what is not is named, and changes nothing.

use super::conf_file::{Line, Malformed};

/// What a value begins with that RabbitMQ decrypts.
pub(crate) const ENCRYPTED: &str = "encrypted:";

/// How deep terms may stand in each other. Nothing known needs more than six.
const DEPTH_MAX: usize = 32;

/// A term.
#[derive(Debug, Clone, PartialEq)]
enum Term {
    /// A number, as it was written.
    Number(String),
    /// An atom.
    Atom(String),
    /// A string or a binary.
    Text(String),
    /// With the line that it begins on.
    Tuple(usize, Vec<Self>),
    List(Vec<Self>),
    /// A map; nothing known is one.
    Map,
}

impl Term {
    /// What it says as a value of rabbitmq.conf.
    fn value(&self) -> Option<String> {
        match self {
            Self::Number(text) | Self::Atom(text) | Self::Text(text) => Some(text.clone()),
            Self::Tuple(_, members) => match members.as_slice() {
                [Self::Atom(tag), Self::Text(text)] if tag == "encrypted" => {
                    Some(format!("{ENCRYPTED}{text}"))
                }
                _ => None,
            },
            Self::List(_) | Self::Map => None,
        }
    }

    fn pair(&self) -> Option<(&str, &Self)> {
        match self {
            Self::Tuple(_, members) => match members.as_slice() {
                [Self::Atom(name), value] => Some((name, value)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Where a tuple begins; 0 is nowhere.
    const fn line(&self) -> usize {
        match self {
            Self::Tuple(line, _) => *line,
            _ => 0,
        }
    }

    fn members(&self) -> &[Self] {
        match self {
            Self::List(members) => members,
            _ => &[],
        }
    }
}

/// Reads a file of terms. Keys that are not known are lines whose key begins with the name of their application.
pub(crate) fn read(text: &str) -> Vec<Result<Line, Malformed>> {
    let mut reader = Reader { text, at: 0 };
    let term = match reader.file() {
        Ok(term) => term,
        Err(reason) => {
            let number = reader.line();
            return vec![Err(Malformed { number, reason })];
        }
    };
    let mut lines = Vec::new();
    for (application, settings) in term.members().iter().filter_map(Term::pair) {
        for setting in settings.members() {
            let Some((name, value)) = setting.pair() else {
                continue;
            };
            let number = setting.line();
            keys(application, name, value, &mut |key, value| {
                lines.push(Ok(Line { number, key, value }));
            });
        }
    }
    lines
}

/// Reads the arguments of the virtual machine: `-rabbit consumer_timeout 1000 +S 2:2`. What is not of an application is of
/// the machine and says nothing; neither does a value that is no term.
pub(crate) fn read_arguments(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let Some(application) = word.strip_prefix('-') else {
            continue;
        };
        if !application.starts_with("rabbit") {
            continue;
        }
        let Some(name) = words.next() else {
            break;
        };
        let mut value = String::new();
        while let Some(word) = words.next_if(|word| !word.starts_with(['-', '+'])) {
            value.push_str(word);
            value.push(' ');
        }
        // A shell would have taken the quotes away.
        let value = value.trim().trim_matches('\'');
        let mut reader = Reader { text: value, at: 0 };
        if let Ok(term) = reader.term(0) {
            keys(application, name, &term, &mut |key, value| {
                lines.push(Line {
                    number: 0,
                    key,
                    value,
                });
            });
        }
    }
    lines
}

/// The keys of rabbitmq.conf for a setting of an application.
fn keys(application: &str, name: &str, value: &Term, say: &mut dyn FnMut(String, String)) {
    match (application, name) {
        ("rabbit", "tcp_listeners") => listeners("listeners.tcp", value, say),
        ("rabbit", "ssl_listeners") => listeners("listeners.ssl", value, say),
        ("rabbit", "loopback_users") => {
            if value.members().is_empty() {
                say("loopback_users".to_owned(), "none".to_owned());
            }
            for user in value.members().iter().filter_map(Term::value) {
                let user = user.replace('.', "\\.");
                say(format!("loopback_users.{user}"), "true".to_owned());
            }
        }
        ("rabbit", "vm_memory_high_watermark" | "disk_free_limit") => match value {
            Term::Tuple(_, parts) => {
                let [Term::Atom(kind), amount] = parts.as_slice() else {
                    return unknown(application, name, say);
                };
                let kind = if kind == "mem_relative" {
                    "relative"
                } else {
                    kind
                };
                say_value(format!("{name}.{kind}"), amount, say);
            }
            Term::Number(amount) if amount.contains('.') => {
                say(format!("{name}.relative"), amount.clone());
            }
            amount => say_value(format!("{name}.absolute"), amount, say),
        },
        ("rabbit", "ssl_options") => {
            for (option, value) in value.members().iter().filter_map(Term::pair) {
                match value {
                    Term::List(members) => {
                        let members = members.iter().filter_map(Term::value).enumerate();
                        members.for_each(|(n, value)| {
                            say(format!("ssl_options.{option}.{}", n + 1), value);
                        });
                    }
                    value => say_value(format!("ssl_options.{option}"), value, say),
                }
            }
        }
        ("rabbit", "auth_mechanisms") => {
            let members = value.members().iter().filter_map(Term::value).enumerate();
            members.for_each(|(n, name)| say(format!("auth_mechanisms.{}", n + 1), name));
        }
        ("rabbit", "auth_backends") => backends("auth_backends", value, say),
        ("rabbitmq_web_dispatch", "auth_backends") => {
            backends("http_dispatch.auth_backends", value, say);
        }
        ("rabbit", "credential_validator") => parts("credential_validator", value, say),
        ("rabbitmq_prometheus", "authentication") => {
            parts("prometheus.authentication", value, say);
        }
        ("rabbit", "log") => {
            for (output, settings) in value.members().iter().filter_map(Term::pair) {
                for (setting, value) in settings.members().iter().filter_map(Term::pair) {
                    say_value(format!("log.{output}.{setting}"), value, say);
                }
            }
        }
        ("rabbit", "consumer_timeout") if is_no_time(value) => {
            say("consumer_timeout".to_owned(), "0".to_owned());
        }
        ("rabbit", "log_levels") => {}
        ("rabbit", name) => match value.value() {
            Some(value) => say(name.to_owned(), value),
            None => unknown(application, name, say),
        },
        ("rabbitmq_management", "listener") => {
            for (part, value) in value.members().iter().filter_map(Term::pair) {
                match (part, value) {
                    ("ssl_opts", options) => parts("management.listener.ssl_opts", options, say),
                    // Of the server that RabbitMQ builds upon.
                    ("cowboy_opts", _) => {}
                    (part, value) => say_value(format!("management.listener.{part}"), value, say),
                }
            }
        }
        ("rabbitmq_management", "tcp_config") => parts("management.tcp", value, say),
        ("rabbitmq_management", "ssl_config") => parts("management.ssl", value, say),
        ("rabbitmq_prometheus", "tcp_config") => parts("prometheus.tcp", value, say),
        ("rabbitmq_prometheus", "ssl_config") => parts("prometheus.ssl", value, say),
        ("rabbitmq_management", "load_definitions") => {
            say_value("load_definitions".to_owned(), value, say);
        }
        ("rabbitmq_management", name) => match value.value() {
            Some(value) => say(format!("management.{name}"), value),
            None => unknown(application, name, say),
        },
        ("rabbitmq_stream", name) => {
            if let Some(value) = value.value() {
                say(format!("stream.{name}"), value);
            }
        }
        // Erlang's own applications, and plugins that there is no counterpart for.
        _ => {}
    }
}

/// Login backends: each a name, or a pair of who says who somebody is and who says what they may.
fn backends(prefix: &str, value: &Term, say: &mut dyn FnMut(String, String)) {
    if value.members().is_empty() {
        // Not the default: nobody could come in.
        say(format!("{prefix}.1"), "none of them".to_owned());
    }
    for (n, backend) in value.members().iter().enumerate() {
        let key = format!("{prefix}.{}", n + 1);
        match backend.value() {
            Some(name) => say(key, name),
            None => say(format!("{key}.authn"), "a pair".to_owned()),
        }
    }
}

/// Each pair of a list as a key.
fn parts(prefix: &str, value: &Term, say: &mut dyn FnMut(String, String)) {
    for (part, value) in value.members().iter().filter_map(Term::pair) {
        say_value(format!("{prefix}.{part}"), value, say);
    }
}

fn listeners(prefix: &str, value: &Term, say: &mut dyn FnMut(String, String)) {
    if value.members().is_empty() {
        return say(prefix.to_owned(), "none".to_owned());
    }
    for (n, listener) in value.members().iter().enumerate() {
        let key = format!("{prefix}.{}", n + 1);
        match listener {
            Term::Tuple(_, parts) => {
                if let [ip, port] = parts.as_slice()
                    && let Some((ip, port)) = ip.value().zip(port.value())
                {
                    let ip = if ip.contains(':') {
                        format!("[{ip}]")
                    } else {
                        ip
                    };
                    say(key, format!("{ip}:{port}"));
                }
            }
            port => say_value(key, port, say),
        }
    }
}

fn say_value(key: String, value: &Term, say: &mut dyn FnMut(String, String)) {
    match value.value() {
        Some(value) => say(key, value),
        None => unknown("", &key, say),
    }
}

/// Erlang's ways to say that there is no such time.
fn is_no_time(value: &Term) -> bool {
    let words = ["false", "undefined", "infinity"];
    matches!(value, Term::Atom(word) if words.contains(&word.as_str()))
}

fn unknown(application: &str, name: &str, say: &mut dyn FnMut(String, String)) {
    say(format!("{application}:{name}"), "(a term)".to_owned());
}

/// Where in the text we are.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn line(&self) -> usize {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self) {
        while let Some(c) = self.peek() {
            if c == '%' {
                let line = self.rest().find('\n').unwrap_or_else(|| self.rest().len());
                self.at += line;
            } else if c.is_whitespace() {
                self.at += c.len_utf8();
            } else {
                return;
            }
        }
    }

    fn take(&mut self, wanted: &str) -> bool {
        self.skip();
        let is_there = self.rest().starts_with(wanted);
        if is_there {
            self.at += wanted.len();
        }
        is_there
    }

    /// A file that says nothing is an empty list.
    fn file(&mut self) -> Result<Term, String> {
        self.skip();
        if self.rest().is_empty() {
            return Ok(Term::List(Vec::new()));
        }
        let term = self.term(0)?;
        if !self.take(".") {
            return Err("expected is a point behind the list".to_owned());
        }
        Ok(term)
    }

    fn term(&mut self, depth: usize) -> Result<Term, String> {
        if depth > DEPTH_MAX {
            return Err(format!(
                "terms stand more than {DEPTH_MAX} deep in each other"
            ));
        }
        self.skip();
        match self.peek() {
            Some('[') => self.sequence("[", "]", depth).map(Term::List),
            Some('{') => {
                let line = self.line();
                let members = self.sequence("{", "}", depth)?;
                Ok(Term::Tuple(line, members))
            }
            Some('#') => self.map(depth).map(|()| Term::Map),
            Some('$') => self.character().map(Term::Number),
            Some('<') => {
                if !self.take("<<") {
                    return Err("expected is <<\"text\">>".to_owned());
                }
                self.skip();
                let text = match self.peek() {
                    Some('>') => String::new(),
                    _ => self.text()?,
                };
                // Of which kind its characters are: `<<"text"/utf8>>`.
                if self.take("/") {
                    self.word(|c| c.is_ascii_alphanumeric() || "-:".contains(c));
                }
                if !self.take(">>") {
                    return Err("a binary is not closed".to_owned());
                }
                Ok(Term::Text(text))
            }
            Some('"') => self.text().map(Term::Text),
            Some('\'') => self.quoted('\'').map(Term::Atom),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
                let mut number = self.word(is_part);
                // The point behind the last term is none of the number.
                if number.ends_with('.') {
                    number.pop();
                    self.at -= 1;
                }
                let number = number.replace('_', "");
                // `16#1F`: to another base.
                if self.rest().starts_with('#')
                    && let Ok(base @ 2..=36) = number.parse::<u32>()
                {
                    self.at += 1;
                    let digits = self.word(|c| c.is_ascii_alphanumeric());
                    let number = u64::from_str_radix(&digits, base);
                    return number
                        .map(|number| Term::Number(number.to_string()))
                        .map_err(|_| format!("{digits} is no number to the base {base}"));
                }
                Ok(Term::Number(number))
            }
            Some(c) if c.is_ascii_lowercase() => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "_@".contains(c);
                Ok(Term::Atom(self.word(is_part)))
            }
            Some(other) => Err(format!("expected is a term, not {other:?}")),
            None => Err("the text ends within a term".to_owned()),
        }
    }

    fn sequence(&mut self, open: &str, close: &str, depth: usize) -> Result<Vec<Term>, String> {
        self.take(open);
        let mut members = Vec::new();
        if self.take(close) {
            return Ok(members);
        }
        loop {
            members.push(self.term(depth + 1)?);
            if self.take(close) {
                return Ok(members);
            }
            if !self.take(",") {
                return Err(format!("expected is a comma or {close}"));
            }
        }
    }

    /// Texts that stand behind each other are one.
    fn text(&mut self) -> Result<String, String> {
        let mut text = self.quoted('"')?;
        loop {
            self.skip();
            if self.peek() != Some('"') {
                return Ok(text);
            }
            text.push_str(&self.quoted('"')?);
        }
    }

    /// `#{key => value}`, whose contents nobody asks for.
    fn map(&mut self, depth: usize) -> Result<(), String> {
        if !self.take("#{") {
            return Err("expected is #{key => value}".to_owned());
        }
        if self.take("}") {
            return Ok(());
        }
        loop {
            self.term(depth + 1)?;
            if !self.take("=>") {
                return Err("expected is => between key and value".to_owned());
            }
            self.term(depth + 1)?;
            if self.take("}") {
                return Ok(());
            }
            if !self.take(",") {
                return Err("expected is a comma or }".to_owned());
            }
        }
    }

    /// `$a` is the number of that character.
    fn character(&mut self) -> Result<String, String> {
        self.take("$");
        let escape = self.rest().starts_with('\\');
        let mut characters = self.rest().chars().skip(usize::from(escape));
        let character = characters
            .next()
            .ok_or_else(|| "expected is a character behind $".to_owned())?;
        self.at += usize::from(escape) + character.len_utf8();
        Ok(u32::from(character).to_string())
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = rest[..end].to_owned();
        self.at += end;
        word
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        if self.peek() != Some(quote) {
            return Err(format!("expected is {quote}"));
        }
        self.at += 1;
        let mut text = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((at, c)) = characters.next() {
            if c == quote {
                self.at += at + 1;
                return Ok(text);
            }
            match c {
                '\\' => text.extend(characters.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        Err("a text is not closed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let lines = read(text).into_iter().map(|line| line.expect("settings"));
        lines.map(|line| (line.key, line.value)).collect()
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_is_known_becomes_keys_of_rabbitmq_conf() {
        let text = r#"
            %% a comment
            [
              {rabbit, [
                {tcp_listeners, [5673, {"127.0.0.1", 5674}]},
                {loopback_users, []},
                {default_user, <<"me">>}, {default_pass, <<"a\"b">>},
                {heartbeat, 30},
                {vm_memory_high_watermark, 0.4},
                {disk_free_limit, {mem_relative, 1.5}},
                {log, [{console, [{level, debug}]}]},
                {ssl_options, [{certfile, "/c.pem"}, {verify, verify_peer}, {versions, ['tlsv1.2']}]}
              ]},
              {rabbitmq_management, [{load_definitions, "/d.json"}, {listener, [{port, 8080}]}]},
              {kernel, [{inet_dist_listen_min, 1}]}
            ]."#;
        let expected = owned(&[
            ("listeners.tcp.1", "5673"),
            ("listeners.tcp.2", "127.0.0.1:5674"),
            ("loopback_users", "none"),
            ("default_user", "me"),
            ("default_pass", "a\"b"),
            ("heartbeat", "30"),
            ("vm_memory_high_watermark.relative", "0.4"),
            ("disk_free_limit.relative", "1.5"),
            ("log.console.level", "debug"),
            ("ssl_options.certfile", "/c.pem"),
            ("ssl_options.verify", "verify_peer"),
            ("ssl_options.versions.1", "tlsv1.2"),
            ("load_definitions", "/d.json"),
            ("management.listener.port", "8080"),
        ]);
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn the_terms_of_the_java_test_container_are_read() {
        let text = "[{rabbit,[{log,[{console,[{level,debug}]}]}]}].";
        assert_eq!(pairs(text), owned(&[("log.console.level", "debug")]));
    }

    #[test]
    fn all_that_terms_can_be_may_stand_beside_what_is_known() {
        let text = r#"
            [{kernel, [{logger, [{handler, default, logger_std_h,
                #{level => debug, config => #{}, "k" => {$a, $\n}}}]}]},
             {rabbit, [{default_user, <<"a" "b"/utf8>>}, {default_pass, "c"
                "d"}, {default_vhost, <<>>}, {heartbeat, 16#1F}]}]."#;
        let read = pairs(text);
        assert_eq!(read[0], ("default_user".to_owned(), "ab".to_owned()));
        assert_eq!(read[1], ("default_pass".to_owned(), "cd".to_owned()));
        assert_eq!(read[2], ("default_vhost".to_owned(), String::new()));
        assert_eq!(read[3], ("heartbeat".to_owned(), "31".to_owned()));
    }

    #[test]
    fn a_setting_is_told_by_its_line() {
        let lines = read("[{rabbit, [\n {heartbeat, 1},\n\n {frame_max, 2}]}].");
        let numbers: Vec<usize> = lines.iter().flatten().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 4]);
    }

    #[test]
    fn a_number_may_stand_before_the_last_point() {
        let mut reader = Reader { text: "5.", at: 0 };
        assert_eq!(reader.file(), Ok(Term::Number("5".to_owned())));
        assert_eq!(pairs(""), []);
        assert_eq!(pairs("[]."), []);
    }

    #[test]
    fn what_is_no_term_is_told_by_its_line() {
        for (text, line) in [
            ("[\n{rabbit, [}\n].", 2),
            ("[{rabbit, []}]", 1),
            ("\"abc", 1),
        ] {
            let wrong = read(text).pop().expect("something").expect_err("malformed");
            assert_eq!(wrong.number, line, "{text}: {}", wrong.reason);
        }
        let deep = "[".repeat(100_000);
        assert!(read(&deep)[0].is_err());
    }

    #[test]
    fn arguments_of_the_virtual_machine_set_what_they_name() {
        let text = "+S 2:2 -rabbit consumer_timeout 1000 -kernel inet_dist_listen_min 1 -rabbit disk_free_limit \
                    2147483648 -rabbitmq_management load_definitions \"/etc/d.json\" +MBas ageffcbf -rabbit heartbeat 5";
        let lines = read_arguments(text).into_iter();
        let pairs: Vec<_> = lines.map(|line| (line.key, line.value)).collect();
        let expected = owned(&[
            ("consumer_timeout", "1000"),
            ("disk_free_limit.absolute", "2147483648"),
            ("load_definitions", "/etc/d.json"),
            ("heartbeat", "5"),
        ]);
        assert_eq!(pairs, expected);
        assert_eq!(read_arguments("-rabbit"), []);
        assert_eq!(read_arguments("-rabbit consumer_timeout"), []);
        for none in ["false", "undefined", "infinity"] {
            let [line] = &read_arguments(&format!("-rabbit consumer_timeout {none}"))[..] else {
                panic!("{none} is a word about the time");
            };
            assert_eq!(
                (line.key.as_str(), line.value.as_str()),
                ("consumer_timeout", "0")
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,200}", terms in "([a-z0-9\\[\\]{}<>,.\"'\\\\% \n-]){0,200}") {
            read(&text);
            read(&terms);
            read_arguments(&text);
            read_arguments(&format!("-rabbit x {terms}"));
        }
    }
}
