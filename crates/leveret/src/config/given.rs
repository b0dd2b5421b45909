//! The flags, made from the table.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::{setting::Row, table::ROWS};

/// Settings that `--help` shows; all of them are in `leveret help settings`.
const SHOWN_FIRST: [&str; 14] = [
    "config",
    "data_dir",
    "storage",
    "storage_sync",
    "memory_limit",
    "disk_free_limit",
    "listen",
    "http_listen",
    "ports_file",
    "node_name",
    "definitions",
    "default_user",
    "log_level",
    "log_file",
];

/// What the command line says of settings: values as they were given, lists with commas between their members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given(Vec<(&'static Row, String)>);

impl Given {
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static Row, &str)> {
        self.0.iter().map(|(row, value)| (*row, value.as_str()))
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for row in ROWS {
            if let Some(values) = matches.get_many::<String>(row.name) {
                let values: Vec<&str> = values.map(String::as_str).collect();
                self.0.push((row, values.join(",")));
            }
        }
        Ok(())
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command.args(ROWS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(row: &'static Row) -> Arg {
    let allowed = move |text: &str| {
        if (row.check)(text, row.range) {
            Ok(text.to_owned())
        } else {
            Err(format!("allowed is {}", row.allowed_for_people()))
        }
    };
    let flag = Arg::new(row.name)
        .long(row.flag())
        .value_name(row.value_name)
        .help(help(row))
        .help_heading(row.section)
        .hide(!SHOWN_FIRST.contains(&row.name))
        .allow_hyphen_values(true)
        .value_parser(allowed);
    if row.is_switch {
        flag.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    } else if row.is_list {
        flag.action(ArgAction::Append)
    } else {
        flag
    }
}

/// What it does, what it is by default, and what RabbitMQ calls it.
fn help(row: &Row) -> String {
    let mut help = row.sentence();
    if !row.default_for_people().is_empty() {
        help.push_str(&format!(" [default: {}]", row.default_for_people()));
    }
    if let Some(key) = row.over.iter().chain(row.under).next() {
        help.push_str(&format!(" [env: {}]", key.pattern));
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_first_are_settings() {
        for name in SHOWN_FIRST {
            assert!(ROWS.iter().any(|row| row.name == name), "{name}");
        }
    }
}
