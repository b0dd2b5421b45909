//! `/policies` and `/operator-policies`.

use axum::http::{Method, StatusCode};
use leveret_core::{pattern::Pattern, record::ParameterRecord};
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::{self, Reply},
    request::{self, Request, optional_text},
    resource::{entered, parameters, policy_values},
    server::Api,
    visitor::Visitor,
};

/// The component of policies.
pub(crate) const USER: &str = "policy";
/// The component of operator policies.
pub(crate) const OPERATOR: &str = "operator_policy";

/// What a policy may apply to.
const TARGETS: [&str; 6] = [
    "all",
    "queues",
    "exchanges",
    "classic_queues",
    "quorum_queues",
    "streams",
];

pub(crate) async fn answer(
    api: &Api,
    visitor: &Visitor,
    request: &Request,
    component: &str,
    path: &[&str],
) -> Result<Reply, Refused> {
    let is_change = request.method != Method::GET && !visitor.is_of_machine;
    if is_change && component == OPERATOR && api.settings.operator_policies_are_fixed {
        return Err(Refused::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "Broker settings disallow editing of operator policies.",
        ));
    }
    let directory = api.broker.directory();
    match (request.method.as_str(), path) {
        ("GET", [] | [_]) => {
            let vhosts = super::entered_of(api, visitor, path)?;
            let is_shown = |known: &&std::sync::Arc<ParameterRecord>| {
                known.component == component
                    && vhosts.iter().any(|vhost| *vhost.name() == known.vhost)
            };
            let list = directory.parameters().filter(is_shown);
            Ok(lists::whole(
                request,
                list.map(|known| shown(known)).collect(),
            ))
        }
        ("GET", [vhost, name]) => {
            let vhost = entered(api, visitor, vhost)?;
            let known = directory.parameter(component, vhost.name(), name);
            let known = known.ok_or_else(Refused::not_found)?;
            Ok(lists::one(request, shown(known)))
        }
        ("PUT", [vhost, name]) => {
            let vhost = entered(api, visitor, vhost)?.name().clone();
            let value = read(component, &request.object()?)?;
            let is_new = directory.parameter(component, &vhost, name).is_none();
            parameters::put(api, component, vhost, name, &value).await;
            Ok(Reply::put(is_new))
        }
        ("DELETE", [vhost, name]) => {
            let vhost = entered(api, visitor, vhost)?.name().clone();
            reply::deleted(api.broker.delete_parameter(component, &vhost, name).await)
        }
        _ => Err(Refused::not_found()),
    }
}

/// As the API and definitions show it. What was stored and is no policy is shown by its name, so that somebody can
/// delete it.
pub(crate) fn shown(parameter: &ParameterRecord) -> Value {
    let mut fields = match parameters::value_of(parameter) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.insert("vhost".to_owned(), parameter.vhost.to_string().into());
    fields.insert("name".to_owned(), parameter.name.clone().into());
    fields.into()
}

/// The value of a policy out of a request or definitions.
pub(crate) fn read(component: &str, object: &Map<String, Value>) -> Result<Value, Refused> {
    request::required(object, &["pattern", "definition"])?;
    let given = |key: &str| object.get(key).filter(|value| !value.is_null());
    let pattern = given("pattern").ok_or_else(|| Refused::key_missing("pattern"))?;
    let definition = match object.get("definition") {
        Some(Value::Object(definition)) => definition.clone(),
        Some(_) => request::nested(object, "definition")?,
        None => return Err(Refused::key_missing("definition")),
    };
    // Everything that is wrong is told, in the order of the keys.
    let mut wrong = Vec::new();
    if definition.is_empty() {
        wrong.push("no policy provided".to_owned());
    } else if let Err(reason) = policy_values::check(component == OPERATOR, &definition) {
        wrong.push(reason);
    }
    let apply_to = optional_text(object, "apply-to")?.unwrap_or("all");
    if !TARGETS.contains(&apply_to) {
        // With its two spaces, as RabbitMQ has it.
        wrong.push(format!(
            "apply-to '{apply_to}' unrecognised; should be one of: 'queues', 'classic_queues',  \
             'quorum_queues', 'streams', 'exchanges', or 'all'"
        ));
    }
    match pattern.as_str().map(Pattern::new) {
        Some(Ok(_)) => {}
        Some(Err(reason)) => wrong.push(format!(
            "pattern should be regular expression but is invalid: {reason}"
        )),
        None => wrong.push(format!(
            "pattern should be a binary but was {}",
            policy_values::erlang(pattern)
        )),
    }
    let priority = given("priority").map_or(Some(0), priority);
    if priority.is_none() {
        wrong.push(format!(
            "priority should be a number, actually was {}",
            policy_values::erlang(&object["priority"])
        ));
    }
    if !wrong.is_empty() {
        return Err(invalid(&wrong.join("\n")));
    }
    Ok(json!({
        "pattern": pattern,
        "definition": definition,
        "apply-to": apply_to,
        "priority": priority,
    }))
}

/// Any number will do; without what is behind the point.
fn priority(value: &Value) -> Option<i64> {
    let whole = value.as_i64();
    whole.or_else(|| value.as_f64().map(|number| number as i64))
}

fn invalid(reason: &str) -> Refused {
    Refused::bad_request(format!("Validation failed\n\n{reason}\n"))
}

#[cfg(test)]
mod tests {
    use leveret_wire::value::ShortString;

    use super::*;

    #[test]
    fn what_is_stored_as_a_policy_and_is_none_is_shown_by_its_name() {
        for value in ["\"x\"", "5", "[1]", "null", "no json"] {
            let stored = ParameterRecord {
                component: USER.to_owned(),
                vhost: ShortString::from_static("/"),
                name: "bad".to_owned(),
                value: value.to_owned(),
            };
            assert_eq!(
                shown(&stored),
                json!({"vhost": "/", "name": "bad"}),
                "{value}"
            );
        }
    }
}
