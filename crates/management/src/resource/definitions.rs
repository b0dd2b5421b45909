//! Definitions: everything but messages, out and in, for the whole node or one vhost.

use std::path::{Path, PathBuf};

use axum::http::Method;
use leveret_core::{
    directory::DirectoryError,
    record::{BindingRecord, Destination, ExchangeRecord, HashAlgorithm},
    refusal::Refusal,
    vhost::{ExchangeDeclare, QueueDeclare},
};
use leveret_runtime::{Broker, VhostHandle};
use leveret_wire::{reply_code::ReplyCode, value::ShortString};
use serde_json::{Map, Value, json};
use std::sync::Arc;

use crate::{
    error::Refused,
    reply::Reply,
    request::{self, Request, boolean, name, nested, optional_text, text},
    resource::{
        bindings, exchanges, node, parameters, permissions, policies, queues::NO_CONNECTION,
        topic_permissions, users, vhosts,
    },
    server::{Api, HttpSettings, Listening},
    values::{table_from_json, table_to_json},
    visitor::Visitor,
};

/// Where a queue is among several nodes, in RabbitMQ before 4.0; it never had an effect here.
const MASTER_LOCATOR: &str = "x-queue-master-locator";

/// Names that the broker makes by itself, and so are in no definitions.
const RESERVED_PREFIX: &str = "amq.";

/// Definitions that cannot be applied at start. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file.
    #[error("cannot read definitions from {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What is in it.
    #[error("cannot apply the definitions in {path}: {reason}")]
    Apply {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Applies a file of definitions, or those of a directory in the order of their names, before anybody is let in.
///
/// # Errors
///
/// When a file cannot be read or applied; what came before it is applied.
pub async fn import_file(broker: &Arc<Broker>, path: &Path) -> Result<(), ImportError> {
    let failed = |path: &Path, source| ImportError::Read {
        path: path.to_owned(),
        source,
    };
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        files = files_of(path).map_err(|source| failed(path, source))?;
    }
    for file in files {
        let text = std::fs::read(&file).map_err(|source| failed(&file, source))?;
        import_text(broker, &file, &text).await?;
    }
    Ok(())
}

/// The files of a directory in the order of their names; what a mounted volume keeps beside them has names that begin
/// with a point.
fn files_of(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // Links are followed.
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Applies definitions; `from` is how problems name them.
///
/// # Errors
///
/// When they cannot be applied; what came before the problem is.
pub async fn import_text(
    broker: &Arc<Broker>,
    from: &Path,
    text: &[u8],
) -> Result<(), ImportError> {
    let api = Api::of(
        broker.clone(),
        Listening::default(),
        HttpSettings::default(),
        Arc::default(),
    );
    let refused = |reason: String| ImportError::Apply {
        path: from.to_owned(),
        reason,
    };
    let definitions = read(text).ok_or_else(|| refused("it is not a JSON object".to_owned()))?;
    import(&api, &definitions, None).await.map_err(|refusal| {
        let reason = refusal.body.map(|body| body["reason"].clone());
        refused(match reason {
            Some(Value::String(reason)) => reason,
            other => other.unwrap_or_default().to_string(),
        })
    })?;
    tracing::info!(file = %from.display(), "definitions applied");
    Ok(())
}

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    let is_read = request.method == Method::GET;
    let vhost = || match path {
        [] => Ok(None),
        [vhost] => match super::entered(api, visitor, vhost) {
            Err(refused) if refused.names_no_vhost && is_read => {
                Err(Refused::bad_request("vhost_not_found"))
            }
            entered => entered.map(Some),
        },
        _ => Err(Refused::not_found()),
    };
    if is_read {
        let definitions = match vhost()? {
            None => export(api),
            Some(vhost) => export_vhost(api, &vhost),
        };
        return Ok(match request.parameter("download") {
            Some(file) => Reply::Download(definitions, file.to_owned()),
            None => Reply::Json(definitions),
        });
    }
    let definitions = body(request)?;
    match vhost()? {
        None => import(api, &definitions, Some(&visitor.name)).await?,
        Some(vhost) => {
            let into = Some(vhost.name());
            room_for_queues(api, &definitions, into)?;
            import_objects(api, &definitions, into).await?;
        }
    }
    let form =
        boundary(request).and_then(|boundary| field_of_form(&request.body, boundary, "redirect"));
    match form.and_then(|to| std::str::from_utf8(to).ok()) {
        Some(to) => Ok(Reply::SeeOther(to.to_owned())),
        None => Ok(Reply::NoContent),
    }
}

/// What stands between the fields, if the request is a form with files.
fn boundary(request: &Request) -> Option<&str> {
    let kind = request.header("content-type")?;
    let (form, boundary) = kind.split_once("boundary=")?;
    form.starts_with("multipart/form-data")
        .then(|| boundary.trim_matches('"'))
}

/// The definitions of a request: JSON, or a form with a field `file`, as browsers send it.
pub(crate) fn body(request: &Request) -> Result<Map<String, Value>, Refused> {
    let text = match boundary(request) {
        Some(boundary) => field_of_form(&request.body, boundary, "file")
            .ok_or_else(|| Refused::bad_request("failed_to_parse_json"))?,
        None => &request.body[..],
    };
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    read(text).ok_or_else(|| Refused::bad_request("failed_to_parse_json"))
}

/// What some editors put before a text, to say that it is UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn read(text: &[u8]) -> Option<Map<String, Value>> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    serde_json::from_slice(text).ok()
}

/// The content of a field of a form.
fn field_of_form<'a>(form: &'a [u8], boundary: &str, name: &str) -> Option<&'a [u8]> {
    let boundary = format!("--{boundary}");
    let name = format!("name=\"{name}\"");
    let mut rest = form;
    while let Some(at) = find(rest, boundary.as_bytes()) {
        rest = &rest[at + boundary.len()..];
        let head_end = find(rest, b"\r\n\r\n")?;
        let (head, content) = (&rest[..head_end], &rest[head_end + 4..]);
        if find(head, name.as_bytes()).is_some() {
            let end = find(content, format!("\r\n{boundary}").as_bytes())?;
            return Some(&content[..end]);
        }
    }
    None
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn export(api: &Api) -> Value {
    let directory = api.broker.directory();
    let mut objects = Objects::default();
    for vhost in api.broker.vhosts() {
        objects.add(&vhost);
    }
    let of_component = |component: &str| {
        let found = directory.parameters();
        let found = found.filter(move |known| known.component == component);
        found.map(|known| policies::shown(known)).collect::<Value>()
    };
    json!({
        "rabbit_version": api.facts.version,
        "rabbitmq_version": api.facts.version,
        "product_name": "RabbitMQ",
        "product_version": api.facts.version,
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": node::cluster_name(api),
        "explanation": format!("Definitions of cluster '{}'", node::cluster_name(api)),
        "users": directory.users().map(|user| users::shown(user)).collect::<Value>(),
        "vhosts": directory.vhosts().map(|vhost| json!({
            "name": vhost.name.to_string(),
            "metadata": vhosts::metadata(api, vhost),
            "limits": vhosts::limits(vhost),
        })).collect::<Value>(),
        "permissions": directory.permissions().map(|known| permissions::shown(known)).collect::<Value>(),
        "topic_permissions": directory
            .topic_permissions()
            .map(|known| topic_permissions::shown(known))
            .collect::<Value>(),
        "parameters": parameters::listed(api),
        "global_parameters": parameters::globals(api),
        "policies": of_component(policies::USER),
        "queues": objects.queues,
        "exchanges": objects.exchanges,
        "bindings": objects.bindings,
    })
}

fn export_vhost(api: &Api, vhost: &VhostHandle) -> Value {
    let directory = api.broker.directory();
    let mut objects = Objects::default();
    objects.add(vhost);
    let is_here = |item: &Value| item["vhost"] == vhost.name().to_string();
    let policies = directory.parameters();
    let policies = policies.filter(|known| known.component == policies::USER);
    let policies: Vec<Value> = policies.map(|known| policies::shown(known)).collect();
    let without_vhost = |list: Vec<Value>| -> Value {
        let list = list.into_iter().filter(is_here);
        list.map(|mut item| {
            if let Value::Object(fields) = &mut item {
                fields.remove("vhost");
            }
            item
        })
        .collect()
    };
    let record = directory.vhost(vhost.name());
    json!({
        "rabbit_version": api.facts.version,
        "rabbitmq_version": api.facts.version,
        "product_name": "RabbitMQ",
        "product_version": api.facts.version,
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost.name().to_string(),
        "original_cluster_name": node::cluster_name(api),
        "explanation": format!("Definitions of virtual host '{}'", vhost.name()),
        "description": record.map(|record| record.description.clone()),
        "default_queue_type": record.map(|record| vhosts::metadata(api, record)["default_queue_type"].clone()),
        "metadata": record.map(|record| vhosts::metadata(api, record)),
        "limits": record.map(|record| vhosts::limits(record)),
        "parameters": without_vhost(parameters::listed(api)),
        "policies": without_vhost(policies),
        "queues": without_vhost(objects.queues),
        "exchanges": without_vhost(objects.exchanges),
        "bindings": without_vhost(objects.bindings),
    })
}

/// What was made by somebody and for more than one connection, also if it does not outlive a restart.
#[derive(Debug, Default)]
struct Objects {
    queues: Vec<Value>,
    exchanges: Vec<Value>,
    bindings: Vec<Value>,
}

impl Objects {
    fn add(&mut self, vhost: &VhostHandle) {
        let snapshot = vhost.snapshot();
        let is_exported = |name: &ShortString| {
            let queue = snapshot.queue(name);
            queue.is_ok_and(|record| record.exclusive_to.is_none() && !is_reserved(name))
        };
        for record in snapshot.queues().filter(|record| is_exported(&record.name)) {
            self.queues.push(json!({
                "name": record.name.to_string(),
                "vhost": record.vhost.to_string(),
                "durable": record.durable,
                "auto_delete": record.auto_delete,
                "arguments": table_to_json(&record.arguments),
                "type": record.queue_type.name(),
            }));
        }
        for exchange in snapshot.exchanges() {
            let record = exchange.record();
            let bindings = exchange
                .bindings()
                .filter(|binding| match &binding.destination {
                    Destination::Queue(name) => is_exported(name),
                    Destination::Exchange(_) => true,
                });
            self.bindings.extend(bindings.map(bindings::exported));
            if !is_reserved(&record.name) && !record.name.is_empty() {
                let mut shown = exchanges::shown(record);
                if let Value::Object(fields) = &mut shown {
                    fields.remove("user_who_performed_action");
                }
                self.exchanges.push(shown);
            }
        }
    }
}

fn is_reserved(name: &ShortString) -> bool {
    name.as_bytes().starts_with(RESERVED_PREFIX.as_bytes())
}

/// Applies definitions of a node in RabbitMQ's order.
async fn import(
    api: &Api,
    definitions: &Map<String, Value>,
    maker: Option<&ShortString>,
) -> Result<(), Refused> {
    if definitions.get("rabbitmq_definition_format") == Some(&"single_virtual_host".into()) {
        return Err(Refused::bad_request(
            "these are definitions of one virtual host; import them into one",
        ));
    }
    let (hashing, algorithm) = (api.broker.password_hashing(), algorithm_of(definitions));
    for user in list(definitions, "users")? {
        let name = name(text(user, "name")?)?;
        let known = api.broker.directory().user(&name).cloned();
        users::check_password(api, user)
            .map_err(|_| Refused::bad_request(users::PASSWORD_REFUSED))?;
        let user = users::read(name, user, known.as_deref(), (hashing, algorithm))?;
        api.broker.put_user(user).await;
    }
    for vhost in list(definitions, "vhosts")? {
        let name = name(text(vhost, "name")?)?;
        let known = api.broker.directory().vhost(&name).cloned();
        let record = vhosts::read(name, vhost, known.as_deref())?;
        vhosts::room_for(api, &record.name)?;
        vhosts::put(api, record, maker.filter(|_| known.is_none())).await;
    }
    room_for_queues(api, definitions, None)?;
    for permission in list(definitions, "permissions")? {
        let (vhost, user) = (text(permission, "vhost")?, text(permission, "user")?);
        let permission = permissions::read(vhost, user, permission)?;
        let put = api.broker.put_permission(permission).await;
        put.map_err(|error| unknown_member(&error))?;
    }
    for permission in list(definitions, "topic_permissions")? {
        let (vhost, user) = (text(permission, "vhost")?, text(permission, "user")?);
        let permission = topic_permissions::read(vhost, user, permission)?;
        let put = api.broker.put_topic_permission(permission).await;
        put.map_err(|error| unknown_member(&error))?;
    }
    for parameter in list(definitions, "global_parameters")? {
        let value = parameter.get("value").cloned().unwrap_or_default();
        let name = text(parameter, "name")?;
        parameters::put(api, "", ShortString::empty(), name, &value).await;
    }
    import_objects(api, definitions, None).await
}

/// Applies what is in vhosts; all of it into one vhost if one is named.
async fn import_objects(
    api: &Api,
    definitions: &Map<String, Value>,
    into: Option<&ShortString>,
) -> Result<(), Refused> {
    let vhost_of = |object: &Map<String, Value>| -> Result<Arc<VhostHandle>, Refused> {
        let name = match into {
            Some(vhost) => vhost.clone(),
            None => name(text(object, "vhost")?)?,
        };
        api.broker.vhost(&name).map_err(|_| {
            Refused::bad_request(format!(
                "Please create virtual host \"{name}\" prior to importing definitions."
            ))
        })
    };
    for exchange in list(definitions, "exchanges")? {
        import_exchange(&vhost_of(exchange)?, exchange).await?;
    }
    for policy in list(definitions, "policies")? {
        let vhost = vhost_of(policy)?.name().clone();
        let name = text(policy, "name")?;
        let value = policies::read(policies::USER, policy).map_err(|refused| {
            refused.with_context(&format!(" (vhost: \"{vhost}\" key: \"{name}\")"))
        })?;
        parameters::put(api, policies::USER, vhost, name, &value).await;
    }
    for parameter in list(definitions, "parameters")? {
        import_parameter(api, vhost_of(parameter)?.name(), parameter).await?;
    }
    for queue in list(definitions, "queues")? {
        import_queue(&vhost_of(queue)?, queue).await?;
    }
    for binding in list(definitions, "bindings")? {
        import_binding(&vhost_of(binding)?, binding).await?;
    }
    Ok(())
}

/// Whether the queues that are not there yet may be, by the limits of their vhosts.
fn room_for_queues(
    api: &Api,
    definitions: &Map<String, Value>,
    into: Option<&ShortString>,
) -> Result<(), Refused> {
    let queues = list(definitions, "queues")?;
    let directory = api.broker.directory();
    for handle in api.broker.vhosts() {
        let vhost = handle.name();
        if into.is_some_and(|into| into != vhost) {
            continue;
        }
        let limit = directory.vhost(vhost).and_then(|record| record.max_queues);
        // A negative one is none.
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            continue;
        };
        let snapshot = handle.snapshot();
        let is_new = |queue: &&&Map<String, Value>| {
            let is_here = into.is_some() || queue.get("vhost") == Some(&vhost.to_string().into());
            let name = text(queue, "name").and_then(name);
            is_here && name.is_ok_and(|name| snapshot.queue(&name).is_err())
        };
        let (there, new) = (
            snapshot.queues().count(),
            queues.iter().filter(is_new).count(),
        );
        if new > 0 && there + new > limit {
            return Err(Refused::bad_request(format!(
                "Adding {new} queue(s) to virtual host \"{vhost}\" would exceed the limit of {limit} queue(s).\n\n\
                 This virtual host currently has {there} queue(s) defined.\n\nImport aborted!"
            )));
        }
    }
    Ok(())
}

async fn import_exchange(
    vhost: &Arc<VhostHandle>,
    exchange: &Map<String, Value>,
) -> Result<(), Refused> {
    let name = name(text(exchange, "name")?)?;
    if is_reserved(&name) || name.is_empty() || vhost.snapshot().exchange(&name).is_ok() {
        return Ok(());
    }
    let kind = request::name(optional_text(exchange, "type")?.unwrap_or("direct"))?;
    if !ExchangeRecord::is_type(kind.as_bytes()) {
        return Err(Refused::bad_request(format!(
            "precondition_failed: unknown exchange type '{kind}'"
        )));
    }
    let declare = ExchangeDeclare {
        name,
        kind,
        passive: false,
        durable: boolean(exchange, "durable")?.unwrap_or(true),
        auto_delete: boolean(exchange, "auto_delete")?.unwrap_or(false),
        internal: boolean(exchange, "internal")?.unwrap_or(false),
        arguments: table_from_json(&nested(exchange, "arguments")?)?,
        refused_if_new: None,
    };
    kept(vhost.declare_exchange(declare).await)
}

async fn import_queue(vhost: &Arc<VhostHandle>, queue: &Map<String, Value>) -> Result<(), Refused> {
    let name = name(text(queue, "name")?)?;
    if is_reserved(&name) || vhost.snapshot().queue(&name).is_ok() {
        return Ok(());
    }
    let (durable, auto_delete) = (boolean(queue, "durable")?, boolean(queue, "auto_delete")?);
    let mut arguments = nested(queue, "arguments")?;
    loop {
        // Their type stands among the arguments; what else names it is for people.
        let declare = QueueDeclare {
            name: name.clone(),
            server_named: false,
            durable: durable.unwrap_or(true),
            exclusive: false,
            auto_delete: auto_delete.unwrap_or(false),
            arguments: table_from_json(&arguments)?,
            refused_if_new: None,
        };
        let declared = vhost.declare_queue(declare, NO_CONNECTION).await.map(drop);
        // Clients may not ask for one any more. What was declared when they could comes in; RabbitMQ leaves it out
        // without a word.
        let is_old = matches!(declared, Err(Refusal::DeprecatedFeature { .. }));
        if !(is_old && arguments.remove(MASTER_LOCATOR).is_some()) {
            return kept(declared);
        }
    }
}

async fn import_binding(
    vhost: &Arc<VhostHandle>,
    binding: &Map<String, Value>,
) -> Result<(), Refused> {
    let source = name(text(binding, "source")?)?;
    if source.is_empty() {
        return Ok(());
    }
    let destination = name(text(binding, "destination")?)?;
    let destination = match text(binding, "destination_type")? {
        "queue" => Destination::Queue(destination),
        "exchange" => Destination::Exchange(destination),
        other => {
            return Err(Refused::bad_request(format!(
                "unknown destination type '{other}'"
            )));
        }
    };
    let record = BindingRecord {
        vhost: vhost.name().clone(),
        source,
        destination,
        key: name(optional_text(binding, "routing_key")?.unwrap_or_default())?,
        arguments: table_from_json(&nested(binding, "arguments")?)?,
    };
    match vhost.bind(record, NO_CONNECTION).await {
        Err(refusal @ Refusal::NotFound { .. }) => Err(Refused::bad_request(format!(
            "{{resources_missing,{refusal}}}"
        ))),
        other => kept(other),
    }
}

async fn import_parameter(
    api: &Api,
    vhost: &ShortString,
    parameter: &Map<String, Value>,
) -> Result<(), Refused> {
    let (component, name) = (text(parameter, "component")?, text(parameter, "name")?);
    let value = parameter
        .get("value")
        .ok_or_else(|| Refused::key_missing("value"))?;
    let put = parameters::put_checked(api, component, vhost, name, value).await;
    put.map(drop).map_err(|refused| {
        refused.with_context(&format!(
            " (vhost: \"{vhost}\" / component: \"{component}\" / key: \"{name}\")"
        ))
    })
}

/// What exists otherwise is kept as it is.
fn kept(result: Result<(), Refusal>) -> Result<(), Refused> {
    match result {
        Ok(()) | Err(Refusal::Inequivalent { .. } | Refusal::Locked { .. }) => Ok(()),
        Err(refusal) if refusal.reply_code() == ReplyCode::PreconditionFailed => Err(
            Refused::bad_request(format!("precondition_failed: {refusal}")),
        ),
        Err(refusal) => Err(Refused::bad_request(refusal.to_string())),
    }
}

fn unknown_member(error: &DirectoryError) -> Refused {
    match error {
        DirectoryError::NoUser(user) => {
            Refused::bad_request(format!("{{no_such_user,<<\"{user}\">>}}"))
        }
        DirectoryError::NoVhost(vhost) => Refused::bad_request(format!(
            "Please create virtual host \"{vhost}\" prior to importing definitions."
        )),
        DirectoryError::Pattern { .. } => Refused::bad_request(error.to_string()),
    }
}

/// How passwords were hashed whose algorithm is not named.
pub(crate) fn algorithm_of(definitions: &Map<String, Value>) -> HashAlgorithm {
    let version = definitions.get("rabbitmq_version");
    let version = version.or_else(|| definitions.get("rabbit_version"));
    let version = version.and_then(Value::as_str);
    let mut numbers = version
        .unwrap_or("4.0.0")
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(u32::MAX));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (3, 6) {
        HashAlgorithm::Md5
    } else {
        HashAlgorithm::Sha256
    }
}

fn list<'a>(
    definitions: &'a Map<String, Value>,
    section: &str,
) -> Result<Vec<&'a Map<String, Value>>, Refused> {
    match definitions.get(section) {
        None | Some(Value::Null) => Ok(Vec::new()),
        // As in RabbitMQ: what is no object is nothing.
        Some(Value::Array(list)) => Ok(list.iter().filter_map(Value::as_object).collect()),
        Some(_) => Err(Refused::bad_request(format!("{section}: not a list"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_a_form() {
        let form = b"--b\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nx\r\n--b\r\n\
            Content-Disposition: form-data; name=\"file\"; filename=\"d.json\"\r\n\r\n{\"a\": 1}\r\n--b--\r\n";
        assert_eq!(field_of_form(form, "b", "file"), Some(&b"{\"a\": 1}"[..]));
        assert_eq!(field_of_form(b"--b\r\n", "b", "file"), None);
    }

    #[cfg(unix)]
    #[test]
    fn of_a_mounted_volume_only_the_files_that_one_sees_are_definitions() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        // As Kubernetes mounts a ConfigMap.
        std::fs::create_dir(at("..2026_01_01")).expect("made");
        std::fs::write(at("..2026_01_01/b.json"), "{}").expect("written");
        std::os::unix::fs::symlink("..2026_01_01", at("..data")).expect("linked");
        std::os::unix::fs::symlink("..data/b.json", at("b.json")).expect("linked");
        std::fs::write(at("a.json"), "{}").expect("written");
        std::fs::create_dir(at("directory")).expect("made");
        std::fs::write(at(".hidden.json"), "").expect("written");
        let files = files_of(directory.path()).expect("read");
        assert_eq!(files, [at("a.json"), at("b.json")]);
    }

    #[test]
    fn very_old_definitions_have_md5_hashes() {
        let of = |version: &str| {
            let mut definitions = Map::new();
            definitions.insert("rabbit_version".to_owned(), version.into());
            algorithm_of(&definitions)
        };
        assert_eq!(of("3.5.7"), HashAlgorithm::Md5);
        assert_eq!(of("3.6.0"), HashAlgorithm::Sha256);
        assert_eq!(of("4.3.6"), HashAlgorithm::Sha256);
        assert_eq!(algorithm_of(&Map::new()), HashAlgorithm::Sha256);
    }
}
