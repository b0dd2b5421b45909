//! What an operator wants every new vhost to have: limits, operator policies and users, by patterns of its name.

use leveret_core::{
    directory::Directory,
    pattern::Pattern,
    record::{
        HashAlgorithm, MetaChange, ParameterRecord, PermissionRecord, UserRecord, VhostRecord,
    },
};
use leveret_wire::value::ShortString;

use crate::{passwords::hash_password, policies::OPERATOR};

/// What new vhosts get. Those that exist are left as they are.
#[derive(Debug, Clone, Default)]
pub struct VhostDefaults {
    /// Limits; the first whose pattern matches counts.
    pub limits: Vec<DefaultLimits>,
    /// Operator policies.
    pub operator_policies: Vec<DefaultPolicy>,
    /// Users, who are made if there are none of their names.
    pub users: Vec<DefaultUser>,
    /// How their passwords are hashed.
    pub password_hashing: HashAlgorithm,
}

/// Limits of vhosts whose name matches.
#[derive(Debug, Clone)]
pub struct DefaultLimits {
    /// Which vhosts.
    pub vhosts: Pattern,
    /// Connections there may be in each.
    pub max_connections: Option<i64>,
    /// Queues there may be in each.
    pub max_queues: Option<i64>,
}

/// An operator policy in vhosts whose name matches.
#[derive(Debug, Clone)]
pub struct DefaultPolicy {
    /// Its name.
    pub name: String,
    /// Which vhosts.
    pub vhosts: Pattern,
    /// Pattern, definition and so on, as JSON.
    pub value: String,
}

/// A user who may do something in vhosts whose name matches.
#[derive(Debug, Clone)]
pub struct DefaultUser {
    /// Their name.
    pub name: ShortString,
    /// Which vhosts.
    pub vhosts: Pattern,
    /// Their password when they are made; without one they cannot log in by one.
    pub password: Option<String>,
    /// Their tags when they are made.
    pub tags: Vec<String>,
    /// What they may declare and delete.
    pub configure: String,
    /// What they may publish to.
    pub write: String,
    /// What they may consume from.
    pub read: String,
}

impl VhostDefaults {
    /// Adds a vhost that is new, with all it is to have.
    pub(crate) fn put_new(
        &self,
        directory: &mut Directory,
        mut vhost: VhostRecord,
    ) -> Vec<MetaChange> {
        let name = vhost.name.clone();
        let is_meant = |pattern: &Pattern| pattern.is_match(name.as_bytes());
        let mut limits = self.limits.iter();
        if let Some(limits) = limits.find(|limits| is_meant(&limits.vhosts)) {
            vhost.max_connections = vhost.max_connections.or(limits.max_connections);
            vhost.max_queues = vhost.max_queues.or(limits.max_queues);
        }
        let mut changes = directory.put_vhost(vhost);
        let policies = self.operator_policies.iter();
        for policy in policies.filter(|policy| is_meant(&policy.vhosts)) {
            changes.extend(directory.put_parameter(ParameterRecord {
                component: OPERATOR.to_owned(),
                vhost: name.clone(),
                name: policy.name.clone(),
                value: policy.value.clone(),
            }));
        }
        for user in self.users.iter().filter(|user| is_meant(&user.vhosts)) {
            if directory.user(&user.name).is_none() {
                changes.extend(directory.put_user(user.record(self.password_hashing)));
            }
            let permission = PermissionRecord {
                vhost: name.clone(),
                user: user.name.clone(),
                configure: user.configure.clone(),
                write: user.write.clone(),
                read: user.read.clone(),
            };
            // User and vhost are there, and the patterns were read when they were set.
            changes.extend(directory.put_permission(permission).unwrap_or_default());
        }
        changes
    }
}

impl DefaultUser {
    fn record(&self, algorithm: HashAlgorithm) -> UserRecord {
        let hash = |password: &String| hash_password(algorithm, password.as_bytes());
        UserRecord {
            name: self.name.clone(),
            password_hash: self.password.as_ref().map(hash).unwrap_or_default(),
            algorithm,
            tags: self.tags.clone(),
            ..UserRecord::default()
        }
    }
}
