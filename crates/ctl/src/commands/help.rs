//! Help, versions, completion, and what needs no node.

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256, Sha512};

use crate::{
    call::{Call, Switch},
    client::Client,
    command::{self, Command},
    failure::{DATA, Failure, UNAVAILABLE, USAGE},
    format::Output,
    program::Program,
};

/// The version of RabbitMQ whose tools these stand in for.
pub(super) const VERSION: &str = "4.3.6";

const EVERYWHERE: &[Program] = &Program::ALL;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "help",
        "Shows how the program or one of its commands is used",
        help,
    )
    .group("Help")
    .of(EVERYWHERE)
    .switches(&[Switch("list-commands", None, false)])
    .takes(0, 1, "(<command> | [--list-commands])"),
    Command::new(
        "version",
        "Shows the version of RabbitMQ that these tools are those of",
        version,
    )
    .group("Help")
    .of(EVERYWHERE),
    Command::new(
        "autocomplete",
        "Lists commands that begin with some letters",
        autocomplete,
    )
    .group("Help")
    .of(EVERYWHERE)
    .timed()
    .takes(0, 1, "[prefix]"),
    Command::new(
        "completion",
        "Prints a script that makes a shell complete commands",
        completion,
    )
    .group("Help")
    .of(EVERYWHERE)
    .takes(1, 1, "<bash | zsh | fish>"),
    Command::new("hash_password", "Hashes a password", hash_password)
        .switches(&[Switch("hashing-algorithm", None, true)])
        .says(|call| format!("Will hash password {}", call.argument(0)))
        .takes(
            1,
            1,
            "<cleartext_password> [--hashing-algorithm <algorithm>]",
        ),
    Command::new(
        "observer",
        "Not supported: there is no Erlang to observe",
        interactive,
    )
    .of(&[Program::Diagnostics])
    .group("Not supported")
    .switches(&[Switch("interval", Some('i'), true)])
    .timed()
    .takes(0, 0, "[--interval <seconds>]"),
    Command::new(
        "remote_shell",
        "Not supported: there is no Erlang shell",
        interactive,
    )
    .of(&[Program::Diagnostics])
    .group("Not supported"),
    Command::new(
        "join_cluster",
        "Not supported: a broker is one node",
        no_cluster,
    )
    .group("Not supported")
    .switches(&[Switch("disc", None, false), Switch("ram", None, false)])
    .says(|call| format!("Clustering node {} with {}", call.node(), call.argument(0)))
    .takes(1, 1, "[--disc] <existing_cluster_member>"),
    Command::new(
        "forget_cluster_node",
        "Not supported: a broker is one node",
        no_cluster,
    )
    .group("Not supported")
    .switches(&[Switch("offline", None, false)])
    .says(|call| format!("Removing node {} from the cluster", call.argument(0)))
    .takes(1, 1, "[--offline] <existing_cluster_member_node>"),
    Command::new(
        "change_cluster_node_type",
        "Not supported: a broker is one node",
        no_cluster,
    )
    .group("Not supported")
    .takes(1, 1, "<disc | ram>"),
    Command::new(
        "rename_cluster_node",
        "Not supported: a broker is one node",
        no_cluster,
    )
    .group("Not supported")
    .takes(
        0,
        usize::MAX,
        "<oldnode1> <newnode1> [oldnode2] [newnode2] ...",
    ),
    Command::new(
        "update_cluster_nodes",
        "Not supported: a broker is one node",
        no_cluster,
    )
    .group("Not supported")
    .takes(1, 1, "<seed_node>"),
];

fn help(call: &Call, _: &Client) -> Result<Output, Failure> {
    if call.has("list-commands") {
        let names: Vec<&str> = command::of(call.program).map(|known| known.name).collect();
        return Ok(Output::Verbatim(names.join("\n")));
    }
    if call.arguments.is_empty() {
        return Ok(Output::Verbatim(command::overview(call.program)));
    }
    let name = call.argument(0);
    let mut known = command::of(call.program);
    let Some(known) = known.find(|command| command.name == name) else {
        return Err(Failure::error(
            USAGE,
            format!("\nCommand '{name}' not found."),
        ));
    };
    let usage = command::usage(call.program, known);
    let about = known.about;
    Ok(Output::Verbatim(format!(
        "\nUsage\n\n{usage}\n\n{about}\n\n{OPTIONS}"
    )))
}

const OPTIONS: &str = "\
Options of every command

-n, --node <node>       the broker that is meant; else that of RABBITMQ_NODENAME, else rabbit@<this machine>
-p, --vhost <vhost>     where queues, exchanges and so on are looked for; / unless said
-t, --timeout <secs>    how long to wait for the broker
-q, --quiet             no line about what is going on
-s, --silent            nor a header above the columns
    --formatter <name>  table, pretty_table, json, csv or erlang
    --help, --version
";

fn version(_: &Call, _: &Client) -> Result<Output, Failure> {
    Ok(Output::Verbatim(VERSION.to_owned()))
}

fn autocomplete(call: &Call, _: &Client) -> Result<Output, Failure> {
    let names = command::of(call.program).map(|known| known.name);
    let mut names: Vec<&str> = names
        .filter(|name| name.starts_with(call.argument(0)))
        .collect();
    names.sort_unstable();
    Ok(match names.as_slice() {
        [] => Output::Nothing,
        names => Output::Verbatim(names.join("\n")),
    })
}

fn completion(call: &Call, _: &Client) -> Result<Output, Failure> {
    let name = call.program.name();
    let word = name.replace('-', "_");
    let script = match call.argument(0) {
        "bash" => format!(
            "_{word}() {{\n  \
               [ \"$COMP_CWORD\" -eq 1 ] || return 0\n  \
               mapfile -t COMPREPLY < <({name} autocomplete -- \"${{COMP_WORDS[1]}}\" 2>/dev/null)\n\
             }}\n\
             complete -o default -F _{word} {name}"
        ),
        "zsh" => format!(
            "#compdef {name}\n\
             _{word}() {{\n  \
               if (( CURRENT == 2 )); then compadd -- ${{(f)\"$({name} autocomplete -- \"$words[2]\" 2>/dev/null)\"}}; else _files; fi\n\
             }}\n\
             compdef _{word} {name}"
        ),
        "fish" => format!(
            "complete -c {name} -n '__fish_use_subcommand' -f -a '({name} autocomplete -- (commandline -ct) 2>/dev/null)'"
        ),
        other => {
            let why = format!("no completion for {other:?}: bash, zsh and fish are known");
            return Err(Failure::validation(call, USAGE, &why));
        }
    };
    Ok(Output::Verbatim(script))
}

/// Bytes in front of a hashed password, so that equal passwords differ.
const SALT_BYTES: usize = 4;

fn hash_password(call: &Call, _: &Client) -> Result<Output, Failure> {
    let salt: [u8; SALT_BYTES] = rand::random();
    let salted = [&salt, call.argument(0).as_bytes()].concat();
    let algorithm = call.option("hashing-algorithm").unwrap_or("sha256");
    let hash = match algorithm.trim_start_matches("rabbit_password_hashing_") {
        "sha256" => Sha256::digest(&salted).to_vec(),
        "sha512" => Sha512::digest(&salted).to_vec(),
        _ => {
            let why = format!("{algorithm} is not supported: give sha256 or sha512");
            return Err(Failure::validation(call, DATA, &why));
        }
    };
    Ok(Output::Text(STANDARD.encode([&salt[..], &hash].concat())))
}

fn interactive(call: &Call, _: &Client) -> Result<Output, Failure> {
    let name = call.command.name;
    Err(Failure::error(
        USAGE,
        format!("{name} is not supported: this broker does not run on Erlang"),
    ))
}

fn no_cluster(call: &Call, _: &Client) -> Result<Output, Failure> {
    let name = call.command.name;
    Err(Failure::error(
        UNAVAILABLE,
        format!("{name} is not supported: a broker is one node and joins no others"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<Output, Failure> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let call = Call::parse(Program::Ctl, &words)?;
        (call.command.run)(&call, &call.client())
    }

    #[test]
    fn a_hash_is_salt_and_digest_of_salt_and_password() {
        let Ok(Output::Text(text)) = run("hash_password abc") else {
            panic!("it is hashed");
        };
        let bytes = STANDARD.decode(text).expect("base64");
        let (salt, digest) = bytes.split_at(SALT_BYTES);
        assert_eq!(Sha256::digest([salt, b"abc"].concat()).as_slice(), digest);
        assert_eq!(
            run("hash_password abc --hashing-algorithm md4")
                .expect_err("unknown")
                .code,
            DATA
        );
    }

    #[test]
    fn letters_are_completed_to_commands() {
        let Ok(Output::Verbatim(text)) = run("autocomplete list_q") else {
            panic!("there is one");
        };
        assert_eq!(text, "list_queues");
        for shell in ["bash", "zsh", "fish"] {
            assert!(run(&format!("completion {shell}")).is_ok());
        }
    }

    #[test]
    fn clusters_are_refused_in_words() {
        let failure = run("join_cluster rabbit@other").expect_err("one node");
        assert_eq!(failure.code, UNAVAILABLE);
        assert!(failure.text.contains("not supported"));
    }
}
