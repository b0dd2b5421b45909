//! Vhosts, users, permissions and parameters as one value.
//!
//! [`Directory`] is a snapshot like [`crate::vhost::Vhost`]: a clone costs nothing, changes are made to a clone
//! that then replaces it, and each says what of it outlives a restart.

use std::sync::Arc;

use leveret_wire::value::ShortString;
use rpds::RedBlackTreeMapSync;

use crate::{
    pattern::PatternError,
    record::{
        MetaChange, ParameterRecord, PermissionRecord, TopicPermissionRecord, UserRecord,
        VhostRecord,
    },
    rights::Rights,
};

/// Vhost and user.
type Member = (ShortString, ShortString);

/// Component, vhost and name.
type ParameterKey = (String, ShortString, String);

/// Why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// There is no such user.
    #[error("no such user: {0}")]
    NoUser(ShortString),
    /// There is no such vhost.
    #[error("no such vhost: {0}")]
    NoVhost(ShortString),
    /// A pattern is none.
    #[error("{pattern}: {reason}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// Why.
        reason: PatternError,
    },
}

/// Who there is, and what they may do.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    users: RedBlackTreeMapSync<ShortString, Arc<UserRecord>>,
    vhosts: RedBlackTreeMapSync<ShortString, Arc<VhostRecord>>,
    permissions: RedBlackTreeMapSync<Member, Arc<PermissionRecord>>,
    topic_permissions: RedBlackTreeMapSync<(Member, ShortString), Arc<TopicPermissionRecord>>,
    /// Made from the two above.
    rights: RedBlackTreeMapSync<Member, Arc<Rights>>,
    parameters: RedBlackTreeMapSync<ParameterKey, Arc<ParameterRecord>>,
}

impl Directory {
    /// Every user, by name.
    pub fn users(&self) -> impl Iterator<Item = &Arc<UserRecord>> {
        self.users.values()
    }

    /// The user of this name.
    #[must_use]
    pub fn user(&self, name: &ShortString) -> Option<&Arc<UserRecord>> {
        self.users.get(name)
    }

    /// Every vhost, by name.
    pub fn vhosts(&self) -> impl Iterator<Item = &Arc<VhostRecord>> {
        self.vhosts.values()
    }

    /// The vhost of this name.
    #[must_use]
    pub fn vhost(&self, name: &ShortString) -> Option<&Arc<VhostRecord>> {
        self.vhosts.get(name)
    }

    /// Every permission, by vhost and user.
    pub fn permissions(&self) -> impl Iterator<Item = &Arc<PermissionRecord>> {
        self.permissions.values()
    }

    /// One user's permission in one vhost.
    #[must_use]
    pub fn permission(
        &self,
        vhost: &ShortString,
        user: &ShortString,
    ) -> Option<&Arc<PermissionRecord>> {
        self.permissions.get(&(vhost.clone(), user.clone()))
    }

    /// Every topic permission, by vhost, user and exchange.
    pub fn topic_permissions(&self) -> impl Iterator<Item = &Arc<TopicPermissionRecord>> {
        self.topic_permissions.values()
    }

    /// One user's rights in one vhost.
    #[must_use]
    pub fn rights(&self, vhost: &ShortString, user: &ShortString) -> Arc<Rights> {
        let member = (vhost.clone(), user.clone());
        self.rights.get(&member).cloned().unwrap_or_else(|| {
            let (vhost, user) = member;
            Arc::new(Rights::none(vhost, user))
        })
    }

    /// Every parameter, by component, vhost and name.
    pub fn parameters(&self) -> impl Iterator<Item = &Arc<ParameterRecord>> {
        self.parameters.values()
    }

    /// One parameter.
    #[must_use]
    pub fn parameter(
        &self,
        component: &str,
        vhost: &ShortString,
        name: &str,
    ) -> Option<&Arc<ParameterRecord>> {
        let key = (component.to_owned(), vhost.clone(), name.to_owned());
        self.parameters.get(&key)
    }

    /// Adds a user, or replaces what is known of them.
    pub fn put_user(&mut self, user: UserRecord) -> Vec<MetaChange> {
        self.users
            .insert_mut(user.name.clone(), Arc::new(user.clone()));
        vec![MetaChange::PutUser(user)]
    }

    /// Removes a user with all permissions; nothing without such a user.
    pub fn delete_user(&mut self, name: &ShortString) -> Vec<MetaChange> {
        if !self.users.remove_mut(name) {
            return Vec::new();
        }
        let mut changes = vec![MetaChange::DeleteUser(name.clone())];
        self.remove_members(|(_, user)| user == name, &mut changes);
        changes
    }

    /// Adds a vhost, or replaces what is known of it.
    pub fn put_vhost(&mut self, vhost: VhostRecord) -> Vec<MetaChange> {
        self.vhosts
            .insert_mut(vhost.name.clone(), Arc::new(vhost.clone()));
        vec![MetaChange::PutVhost(vhost)]
    }

    /// Removes a vhost with all permissions and parameters; nothing without such a vhost.
    pub fn delete_vhost(&mut self, name: &ShortString) -> Vec<MetaChange> {
        if !self.vhosts.remove_mut(name) {
            return Vec::new();
        }
        let mut changes = vec![MetaChange::DeleteVhost(name.clone())];
        self.remove_members(|(vhost, _)| vhost == name, &mut changes);
        let of_vhost = self.parameters.values().filter(|known| {
            // Global ones have none.
            known.vhost == *name && !known.component.is_empty()
        });
        let parameters: Vec<Arc<ParameterRecord>> = of_vhost.cloned().collect();
        for parameter in parameters {
            changes.extend(self.delete_parameter(
                &parameter.component,
                &parameter.vhost,
                &parameter.name,
            ));
        }
        changes
    }

    /// Sets a user's permission in a vhost.
    ///
    /// # Errors
    ///
    /// Without such a user or vhost, or when a pattern is none.
    pub fn put_permission(
        &mut self,
        permission: PermissionRecord,
    ) -> Result<Vec<MetaChange>, DirectoryError> {
        self.check_member(&permission.vhost, &permission.user)?;
        for pattern in [&permission.configure, &permission.write, &permission.read] {
            check_pattern(pattern)?;
        }
        let member = (permission.vhost.clone(), permission.user.clone());
        self.permissions
            .insert_mut(member.clone(), Arc::new(permission.clone()));
        self.make_rights(&member);
        Ok(vec![MetaChange::PutPermission(permission)])
    }

    /// Takes a user's permission in a vhost back; nothing if there is none.
    pub fn delete_permission(
        &mut self,
        vhost: &ShortString,
        user: &ShortString,
    ) -> Vec<MetaChange> {
        let member = (vhost.clone(), user.clone());
        if !self.permissions.remove_mut(&member) {
            return Vec::new();
        }
        self.make_rights(&member);
        let (vhost, user) = member;
        vec![MetaChange::DeletePermission { vhost, user }]
    }

    /// Sets which keys a user may use with an exchange.
    ///
    /// # Errors
    ///
    /// Without such a user or vhost, or when a pattern is none.
    pub fn put_topic_permission(
        &mut self,
        permission: TopicPermissionRecord,
    ) -> Result<Vec<MetaChange>, DirectoryError> {
        self.check_member(&permission.vhost, &permission.user)?;
        for pattern in [&permission.write, &permission.read] {
            check_pattern(pattern)?;
        }
        let member = (permission.vhost.clone(), permission.user.clone());
        let key = (member.clone(), permission.exchange.clone());
        self.topic_permissions
            .insert_mut(key, Arc::new(permission.clone()));
        self.make_rights(&member);
        Ok(vec![MetaChange::PutTopicPermission(permission)])
    }

    /// Takes what was said about one exchange back, or about all.
    pub fn delete_topic_permissions(
        &mut self,
        vhost: &ShortString,
        user: &ShortString,
        exchange: Option<&ShortString>,
    ) -> Vec<MetaChange> {
        let member = (vhost.clone(), user.clone());
        let mut changes = Vec::new();
        self.remove_topics(
            |(known, on)| *known == member && exchange.is_none_or(|exchange| exchange == on),
            &mut changes,
        );
        self.make_rights(&member);
        changes
    }

    /// Sets a parameter.
    pub fn put_parameter(&mut self, parameter: ParameterRecord) -> Vec<MetaChange> {
        self.parameters
            .insert_mut(key_of(&parameter), Arc::new(parameter.clone()));
        vec![MetaChange::PutParameter(parameter)]
    }

    /// Removes a parameter; nothing if there is none.
    pub fn delete_parameter(
        &mut self,
        component: &str,
        vhost: &ShortString,
        name: &str,
    ) -> Vec<MetaChange> {
        let Some(parameter) = self.parameter(component, vhost, name).cloned() else {
            return Vec::new();
        };
        self.parameters.remove_mut(&key_of(&parameter));
        vec![MetaChange::DeleteParameter((*parameter).clone())]
    }

    fn check_member(&self, vhost: &ShortString, user: &ShortString) -> Result<(), DirectoryError> {
        if !self.users.contains_key(user) {
            return Err(DirectoryError::NoUser(user.clone()));
        }
        if !self.vhosts.contains_key(vhost) {
            return Err(DirectoryError::NoVhost(vhost.clone()));
        }
        Ok(())
    }

    fn remove_members(&mut self, is_gone: impl Fn(&Member) -> bool, changes: &mut Vec<MetaChange>) {
        let members = self.permissions.keys().filter(|member| is_gone(member));
        for (vhost, user) in members.cloned().collect::<Vec<_>>() {
            changes.extend(self.delete_permission(&vhost, &user));
        }
        self.remove_topics(|(member, _)| is_gone(member), changes);
        let rights = self.rights.keys().filter(|member| is_gone(member));
        for member in rights.cloned().collect::<Vec<_>>() {
            self.rights.remove_mut(&member);
        }
    }

    fn remove_topics(
        &mut self,
        is_gone: impl Fn(&(Member, ShortString)) -> bool,
        changes: &mut Vec<MetaChange>,
    ) {
        let keys = self.topic_permissions.keys().filter(|key| is_gone(key));
        for key in keys.cloned().collect::<Vec<_>>() {
            self.topic_permissions.remove_mut(&key);
            let ((vhost, user), exchange) = key;
            changes.push(MetaChange::DeleteTopicPermission {
                vhost,
                user,
                exchange,
            });
        }
    }

    /// Compiles what is said about a member. The patterns were checked when they came; one that is none
    /// any more, since an engine changed, gives no right.
    fn make_rights(&mut self, member: &Member) {
        let (vhost, user) = member.clone();
        let permission = self.permissions.get(member).map(|found| &**found);
        let none = Rights::none(vhost, user);
        let mut rights = none
            .clone()
            .with_permission(permission)
            .unwrap_or_else(|_| none.clone());
        let topics = self.topic_permissions.values();
        for topic in topics.filter(|topic| topic.vhost == member.0 && topic.user == member.1) {
            rights = rights
                .with_topic_permission(topic)
                .unwrap_or_else(|_| none.clone());
        }
        self.rights.insert_mut(member.clone(), Arc::new(rights));
    }
}

fn key_of(parameter: &ParameterRecord) -> ParameterKey {
    (
        parameter.component.clone(),
        parameter.vhost.clone(),
        parameter.name.clone(),
    )
}

fn check_pattern(pattern: &str) -> Result<(), DirectoryError> {
    crate::pattern::Pattern::new(pattern)
        .map(|_| ())
        .map_err(|reason| DirectoryError::Pattern {
            pattern: pattern.to_owned(),
            reason,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refusal::ObjectKind, rights::Right};

    fn name(text: &str) -> ShortString {
        ShortString::try_from(text).expect("short")
    }

    fn permission(vhost: &str, user: &str, all: &str) -> PermissionRecord {
        PermissionRecord {
            vhost: name(vhost),
            user: name(user),
            configure: all.to_owned(),
            write: all.to_owned(),
            read: all.to_owned(),
        }
    }

    fn directory() -> Directory {
        let mut directory = Directory::default();
        directory.put_vhost(VhostRecord::named(name("v")));
        directory.put_user(UserRecord {
            name: name("u"),
            ..UserRecord::default()
        });
        directory
    }

    #[test]
    fn a_snapshot_keeps_its_rights_when_they_change_later() {
        let mut directory = directory();
        directory
            .put_permission(permission("v", "u", ".*"))
            .expect("fine");
        let before = directory.rights(&name("v"), &name("u"));
        directory
            .put_permission(permission("v", "u", "^a"))
            .expect("fine");
        let after = directory.rights(&name("v"), &name("u"));
        let check = |rights: &Rights| rights.check(Right::Read, ObjectKind::Queue, &name("b"));
        assert_eq!(check(&before), Ok(()));
        assert!(check(&after).is_err());
    }

    #[test]
    fn a_permission_needs_its_user_and_vhost() {
        let mut directory = directory();
        assert_eq!(
            directory.put_permission(permission("v", "x", "")),
            Err(DirectoryError::NoUser(name("x")))
        );
        assert_eq!(
            directory.put_permission(permission("x", "u", "")),
            Err(DirectoryError::NoVhost(name("x")))
        );
        assert!(directory.put_permission(permission("v", "u", "(")).is_err());
    }

    #[test]
    fn permissions_and_parameters_go_with_their_vhost() {
        let mut directory = directory();
        directory
            .put_permission(permission("v", "u", ".*"))
            .expect("fine");
        directory
            .put_topic_permission(TopicPermissionRecord {
                vhost: name("v"),
                user: name("u"),
                exchange: name("amq.topic"),
                ..TopicPermissionRecord::default()
            })
            .expect("fine");
        directory.put_parameter(ParameterRecord {
            component: "policy".to_owned(),
            vhost: name("v"),
            name: "p".to_owned(),
            value: "{}".to_owned(),
        });
        let changes = directory.delete_vhost(&name("v"));
        assert_eq!(changes.len(), 4, "{changes:?}");
        assert!(!directory.rights(&name("v"), &name("u")).is_member());
        assert_eq!(directory.permissions().count(), 0);
        assert_eq!(directory.topic_permissions().count(), 0);
        assert_eq!(directory.parameters().count(), 0);
        assert_eq!(directory.delete_vhost(&name("v")), Vec::new());
    }
}
