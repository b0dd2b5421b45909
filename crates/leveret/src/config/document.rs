//! docs/configuration.md, from the table.

use std::fmt::Write;

use super::{
    setting::{Key, Row},
    table::{ROWS, WITHOUT_EFFECT},
};

const OPENING: &str = "\
# Configuration

Made by `leveret config document` from the table that the broker reads its settings by; a test compares the two.

## Where settings come from

Every setting has a flag, a variable and a name in TOML; most have the key that RabbitMQ has for them in `rabbitmq.conf`. What
stands later in this list overrides what stands earlier:

1. the default;
2. `RABBITMQ_NODE_PORT` and `RABBITMQ_NODE_IP_ADDRESS`, which a file overrides in RabbitMQ too;
3. `rabbitmq.conf`: the file that `RABBITMQ_CONFIG_FILE` names, with or without `.conf`; then the files of the directory or the
   pattern that `RABBITMQ_CONFIG_FILES` names, by their names; then the file of Erlang terms, `advanced.config`
   (`RABBITMQ_ADVANCED_CONFIG_FILE`), which replaces what the others say of the same; then those of `--config`. Run under the
   name `rabbitmq-server`, `/etc/rabbitmq/rabbitmq.conf`, `/etc/rabbitmq/conf.d/*.conf` and `/etc/rabbitmq/advanced.config` are
   read where the variables name no others. A main file of Erlang terms, `rabbitmq.config`, goes before `rabbitmq.conf` and
   stands in for `advanced.config`;
4. files of `--config` that end in `.toml`: `heartbeat = 30`, `listen = [\"127.0.0.1:5672\"]`, everything at the top;
5. RabbitMQ's other variables;
6. `LEVERET_` variables; those of secrets also as `LEVERET_..._FILE`, the name of a file that holds the value;
7. flags.

`rabbitmq-env.conf` (`RABBITMQ_CONF_ENV_FILE`) stands in for variables that are not set; what is more than assignments in it is
given to `sh`. In `rabbitmq.conf` a `#` starts a comment, single quotes keep one in a value, `$(NAME)` is the variable of that
name, `$(<FILE)` what stands in a file, and `include PATTERN` lets other files in. Blanks behind a value are its own unless a
comment follows, as in RabbitMQ.

A key that does not exist is a warning with what may have been meant; with `--config-strict` it keeps the broker from starting, as
it does in RabbitMQ. A value that is not possible always does, with the file, the line and what is allowed. In `rabbitmq.conf` the
values of RabbitMQ's keys must be such as RabbitMQ takes, also of those that have no effect here: `true` and not `yes`, `0.4` and
not `40%`, `listeners.tcp.1 = ::1:5672` without brackets. What RabbitMQ counts in kB, MB and GB of 1024, as `frame_max`, is that
here too. Secrets that are encrypted for RabbitMQ cannot be read.

`leveret config check` says what is wrong and exits with 1 if the broker would not start; `leveret config show` prints what every
setting is, and where that was said. Both take the flags of the broker and read the environment.

Sizes: `k`, `kB`, `M`, `MB` and so on are powers of 1000, `Ki`, `KiB`, `Mi`, `MiB` powers of 1024. Times: a number, or `500ms`,
`30s`, `5m`, `1h30m`, `2d`, `1w`.
";

/// The page.
pub(crate) fn document() -> String {
    let mut page = OPENING.to_owned();
    let mut section = "";
    for row in ROWS {
        if row.section != section {
            section = row.section;
            line(&mut page, &format!("\n## {section}"));
        }
        describe(&mut page, row);
    }
    line(&mut page, "\n## Keys without effect\n");
    line(
        &mut page,
        "These keys of `rabbitmq.conf` change nothing; `*` stands for any ending. A start tells of those that somebody may rely on.\n",
    );
    line(&mut page, "| keys | why |\n| --- | --- |");
    for keys in WITHOUT_EFFECT {
        let patterns = keys.patterns.iter().map(|pattern| format!("`{pattern}`"));
        let patterns: Vec<String> = patterns.collect();
        let row = format!("| {} | {} |", patterns.join(" "), keys.reason);
        line(&mut page, &row);
    }
    page
}

fn describe(page: &mut String, row: &Row) {
    line(page, &format!("\n### `{}`\n", row.name));
    line(page, &format!("{}.\n", row.sentence()));
    let default = row.default_for_people();
    let default = match (default, row.default_words) {
        ("", _) => "none".to_owned(),
        (_, "") => format!("`{default}`"),
        _ => default.to_owned(),
    };
    line(page, &format!("* default: {default}"));
    line(page, &format!("* allowed: {}", row.allowed_for_people()));
    line(
        page,
        &format!(
            "* `--{} {}`, `{}`",
            row.flag(),
            row.value_name,
            row.variable()
        ),
    );
    let names = |keys: &[Key]| {
        let names = keys.iter().rev().map(|key| format!("`{}`", key.pattern));
        names.collect::<Vec<_>>().join(", ")
    };
    if !row.keys.is_empty() {
        line(page, &format!("* in rabbitmq.conf: {}", names(row.keys)));
    }
    if !row.over.is_empty() {
        line(
            page,
            &format!("* RabbitMQ's variables: {}", names(row.over)),
        );
    }
    if !row.under.is_empty() {
        line(
            page,
            &format!(
                "* RabbitMQ's variables, below the files: {}",
                names(row.under)
            ),
        );
    }
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("a String takes everything");
}
