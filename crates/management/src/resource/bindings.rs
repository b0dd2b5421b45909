//! `/bindings`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use leveret_core::{
    record::{BindingRecord, Destination},
    refusal::{ObjectKind, Refusal},
};
use leveret_runtime::VhostHandle;
use leveret_wire::value::{FieldTable, ShortString};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

use crate::{
    error::Refused,
    lists,
    reply::Reply,
    request::{self, Request, optional_text},
    resource::{
        entered, entered_if_there, entered_of, exchanges::real_name, queues::NO_CONNECTION,
    },
    server::Api,
    values::{table_from_json, table_to_json},
    visitor::Visitor,
};

/// What stands as it is in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    path: &[&str],
) -> Result<Reply, Refused> {
    match (request.method.as_str(), path) {
        ("GET", [] | [_]) => {
            let mut list = Vec::new();
            for vhost in entered_of(api, visitor, path)? {
                list.extend(of_vhost(Some(&vhost), |_| true));
            }
            Ok(lists::whole(request, list))
        }
        (
            method,
            [
                vhost,
                "e",
                source,
                kind @ ("q" | "e"),
                destination,
                rest @ ..,
            ],
        ) => {
            let vhost = match (method, rest) {
                // Of things that are not there, too: there are none.
                ("GET", []) => entered_if_there(api, visitor, vhost)?,
                _ => Some(entered(api, visitor, vhost)?),
            };
            let Some(vhost) = vhost else {
                return Ok(lists::whole(request, Vec::new()));
            };
            let source = real_name(source)?;
            let destination = match *kind {
                "q" => Destination::Queue(request::name(destination)?),
                _ => Destination::Exchange(real_name(destination)?),
            };
            let between = Between {
                vhost: &vhost,
                source,
                destination,
            };
            match (method, rest) {
                ("GET", []) => Ok(lists::whole(request, between.list())),
                ("POST", []) => between.bind(api, visitor, request).await,
                ("GET", [key]) => {
                    let binding = between.find(key).ok_or_else(Refused::not_found)?;
                    Ok(lists::one(request, shown(&binding)))
                }
                ("DELETE", [key]) => {
                    let binding = between.find(key).ok_or_else(Refused::not_found)?;
                    check(api, visitor, &vhost, &binding)?;
                    vhost.unbind(&binding, NO_CONNECTION).await?;
                    Ok(Reply::NoContent)
                }
                _ => Err(Refused::not_found()),
            }
        }
        _ => Err(Refused::not_found()),
    }
}

/// All bindings from one exchange to one destination.
struct Between<'a> {
    vhost: &'a VhostHandle,
    source: ShortString,
    destination: Destination,
}

impl Between<'_> {
    fn list(&self) -> Vec<Value> {
        of_vhost(Some(self.vhost), |binding| self.is_meant(binding))
    }

    fn is_meant(&self, binding: &BindingRecord) -> bool {
        binding.source == self.source && binding.destination == self.destination
    }

    /// By its properties key. Whoever put that into the path as it is has decoded it with the path; one that is meant
    /// as it stands goes before.
    fn find(&self, key: &str) -> Option<BindingRecord> {
        let (mut exact, mut decoded) = (None, None);
        each(self.vhost, &mut |binding| {
            if self.is_meant(binding) {
                let known = properties_key(binding);
                if known == key {
                    exact = Some(binding.clone());
                } else if percent_decode_str(&known).decode_utf8_lossy() == key {
                    decoded = Some(binding.clone());
                }
            }
        });
        exact.or(decoded)
    }

    async fn bind(self, api: &Api, visitor: &Visitor, request: &Request) -> Result<Reply, Refused> {
        let object = request.object()?;
        let binding = BindingRecord {
            vhost: self.vhost.name().clone(),
            source: self.source,
            destination: self.destination,
            key: request::name(optional_text(&object, "routing_key")?.unwrap_or_default())?,
            arguments: table_from_json(&request::nested(&object, "arguments")?)?,
        };
        check(api, visitor, self.vhost, &binding)?;
        let name = match &binding.destination {
            Destination::Queue(name) | Destination::Exchange(name) => name.to_string(),
        };
        let key = properties_key(&binding);
        self.vhost
            .bind(binding, NO_CONNECTION)
            .await
            .map_err(|refusal| match refusal {
                Refusal::NotFound { .. } => Refused::missing(refusal.to_string()),
                other => other.into(),
            })?;
        let part = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
        Ok(Reply::Created(Some(format!(
            "{}/{}",
            part(&name),
            part(&key)
        ))))
    }
}

fn check(
    api: &Api,
    visitor: &Visitor,
    vhost: &VhostHandle,
    binding: &BindingRecord,
) -> Result<(), Refused> {
    let rights = visitor.rights(&api.broker, vhost.name());
    let end = match &binding.destination {
        Destination::Queue(name) => (ObjectKind::Queue, name),
        Destination::Exchange(name) => (ObjectKind::Exchange, name),
    };
    rights.check_binding(end, &binding.source, &binding.key, |source| {
        let snapshot = vhost.snapshot();
        let source = snapshot.exchange(source).ok()?;
        Some(source.record().kind)
    })?;
    Ok(())
}

/// Bindings of a vhost, if it is there, those of the default exchange first.
pub(crate) fn of_vhost(
    vhost: Option<&VhostHandle>,
    is_meant: impl Fn(&BindingRecord) -> bool,
) -> Vec<Value> {
    let mut list = Vec::new();
    let mut put = |binding: &BindingRecord| {
        if is_meant(binding) {
            list.push(shown(binding));
        }
    };
    if let Some(vhost) = vhost {
        each(vhost, &mut put);
    }
    list
}

/// Bindings that lead to a queue.
pub(crate) fn to_queue(vhost: Option<&VhostHandle>, queue: &ShortString) -> Vec<Value> {
    let to = Destination::Queue(queue.clone());
    of_vhost(vhost, |binding| binding.destination == to)
}

/// Every binding: those that the default exchange has of itself, then those that somebody made.
fn each(vhost: &VhostHandle, found: &mut dyn FnMut(&BindingRecord)) {
    let snapshot = vhost.snapshot();
    for record in snapshot.queues() {
        found(&BindingRecord {
            vhost: record.vhost.clone(),
            source: ShortString::empty(),
            destination: Destination::Queue(record.name.clone()),
            key: record.name.clone(),
            arguments: FieldTable::new(),
        });
    }
    for exchange in snapshot.exchanges() {
        exchange.bindings().for_each(&mut *found);
    }
}

pub(crate) fn shown(binding: &BindingRecord) -> Value {
    let mut object = exported(binding);
    object["properties_key"] = properties_key(binding).into();
    object
}

/// As definitions have it.
pub(crate) fn exported(binding: &BindingRecord) -> Value {
    let (kind, name) = match &binding.destination {
        Destination::Queue(name) => ("queue", name),
        Destination::Exchange(name) => ("exchange", name),
    };
    json!({
        "source": binding.source.to_string(),
        "vhost": binding.vhost.to_string(),
        "destination": name.to_string(),
        "destination_type": kind,
        "routing_key": binding.key.to_string(),
        "arguments": table_to_json(&binding.arguments),
    })
}

/// What names a binding in a path: its key, and a hash of its arguments if it has some.
fn properties_key(binding: &BindingRecord) -> String {
    let key: String = form_urlencoded::byte_serialize(binding.key.as_bytes())
        .collect::<String>()
        .replace('*', "%2A");
    if binding.arguments.is_empty() {
        return if key.is_empty() { "~".to_owned() } else { key };
    }
    // FNV-1a: opaque to clients, and the same after a restart.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for octet in binding.arguments.canonical_bytes() {
        hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{key}~{}", URL_SAFE_NO_PAD.encode(hash.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use leveret_wire::value::FieldValue;

    use super::*;

    fn key_of(key: &str, arguments: FieldTable) -> String {
        properties_key(&BindingRecord {
            vhost: ShortString::from_static("/"),
            source: ShortString::from_static("x"),
            destination: Destination::Queue(ShortString::from_static("q")),
            key: ShortString::try_from(key).expect("short"),
            arguments,
        })
    }

    #[test]
    fn a_properties_key_is_the_form_encoded_key_and_a_hash_of_arguments() {
        assert_eq!(key_of("a b.#.*/c", FieldTable::new()), "a+b.%23.%2A%2Fc");
        assert_eq!(key_of("", FieldTable::new()), "~");
        let arguments = || FieldTable::new().with("n", FieldValue::Long(1));
        let key = key_of("k", arguments());
        assert!(key.starts_with("k~") && key.len() > 4, "{key}");
        assert_eq!(key, key_of("k", arguments()));
        assert!(key_of("", arguments()).starts_with('~'));
    }
}
