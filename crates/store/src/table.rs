//! One file per table: what its rows hold, and the way there and back.

pub(crate) mod attempts;
pub(crate) mod bindings;
pub(crate) mod commits;
pub(crate) mod dropped;
pub(crate) mod exchanges;
pub(crate) mod marks;
pub(crate) mod messages;
pub(crate) mod parameters;
pub(crate) mod permissions;
pub(crate) mod queue_states;
pub(crate) mod queues;
pub(crate) mod users;
pub(crate) mod vhosts;
