//! What can be declared, deleted and listed: paths and bodies of the API, the same for both generations.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::options::Options;
use crate::client::segment;

/// One request.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

/// Why nothing can be asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// There is no such thing to do this with.
    Thing,
    /// A field is missing.
    Missing(&'static str),
    /// A field is no JSON.
    NoJson(&'static str, String),
}

fn must<'a>(options: &'a Options, name: &'static str) -> Result<&'a str, Wrong> {
    options.field(name).ok_or(Wrong::Missing(name))
}

fn json_field(options: &Options, name: &'static str) -> Result<Option<Value>, Wrong> {
    let Some(text) = options.field(name) else {
        return Ok(None);
    };
    match serde_json::from_str(text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(Wrong::NoJson(name, error.to_string())),
    }
}

/// A vhost of its own field, else the common one.
fn vhost(options: &Options) -> &str {
    options
        .field("vhost")
        .unwrap_or_else(|| options.vhost_or_root())
}

/// `PUT` of something.
pub(super) fn declare(thing: &str, options: &Options) -> Result<Asked, Wrong> {
    let put = |path: String, body: Value| {
        Ok(Asked {
            method: "PUT",
            path: format!("/api/{path}"),
            body: Some(body),
        })
    };
    let of_vhost = segment(options.vhost_or_root());
    match thing {
        "queue" | "stream" => {
            let name = segment(must(options, "name")?);
            let mut arguments = json_field(options, "arguments")?.unwrap_or_else(|| json!({}));
            let kind = options
                .field("queue_type")
                .or_else(|| options.field("type"));
            let kind = kind.or_else(|| (thing == "stream").then_some("stream"));
            if let (Some(kind), Value::Object(arguments)) = (kind, &mut arguments) {
                arguments.insert("x-queue-type".to_owned(), kind.into());
            }
            let body = json!({
                "durable": options.field("durable").unwrap_or("true"),
                "auto_delete": options.field("auto_delete").unwrap_or("false"),
                "arguments": arguments,
            });
            put(format!("queues/{of_vhost}/{name}"), body)
        }
        "exchange" => {
            let name = segment(must(options, "name")?);
            let kind = match options.generation {
                super::Generation::First => must(options, "type")?,
                super::Generation::Second => options.field("type").unwrap_or("direct"),
            };
            let body = json!({
                "type": kind,
                "durable": options.field("durable").unwrap_or("true"),
                "auto_delete": options.field("auto_delete").unwrap_or("false"),
                "internal": options.field("internal").unwrap_or("false"),
                "arguments": json_field(options, "arguments")?.unwrap_or_else(|| json!({})),
            });
            put(format!("exchanges/{of_vhost}/{name}"), body)
        }
        "binding" => {
            let path = binding(options)?;
            let body = json!({
                "routing_key": options.field("routing_key").unwrap_or_default(),
                "arguments": json_field(options, "arguments")?.unwrap_or_else(|| json!({})),
            });
            Ok(Asked {
                method: "POST",
                path,
                body: Some(body),
            })
        }
        "vhost" => {
            let mut body = Map::new();
            for key in ["tracing", "description", "default_queue_type", "tags"] {
                if let Some(value) = options.field(key) {
                    body.insert(key.to_owned(), value.into());
                }
            }
            put(
                format!("vhosts/{}", segment(must(options, "name")?)),
                body.into(),
            )
        }
        "user" => {
            let mut body = json!({"tags": options.field("tags").unwrap_or_default()});
            if options.generation == super::Generation::First {
                must(options, "tags")?;
            }
            match (options.field("password"), options.field("password_hash")) {
                (Some(password), _) => body["password"] = password.into(),
                (None, Some(hash)) => body["password_hash"] = hash.into(),
                (None, None) => body["password_hash"] = "".into(),
            }
            put(format!("users/{}", segment(must(options, "name")?)), body)
        }
        "permission" | "permissions" => {
            let path = permission(options)?;
            let body = json!({
                "configure": must(options, "configure")?,
                "write": must(options, "write")?,
                "read": must(options, "read")?,
            });
            put(path, body)
        }
        "parameter" => {
            let value = json_field(options, "value")?.ok_or(Wrong::Missing("value"))?;
            let (component, name) = (must(options, "component")?, must(options, "name")?);
            let path = format!(
                "parameters/{}/{of_vhost}/{}",
                segment(component),
                segment(name)
            );
            let body = json!({"component": component, "vhost": options.vhost_or_root(), "name": name, "value": value});
            put(path, body)
        }
        "policy" | "operator_policy" => {
            let definition =
                json_field(options, "definition")?.ok_or(Wrong::Missing("definition"))?;
            let priority = options.field("priority").unwrap_or("0");
            let priority: i64 = priority
                .parse()
                .map_err(|_| Wrong::NoJson("priority", format!("{priority} is no number")))?;
            let body = json!({
                "pattern": must(options, "pattern")?,
                "definition": definition,
                "priority": priority,
                "apply-to": options.field("apply_to").unwrap_or("all"),
            });
            put(policy(thing, options)?, body)
        }
        "vhost_limit" | "user_limit" => {
            let value = json_field(options, "value")?.ok_or(Wrong::Missing("value"))?;
            put(limit(thing, options)?, json!({"value": value}))
        }
        _ => Err(Wrong::Thing),
    }
}

fn binding(options: &Options) -> Result<String, Wrong> {
    let of_vhost = segment(options.vhost_or_root());
    let source = segment(must(options, "source")?);
    let destination = segment(must(options, "destination")?);
    let kind = options.field("destination_type").unwrap_or("queue");
    let kind = kind.get(..1).unwrap_or("q");
    Ok(format!(
        "/api/bindings/{of_vhost}/e/{source}/{kind}/{destination}"
    ))
}

fn permission(options: &Options) -> Result<String, Wrong> {
    let user = segment(must(options, "user")?);
    Ok(format!("permissions/{}/{user}", segment(vhost(options))))
}

fn policy(thing: &str, options: &Options) -> Result<String, Wrong> {
    let kind = if thing == "policy" {
        "policies"
    } else {
        "operator-policies"
    };
    let of_vhost = segment(options.vhost_or_root());
    Ok(format!(
        "{kind}/{of_vhost}/{}",
        segment(must(options, "name")?)
    ))
}

fn limit(thing: &str, options: &Options) -> Result<String, Wrong> {
    let name = segment(must(options, "name")?);
    Ok(match thing {
        "vhost_limit" => format!("vhost-limits/{}/{name}", segment(vhost(options))),
        _ => format!("user-limits/{}/{name}", segment(must(options, "user")?)),
    })
}

/// `DELETE` of something.
pub(super) fn delete(thing: &str, options: &Options) -> Result<Asked, Wrong> {
    let of_vhost = segment(options.vhost_or_root());
    let named = |kind: &str| -> Result<String, Wrong> {
        Ok(format!(
            "{kind}/{of_vhost}/{}",
            segment(must(options, "name")?)
        ))
    };
    let path = match thing {
        "queue" | "stream" => named("queues")?,
        "exchange" => named("exchanges")?,
        "binding" => {
            let key = match (
                options.field("properties_key"),
                options.field("routing_key"),
            ) {
                (Some(key), _) => key,
                (None, Some("") | None) => "~",
                (None, Some(key)) => key,
            };
            let path = format!("{}/{}", binding(options)?, segment(key));
            return Ok(Asked {
                method: "DELETE",
                path,
                body: None,
            });
        }
        "vhost" => format!("vhosts/{}", segment(must(options, "name")?)),
        "user" => format!("users/{}", segment(must(options, "name")?)),
        "permission" | "permissions" => permission(options)?,
        "parameter" => {
            let component = segment(must(options, "component")?);
            format!(
                "parameters/{component}/{of_vhost}/{}",
                segment(must(options, "name")?)
            )
        }
        "policy" | "operator_policy" => policy(thing, options)?,
        "vhost_limit" | "user_limit" => limit(thing, options)?,
        "connection" => format!("connections/{}", segment(must(options, "name")?)),
        "contents" => format!("{}/contents", named("queues")?),
        _ => return Err(Wrong::Thing),
    };
    Ok(Asked {
        method: "DELETE",
        path: format!("/api/{path}"),
        body: None,
    })
}

/// A list, with the columns that are shown of it unless others are asked for.
pub(super) fn list(thing: &str, options: &Options) -> Option<(String, &'static [&'static str])> {
    let (kind, is_in_vhosts, columns): (&str, bool, &[&str]) = match thing {
        "connections" => ("connections", false, &["name", "user", "channels"]),
        "channels" => ("channels", false, &["name", "user"]),
        "consumers" => ("consumers", true, &[]),
        "exchanges" => ("exchanges", true, &["name", "type"]),
        "queues" => ("queues", true, &["name", "messages"]),
        "bindings" => ("bindings", true, &["source", "destination", "routing_key"]),
        "users" => ("users", false, &[]),
        "vhosts" => ("vhosts", false, &["name", "messages"]),
        "permissions" => ("permissions", false, &[]),
        "nodes" => ("nodes", false, &["name", "type", "mem_used"]),
        "parameters" => ("parameters", false, &[]),
        "policies" => ("policies", true, &[]),
        "operator_policies" => ("operator-policies", true, &[]),
        "vhost_limits" => ("vhost-limits", true, &[]),
        "user_limits" => ("user-limits", false, &[]),
        "feature_flags" => ("feature-flags", false, &["name", "state"]),
        "deprecated_features" => ("deprecated-features", false, &[]),
        "user_connections" => ("connections", false, &["name", "user", "vhost"]),
        _ => return None,
    };
    let path = match options.vhost.as_deref().filter(|_| is_in_vhosts) {
        Some(vhost) => format!("/api/{kind}/{}", segment(vhost)),
        None => format!("/api/{kind}"),
    };
    Some((path, columns))
}

/// A body as the API takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) text: String,
    pub(super) encoding: String,
}

impl Payload {
    /// What was said on the command line, which may be encoded already.
    pub(super) fn said(options: &Options) -> Option<Self> {
        let encoding = options.field("payload_encoding").unwrap_or("string");
        options.field("payload").map(|text| Self {
            text: text.to_owned(),
            encoding: encoding.to_owned(),
        })
    }

    /// Any bytes, of a file or of standard input.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self {
            text: STANDARD.encode(bytes),
            encoding: "base64".to_owned(),
        }
    }

    /// The bytes of a message that the API has shown.
    pub(super) fn bytes_of(message: &Value) -> Vec<u8> {
        let text = message["payload"].as_str().unwrap_or_default();
        match message["payload_encoding"].as_str() {
            Some("base64") => STANDARD.decode(text).unwrap_or_default(),
            _ => text.as_bytes().to_vec(),
        }
    }
}

/// A message to an exchange.
pub(super) fn publish(options: &Options, payload: &Payload) -> Result<Asked, Wrong> {
    let exchange = options.field("exchange").filter(|name| !name.is_empty());
    let exchange = segment(exchange.unwrap_or("amq.default"));
    let body = json!({
        "routing_key": must(options, "routing_key")?,
        "payload": payload.text,
        "payload_encoding": payload.encoding,
        "properties": json_field(options, "properties")?.unwrap_or_else(|| json!({})),
    });
    Ok(Asked {
        method: "POST",
        path: format!(
            "/api/exchanges/{}/{exchange}/publish",
            segment(options.vhost_or_root())
        ),
        body: Some(body),
    })
}

/// Messages off a queue.
pub(super) fn get(options: &Options) -> Result<Asked, Wrong> {
    let queue = segment(must(options, "queue")?);
    let count = options.field("count").unwrap_or("1");
    let count: u64 = count
        .parse()
        .map_err(|_| Wrong::NoJson("count", format!("{count} is no number")))?;
    let mode = options
        .field("ackmode")
        .or_else(|| options.field("ack_mode"));
    // What scripts of before said instead.
    let mode = mode.unwrap_or_else(|| match options.field("requeue") {
        Some("false") => "ack_requeue_false",
        _ => "ack_requeue_true",
    });
    Ok(Asked {
        method: "POST",
        path: format!(
            "/api/queues/{}/{queue}/get",
            segment(options.vhost_or_root())
        ),
        body: Some(json!({
            "count": count,
            "ackmode": mode,
            "encoding": options.field("encoding").unwrap_or("auto"),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Options::parse(&words).expect("a command line")
    }

    #[test]
    fn both_grammars_ask_the_same() {
        let first = options(&["declare", "queue", "name=q", "queue_type=quorum"]);
        let second = options(&["declare", "queue", "--name", "q", "--type", "quorum"]);
        let asked = declare("queue", &first).expect("all is there");
        assert_eq!(asked, declare("queue", &second).expect("all is there"));
        assert_eq!(asked.path, "/api/queues/%2F/q");
        assert_eq!(
            asked.body,
            Some(
                json!({"durable": "true", "auto_delete": "false", "arguments": {"x-queue-type": "quorum"}})
            )
        );
    }

    #[test]
    fn what_is_missing_or_no_json_is_named() {
        let asked = options(&["declare", "exchange", "name=e"]);
        assert_eq!(declare("exchange", &asked), Err(Wrong::Missing("type")));
        let asked = options(&["declare", "queue", "name=q", "arguments={x"]);
        assert!(matches!(
            declare("queue", &asked),
            Err(Wrong::NoJson("arguments", _))
        ));
        assert_eq!(delete("nothing", &asked), Err(Wrong::Thing));
    }

    #[test]
    fn a_body_may_be_any_bytes() {
        let bytes = [0, 255, b'a'];
        let payload = Payload::of_bytes(&bytes);
        assert_eq!(payload.encoding, "base64");
        let asked = options(&["publish", "routing_key=q"]);
        let body = publish(&asked, &payload).expect("all is there").body;
        let body = body.expect("it has one");
        assert_eq!(body["payload_encoding"], "base64");
        assert_eq!(Payload::bytes_of(&body), bytes);
        let text = json!({"payload": "a\u{e9}", "payload_encoding": "string"});
        assert_eq!(Payload::bytes_of(&text), "a\u{e9}".as_bytes());
        let said = options(&[
            "publish",
            "routing_key=q",
            "payload=YQ==",
            "payload_encoding=base64",
        ]);
        assert_eq!(Payload::said(&said), Some(Payload::of_bytes(b"a")));
        assert_eq!(Payload::said(&asked), None);
    }

    #[test]
    fn bindings_are_deleted_by_their_key() {
        let asked = options(&["delete", "binding", "source=e", "destination=q"]);
        let path = delete("binding", &asked).expect("all is there").path;
        assert_eq!(path, "/api/bindings/%2F/e/e/q/q/~");
    }
}
