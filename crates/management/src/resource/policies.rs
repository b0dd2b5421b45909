//! `/policies` and `/operator-policies`.

use axum::http::StatusCode;
use leveret_core::{pattern::Pattern, record::ParameterRecord};
use serde_json::{Map, Value, json};

use crate::{
    error::Refused,
    lists,
    reply::{self, Reply},
    request::{self, Request, integer, optional_text, text},
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
    if component == OPERATOR && api.settings.operator_policies_are_fixed {
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

/// As the API and definitions show it.
pub(crate) fn shown(parameter: &ParameterRecord) -> Value {
    let mut object = parameters::value_of(parameter);
    object["vhost"] = parameter.vhost.to_string().into();
    object["name"] = parameter.name.clone().into();
    object
}

/// The value of a policy out of a request or definitions.
pub(crate) fn read(component: &str, object: &Map<String, Value>) -> Result<Value, Refused> {
    let pattern = text(object, "pattern")?;
    Pattern::new(pattern).map_err(|reason| {
        invalid(&format!(
            "<<\"pattern\">> should be regular expression, actually was {pattern}: {reason}"
        ))
    })?;
    let definition = match object.get("definition") {
        Some(Value::Object(definition)) => definition.clone(),
        Some(_) => request::nested(object, "definition")?,
        None => return Err(Refused::key_missing("definition")),
    };
    if definition.is_empty() {
        return Err(invalid("policy definition should not be empty"));
    }
    policy_values::check(component == OPERATOR, &definition).map_err(|reason| invalid(&reason))?;
    let apply_to = optional_text(object, "apply-to")?.unwrap_or("all");
    if !TARGETS.contains(&apply_to) {
        return Err(invalid(&format!(
            "apply-to '{apply_to}' unrecognised; should be one of: 'queues', 'classic_queues', \
             'quorum_queues', 'streams', 'exchanges', or 'all'"
        )));
    }
    Ok(json!({
        "pattern": pattern,
        "definition": definition,
        "apply-to": apply_to,
        "priority": integer(object, "priority")?.unwrap_or(0),
    }))
}

fn invalid(reason: &str) -> Refused {
    Refused::bad_request(format!("Validation failed\n\n{reason}\n"))
}
