//! Users, their passwords, tags and limits.

use std::io::{self, BufRead, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    call::{Call, Switch},
    client::{Client, as_told, segment},
    command::Command,
    failure::{DATA, Failure, NO_USER, SOFTWARE, UNAVAILABLE},
    format::{Output, Rows},
    term::Term,
};

const GROUP: &str = "Users";

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "add_user",
        "Makes a user, who has no permissions in any vhost yet",
        add,
    )
    .group(GROUP)
    .switches(&[Switch("pre-hashed-password", None, false)])
    .says(|call| format!("Adding user \"{}\" ...", call.argument(0)))
    .takes(
        1,
        2,
        "<username> [<password>] [<password_hash> --pre-hashed-password]",
    ),
    Command::new(
        "authenticate_user",
        "Tries a password; fails when it is wrong",
        authenticate,
    )
    .group(GROUP)
    .says(|call| format!("Authenticating user \"{}\" ...", call.argument(0)))
    .takes(1, 2, "<username> <password>"),
    Command::new(
        "change_password",
        "Gives a user another password",
        change_password,
    )
    .group(GROUP)
    .says(|call| format!("Changing password for user \"{}\" ...", call.argument(0)))
    .takes(1, 2, "<username> <password>"),
    Command::new(
        "clear_password",
        "Takes a user's password away: nobody can log in by one",
        clear_password,
    )
    .group(GROUP)
    .says(|call| format!("Clearing password for user \"{}\" ...", call.argument(0)))
    .takes(1, 1, "<username>"),
    Command::new("delete_user", "Deletes a user", delete)
        .group(GROUP)
        .says(|call| format!("Deleting user \"{}\" ...", call.argument(0)))
        .takes(1, 1, "<username>"),
    Command::new("list_users", "Lists users and their tags", list)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|_| "Listing users ...".to_owned())
        .takes(0, 0, "[--no-table-headers]"),
    Command::new(
        "set_user_tags",
        "Sets what a user is: administrator, monitoring, policymaker, management",
        set_tags,
    )
    .group(GROUP)
    .says(|call| {
        let tags = call.arguments.get(1..).unwrap_or_default().join(", ");
        format!(
            "Setting tags for user \"{}\" to [{tags}] ...",
            call.argument(0)
        )
    })
    .takes(1, usize::MAX, "<username> <tag> [...]"),
    Command::new(
        "set_user_limits",
        "Limits a user's connections and channels",
        set_limits,
    )
    .group(GROUP)
    .says(|call| {
        let (user, limits) = (call.argument(0), call.argument(1));
        format!("Setting user limits to \"{limits}\" for user \"{user}\" ...")
    })
    .takes(2, 2, "<username> <definition>"),
    Command::new(
        "clear_user_limits",
        "Takes a user's limits away",
        clear_limits,
    )
    .group(GROUP)
    .says(|call| match call.argument(1) {
        "all" => format!("Clearing all limits for user \"{}\" ...", call.argument(0)),
        limit => format!(
            "Clearing \"{limit}\" limit for user \"{}\" ...",
            call.argument(0)
        ),
    })
    .takes(2, 2, "<username> <limit_type> | all"),
    Command::new("list_user_limits", "Shows a user's limits", list_limits)
        .group(GROUP)
        .of_both()
        .switches(&[Switch("user", None, true), Switch("global", None, false)])
        .says(|call| {
            if call.has("global") {
                return "Listing limits for all users ...".to_owned();
            }
            format!("Listing limits for user \"{}\" ...", limited(call))
        })
        .takes(0, 0, "[--user <username>] [--global]"),
];

fn path(user: &str) -> String {
    format!("users/{}", segment(user))
}

/// The password behind the name, else the first line of standard input.
fn password(call: &Call) -> Result<String, Failure> {
    if let Some(given) = call.arguments.get(1) {
        return Ok(given.clone());
    }
    if !call.is_quiet() {
        // Where nobody sees it nobody types an answer.
        let _ = write!(io::stdout(), "Password: ").and_then(|()| io::stdout().flush());
    }
    let mut line = String::new();
    // What cannot be read was not given.
    let _ = io::stdin().lock().read_line(&mut line);
    let line = line.trim_end_matches(['\r', '\n']);
    if line.is_empty() {
        return Err(Failure::error(
            DATA,
            "Password is not provided via argument or stdin",
        ));
    }
    Ok(line.to_owned())
}

fn missing(user: &str) -> Failure {
    Failure::error(NO_USER, format!("User \"{user}\" does not exist"))
}

/// The user as the API wants it back, without what only it shows.
fn known(client: &Client, user: &str) -> Result<Option<Value>, Failure> {
    let found = client.user(user)?;
    Ok(found.map(|found| {
        json!({
            "password_hash": found["password_hash"],
            "hashing_algorithm": found["hashing_algorithm"],
            "tags": found["tags"],
        })
    }))
}

fn add(call: &Call, client: &Client) -> Result<Output, Failure> {
    let user = call.argument(0);
    let is_hashed = call.has("pre-hashed-password");
    if is_hashed && STANDARD.decode(call.argument(1)).is_err() {
        let why = "Bad argument: Could not Base64 decode provided password hash value";
        return Err(Failure::validation(call, DATA, why));
    }
    let secret = password(call)?;
    if client.user(user)?.is_some() {
        return Err(Failure::error(
            SOFTWARE,
            format!("User \"{user}\" already exists"),
        ));
    }
    let key = if is_hashed {
        "password_hash"
    } else {
        "password"
    };
    let body = json!({key: secret, "tags": []});
    client.change("PUT", &path(user), Some(&body), as_told)?;
    Ok(Output::Text(
        "Done. Don't forget to grant the user permissions to some virtual hosts! \
         See 'rabbitmqctl help set_permissions' to learn more."
            .to_owned(),
    ))
}

fn authenticate(call: &Call, client: &Client) -> Result<Output, Failure> {
    let user = call.argument(0);
    let body = json!({"username": user, "password": password(call)?});
    client.change("POST", "x/node/authenticate", Some(&body), |_| {
        Failure::error(
            DATA,
            format!(
                "Error: failed to authenticate user \"{user}\"\nuser '{user}' - invalid credentials"
            ),
        )
    })?;
    Ok(Output::Text("Success".to_owned()))
}

fn change_password(call: &Call, client: &Client) -> Result<Output, Failure> {
    let user = call.argument(0);
    let secret = password(call)?;
    let known = known(client, user)?.ok_or_else(|| missing(user))?;
    let body = json!({"password": secret, "tags": known["tags"]});
    client.change("PUT", &path(user), Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn clear_password(call: &Call, client: &Client) -> Result<Output, Failure> {
    let user = call.argument(0);
    let known = known(client, user)?
        .ok_or_else(|| Failure::error(UNAVAILABLE, format!("{{:no_such_user, \"{user}\"}}")))?;
    let body = json!({"password_hash": "", "tags": known["tags"]});
    client.change("PUT", &path(user), Some(&body), as_told)?;
    Ok(Output::Nothing)
}

fn delete(call: &Call, client: &Client) -> Result<Output, Failure> {
    let answer = client.ask("DELETE", &path(call.argument(0)), None)?;
    // Who is gone already is as good.
    if answer.is_good() || answer.status == 404 {
        return Ok(Output::Nothing);
    }
    Err(as_told(&answer))
}

fn list(_: &Call, client: &Client) -> Result<Output, Failure> {
    let users = client.list("users")?;
    let rows = users
        .iter()
        .map(|user| vec![Term::plain(&user["name"]), Term::names(&user["tags"])]);
    Ok(Output::Rows(Rows::whole(&["user", "tags"], rows.collect())))
}

fn set_tags(call: &Call, client: &Client) -> Result<Output, Failure> {
    let user = call.argument(0);
    let mut body = known(client, user)?.ok_or_else(|| missing(user))?;
    body["tags"] = json!(call.arguments.get(1..).unwrap_or_default());
    client.change("PUT", &path(user), Some(&body), as_told)?;
    Ok(Output::Nothing)
}

/// A JSON object of limits.
pub(super) fn limits(text: &str) -> Result<Value, Failure> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) | Err(_) => Err(super::parameters::no_json(text)),
    }
}

fn set_limits(call: &Call, client: &Client) -> Result<Output, Failure> {
    let user = call.argument(0);
    let limits = limits(call.argument(1))?;
    if client.user(user)?.is_none() {
        return Err(missing(user));
    }
    for (name, value) in limits.as_object().into_iter().flatten() {
        let path = format!("user-limits/{}/{}", segment(user), segment(name));
        client.change("PUT", &path, Some(&json!({"value": value})), as_told)?;
    }
    Ok(Output::Nothing)
}

fn clear_limits(call: &Call, client: &Client) -> Result<Output, Failure> {
    let (user, limit) = (call.argument(0), call.argument(1));
    if client.user(user)?.is_none() {
        return Err(missing(user));
    }
    let limits = match limit {
        "all" => vec!["max-connections", "max-channels"],
        one => vec![one],
    };
    for limit in limits {
        let path = format!("user-limits/{}/{}", segment(user), segment(limit));
        let answer = client.ask("DELETE", &path, None)?;
        if !answer.is_good() && answer.status != 404 {
            return Err(as_told(&answer));
        }
    }
    Ok(Output::Nothing)
}

fn limited(call: &Call) -> &str {
    call.option("user").unwrap_or("guest")
}

fn list_limits(call: &Call, client: &Client) -> Result<Output, Failure> {
    let of = |user: &Value| user.get("limits").cloned().unwrap_or_else(|| json!({}));
    if call.has("global") {
        let users = client.list("users")?;
        let limited = users.iter().filter(|user| of(user) != json!({}));
        let rows = limited.map(|user| vec![Term::plain(&user["name"]), Term::Json(of(user))]);
        let rows = Rows::whole(&["user", "limits"], rows.collect());
        return Ok(Output::Rows(rows));
    }
    let user = limited(call);
    let found = client.user(user)?.ok_or_else(|| missing(user))?;
    Ok(Output::Report {
        text: of(&found).to_string(),
        json: of(&found),
    })
}
