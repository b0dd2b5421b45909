//! One file per thing that the API speaks of.

pub(crate) mod bindings;
mod certificates;
pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod consumers;
pub(crate) mod control;
pub(crate) mod definitions;
pub(crate) mod deprecated;
pub(crate) mod disk;
pub(crate) mod exchanges;
pub(crate) mod health;
pub(crate) mod limits;
pub(crate) mod logins;
pub(crate) mod look;
pub(crate) mod memory;
pub(crate) mod messages;
pub(crate) mod node;
pub(crate) mod overview;
pub(crate) mod parameter_values;
pub(crate) mod parameters;
pub(crate) mod permissions;
pub(crate) mod policies;
pub(crate) mod policy_values;
pub(crate) mod queues;
pub(crate) mod replicas;
pub(crate) mod topic_permissions;
pub(crate) mod users;
pub(crate) mod vhosts;

use std::sync::Arc;

use leveret_runtime::VhostHandle;

use crate::{error::Refused, request, server::Api, visitor::Visitor};

/// The vhost of a path, if it is there for this visitor.
pub(crate) fn entered(
    api: &Api,
    visitor: &Visitor,
    vhost: &str,
) -> Result<Arc<VhostHandle>, Refused> {
    let name = request::name(vhost)?;
    let handle = api.broker.vhost(&name).map_err(|_| Refused::no_vhost())?;
    if !visitor.may_enter(&api.broker.directory(), &name) {
        return Err(Refused::missing("Not Found"));
    }
    Ok(handle)
}

/// The same for lists, which are empty for a vhost that is not there; only who may enter all of them learns that it is
/// not.
fn entered_if_there(
    api: &Api,
    visitor: &Visitor,
    vhost: &str,
) -> Result<Option<Arc<VhostHandle>>, Refused> {
    match entered(api, visitor, vhost) {
        Err(refused) if refused.names_no_vhost && visitor.is_administrator() => Ok(None),
        entered => entered.map(Some),
    }
}

/// The vhosts whose things are shown to this visitor, by name.
fn entered_all(api: &Api, visitor: &Visitor) -> Vec<Arc<VhostHandle>> {
    let directory = api.broker.directory();
    let mut vhosts = api.broker.vhosts();
    vhosts.retain(|vhost| visitor.may_enter(&directory, vhost.name()));
    vhosts
}

/// The vhosts of a path that may name one.
fn entered_of(
    api: &Api,
    visitor: &Visitor,
    path: &[&str],
) -> Result<Vec<Arc<VhostHandle>>, Refused> {
    match path {
        [] => Ok(entered_all(api, visitor)),
        [vhost, ..] => entered(api, visitor, vhost).map(|vhost| vec![vhost]),
    }
}
