//! `/auth/attempts`: how many logins there were, and how they ended.

use leveret_runtime::LoginOver;
use serde_json::{Value, json};

use crate::{error::Refused, lists, reply::Reply, request::Request, server::Api};

pub(crate) fn answer(api: &Api, request: &Request, path: &[&str]) -> Result<Reply, Refused> {
    let (node, by_source) = match path {
        [node] => (*node, false),
        [node, "source"] => (*node, true),
        _ => return Err(Refused::not_found()),
    };
    if node != api.broker.node().name {
        return Err(Refused::not_found());
    }
    if request.method == "DELETE" {
        api.broker.reset_logins();
        return Ok(Reply::NoContent);
    }
    // By address nothing is counted, as in RabbitMQ unless it is told to.
    let list = if by_source { Vec::new() } else { counts(api) };
    Ok(lists::whole(request, list))
}

/// One item for each protocol that somebody has used.
pub(crate) fn of_protocols(api: &Api) -> [(&'static str, u64, u64); 2] {
    [(LoginOver::Amqp, "amqp091"), (LoginOver::Http, "http")].map(|(over, name)| {
        let counts = api.broker.logins(over);
        (name, counts.succeeded, counts.failed)
    })
}

fn counts(api: &Api) -> Vec<Value> {
    let protocols = of_protocols(api).into_iter();
    let used = protocols.filter(|(_, succeeded, failed)| succeeded + failed > 0);
    used.map(|(protocol, succeeded, failed)| {
        json!({
            "protocol": protocol,
            "auth_attempts": succeeded + failed,
            "auth_attempts_failed": failed,
            "auth_attempts_succeeded": succeeded,
        })
    })
    .collect()
}
