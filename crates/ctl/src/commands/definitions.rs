//! Everything that was declared, to a file and back.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use serde_json::Value;

use crate::{
    call::{Call, Switch},
    client::Client,
    command::Command,
    failure::{DATA, Failure, UNAVAILABLE},
    format::Output,
};

const GROUP: &str = "Definitions";

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "export_definitions",
        "Writes users, vhosts, queues and so on to a file, as JSON",
        export,
    )
    .group(GROUP)
    .timed()
    .switches(&[Switch("format", None, true)])
    .says(|call| match call.argument(0) {
        // Nothing but the definitions goes to standard output.
        "-" => String::new(),
        path => format!("Exporting definitions in JSON to a file at \"{path}\" ..."),
    })
    .takes(1, 1, "<file_path | \"-\"> [--format <json | erlang>]"),
    Command::new(
        "import_definitions",
        "Makes what a file of definitions says",
        import,
    )
    .group(GROUP)
    .timed()
    .switches(&[
        Switch("format", None, true),
        Switch("skip-if-unchanged", None, false),
    ])
    .says(|call| match call.arguments.first() {
        Some(path) if path != "-" => {
            format!("Importing definitions in JSON from a file at \"{path}\" ...")
        }
        _ => "Importing definitions in JSON from standard input ...".to_owned(),
    })
    .takes(
        0,
        1,
        "<file_path> [--format <json | erlang>] [--skip-if-unchanged]",
    ),
];

fn only_json(call: &Call) -> Result<(), Failure> {
    match call.option("format") {
        None => Ok(()),
        Some(name) if name.eq_ignore_ascii_case("json") => Ok(()),
        Some(_) => Err(Failure::validation(
            call,
            DATA,
            "Bad argument: only JSON is supported: --format json",
        )),
    }
}

fn export(call: &Call, client: &Client) -> Result<Output, Failure> {
    only_json(call)?;
    let path = call.argument(0);
    let parent = Path::new(path)
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty());
    if let Some(dir) = parent.filter(|dir| path != "-" && !dir.is_dir()) {
        let why = format!("Bad argument: Directory {} does not exist", dir.display());
        return Err(Failure::validation(call, DATA, &why));
    }
    let definitions = client.get("definitions")?.to_string();
    if path == "-" {
        return Ok(Output::Verbatim(definitions));
    }
    fs::write(path, definitions)
        .map_err(|error| Failure::error(DATA, format!("Could not write to \"{path}\": {error}")))?;
    Ok(Output::Nothing)
}

fn import(call: &Call, client: &Client) -> Result<Output, Failure> {
    only_json(call)?;
    let text = match call.arguments.first().map(String::as_str) {
        None | Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        Some(path) if !Path::new(path).is_file() => {
            let why = format!("Bad argument: File {path} does not exist");
            return Err(Failure::validation(call, DATA, &why));
        }
        Some(path) => fs::read_to_string(path),
    };
    let text = text.map_err(|error| Failure::error(DATA, error.to_string()))?;
    let definitions: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::error(
            DATA,
            format!("Failed to parse definitions as JSON: {error}"),
        )
    })?;
    client.change("POST", "definitions", Some(&definitions), |answer| {
        let code = if answer.status == 400 {
            DATA
        } else {
            UNAVAILABLE
        };
        Failure::error(code, answer.why())
    })?;
    Ok(Output::Text(
        "Successfully started definition import. This process is asynchronous and can take some time. \
         Watch target node logs for completion."
            .to_owned(),
    ))
}
