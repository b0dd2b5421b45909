//! Users, vhosts, permissions and parameters come, change and go. Each change is on disk when it is answered,
//! and open connections follow it at once.

use std::sync::Arc;

use leveret_core::{
    directory::{Directory, DirectoryError},
    record::{
        MetaChange, ParameterRecord, PermissionRecord, TopicPermissionRecord, UserRecord,
        VhostRecord, Write, limit,
    },
    rights::Rights,
    vhost::Vhost,
};
use leveret_wire::value::ShortString;

use crate::{
    broker::Broker,
    connections::{
        ChannelRefused, Churn, ConnectionControl, ConnectionFacts, Limits, OpenConnection,
        OpenRefused,
    },
    policies::{self, Policies},
    users::User,
    vhost_handle::VhostHandle,
};

/// A vhost that is not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VhostKept {
    /// There is none of this name.
    #[error("no such vhost")]
    NotFound,
    /// Somebody asked for it to be kept.
    #[error("protected from deletion")]
    Protected,
}

impl Broker {
    /// The vhosts, users, permissions and parameters of this moment.
    #[must_use]
    pub fn directory(&self) -> Arc<Directory> {
        self.services().access.directory()
    }

    /// Grows whenever [`Self::directory`] has changed.
    pub fn directory_version(&self) -> u64 {
        self.services().access.version()
    }

    /// The name that the cluster was given while it ran or by definitions, if it was.
    pub fn given_cluster_name(&self) -> Option<String> {
        let directory = self.directory();
        let given = directory.parameter("", &ShortString::empty(), "cluster_name")?;
        serde_json::from_str(&given.value).ok()
    }

    /// What a user may do in a vhost.
    #[must_use]
    pub fn rights(&self, vhost: &ShortString, user: &ShortString) -> Arc<Rights> {
        self.directory().rights(vhost, user)
    }

    /// Adds a user or replaces one; open connections live on.
    pub async fn put_user(&self, user: UserRecord) {
        self.change(|directory| directory.put_user(user)).await;
    }

    /// Removes a user with all permissions and connections; `false` if there is none.
    pub async fn delete_user(&self, name: &ShortString) -> bool {
        let found = self.change(|directory| directory.delete_user(name)).await;
        if found {
            let text = format!("user '{name}' is deleted");
            self.services()
                .connections
                .close(|facts| facts.user == *name, &text);
        }
        found
    }

    /// Sets a user's permission in a vhost.
    ///
    /// # Errors
    ///
    /// See [`Directory::put_permission`].
    pub async fn put_permission(&self, permission: PermissionRecord) -> Result<(), DirectoryError> {
        self.try_change(|directory| directory.put_permission(permission))
            .await
            .map(|_| ())
    }

    /// Takes a user's permission back; `false` if there is none.
    pub async fn delete_permission(&self, vhost: &ShortString, user: &ShortString) -> bool {
        self.change(|directory| directory.delete_permission(vhost, user))
            .await
    }

    /// Sets which keys a user may use with a topic exchange.
    ///
    /// # Errors
    ///
    /// See [`Directory::put_topic_permission`].
    pub async fn put_topic_permission(
        &self,
        permission: TopicPermissionRecord,
    ) -> Result<(), DirectoryError> {
        self.try_change(|directory| directory.put_topic_permission(permission))
            .await
            .map(|_| ())
    }

    /// Takes what was said about one exchange back, or about all.
    pub async fn delete_topic_permissions(
        &self,
        vhost: &ShortString,
        user: &ShortString,
        exchange: Option<&ShortString>,
    ) -> bool {
        self.change(|directory| directory.delete_topic_permissions(vhost, user, exchange))
            .await
    }

    /// Sets a parameter. A policy takes effect on everything it applies to.
    pub async fn put_parameter(&self, parameter: ParameterRecord) {
        let (component, vhost) = (parameter.component.clone(), parameter.vhost.clone());
        self.services()
            .tell_queue_policies(&component, &vhost, &parameter.name, Some(&parameter));
        self.change(|directory| directory.put_parameter(parameter))
            .await;
        self.apply_policies(&component, &vhost);
    }

    /// Removes a parameter; `false` if there is none. What a policy asked for is so no longer.
    pub async fn delete_parameter(&self, component: &str, vhost: &ShortString, name: &str) -> bool {
        self.services()
            .tell_queue_policies(component, vhost, name, None);
        let found = self
            .change(|directory| directory.delete_parameter(component, vhost, name))
            .await;
        if found {
            self.apply_policies(component, vhost);
        }
        found
    }

    fn apply_policies(&self, component: &str, vhost: &ShortString) {
        if !policies::is_policy(component) {
            return;
        }
        let services = self.services();
        // One at a time, so that the newest policies are those that are applied last.
        let _applier = services.access.lock();
        let policies = Policies::of(&services.access.directory());
        services.policies.store(Arc::new(policies));
        let Some(handle) = services.registry.vhost(vhost) else {
            return;
        };
        handle.apply_exchange_policies();
        handle.apply_queue_policies();
    }

    /// Adds a vhost, or changes what is known of it.
    pub async fn put_vhost(&self, vhost: VhostRecord) {
        {
            let services = self.services();
            let applier = services.access.lock();
            let handle = services.registry.vhost(&vhost.name).unwrap_or_else(|| {
                let handle = VhostHandle::new(Vhost::new(vhost.name.clone()), services.clone());
                for exchange in services.own_exchanges(&vhost.name) {
                    handle.put_own_exchange(exchange);
                }
                services.registry.add_vhost(handle.clone());
                for exchange in handle.snapshot().exchanges() {
                    services.tell_exchange(exchange.record());
                }
                handle
            });
            handle.set_traced(vhost.tracing);
            let before = services.access.directory();
            let defaults = &services.node.vhost_defaults;
            let Ok(changes) = services.access.change(&applier, |directory| {
                let is_new = directory.vhost(&vhost.name).is_none();
                Ok::<_, std::convert::Infallible>(if is_new {
                    defaults.put_new(directory, vhost)
                } else {
                    directory.put_vhost(vhost)
                })
            });
            if !defaults.operator_policies.is_empty() {
                // Nothing they could apply to is in a new vhost.
                let policies = Policies::of(&services.access.directory());
                services.policies.store(Arc::new(policies));
            }
            services.tell_changes(&changes, &before);
            services.send_metadata(changes.into_iter().map(Write::Meta).collect());
        }
        self.services().metadata_stored().await;
    }

    /// Begins or ends to trace a vhost: copies of everything that is published and delivered there go to its exchange
    /// `amq.rabbitmq.trace`, until the broker stops. `false` if there is no such vhost.
    pub async fn set_tracing(&self, name: &ShortString, is_traced: bool) -> bool {
        let known = self.directory().vhost(name).cloned();
        let Some(known) = known else {
            return false;
        };
        let vhost = VhostRecord {
            tracing: is_traced,
            ..VhostRecord::clone(&known)
        };
        self.put_vhost(vhost).await;
        true
    }

    /// Deletes a vhost with everything in it, and closes its connections.
    ///
    /// # Errors
    ///
    /// Without such a vhost, or when it is protected.
    pub async fn delete_vhost(&self, name: &ShortString) -> Result<(), VhostKept> {
        {
            let services = self.services();
            let applier = services.access.lock();
            let directory = services.access.directory();
            let vhost = directory.vhost(name).ok_or(VhostKept::NotFound)?;
            if vhost.protected {
                return Err(VhostKept::Protected);
            }
            let mut writes = services
                .registry
                .remove_vhost(name)
                .map(|handle| handle.end())
                .unwrap_or_default();
            let Ok(changes) = services.access.change(&applier, |directory| {
                Ok::<_, std::convert::Infallible>(directory.delete_vhost(name))
            });
            if let [vhost, with_it @ ..] = changes.as_slice() {
                services.tell_changes(with_it, &directory);
                services.tell_changes(std::slice::from_ref(vhost), &directory);
            }
            writes.extend(changes.into_iter().map(Write::Meta));
            // Its policies went with it, and must not meet a later vhost of the name.
            let policies = Policies::of(&services.access.directory());
            services.policies.store(Arc::new(policies));
            // One unit: a crash leaves all of the vhost or nothing.
            services.send_metadata(writes);
        }
        let text = format!("vhost '{name}' is deleted");
        self.services()
            .connections
            .close(|facts| facts.vhost == *name, &text);
        self.services().metadata_stored().await;
        Ok(())
    }

    /// Every vhost, by name.
    #[must_use]
    pub fn vhosts(&self) -> Vec<Arc<VhostHandle>> {
        let directory = self.directory();
        let handles = directory
            .vhosts()
            .filter_map(|vhost| self.services().registry.vhost(&vhost.name));
        handles.collect()
    }

    /// `connection.open`: the connection counts from now on until [`Self::disconnect`].
    ///
    /// # Errors
    ///
    /// In RabbitMQ's order: limit of the node, vhost, its limit, that of the user, permission.
    pub fn open_connection(
        &self,
        facts: Arc<ConnectionFacts>,
        control: Arc<dyn ConnectionControl>,
        user: &User,
    ) -> Result<Arc<VhostHandle>, OpenRefused> {
        let services = self.services();
        let directory = self.directory();
        let vhost = directory.vhost(&facts.vhost);
        let known = directory.user(&facts.user);
        let limits = Limits {
            node: services.node.connection_max,
            vhost: vhost.and_then(|vhost| limit(vhost.max_connections)),
            user: known.and_then(|user| limit(user.max_connections)),
        };
        services.connections.add(facts.clone(), control, limits)?;
        let opened = || {
            // Looked up behind the count: a vhost or user deleted meanwhile either is not found here, or finds
            // this connection.
            let handle = services
                .registry
                .vhost(&facts.vhost)
                .ok_or(OpenRefused::NoVhost)?;
            let rights = self.rights_of(&facts.vhost, user);
            rights
                .is_member()
                .then_some(handle)
                .ok_or(OpenRefused::NoPermission)
        };
        opened().inspect_err(|_| {
            services.connections.remove(facts.id);
        })
    }

    /// The connection does not count any more; its socket may still be open.
    pub fn close_connection(&self, facts: &ConnectionFacts) {
        if self.services().connections.remove(facts.id) {
            self.services().tell_closed(facts);
        }
    }

    /// `channel.open`.
    ///
    /// # Errors
    ///
    /// When the user or the node has as many as they may.
    pub fn open_channel(
        &self,
        facts: &ConnectionFacts,
        channel: u16,
    ) -> Result<(), ChannelRefused> {
        let directory = self.directory();
        let of_user = directory
            .user(&facts.user)
            .and_then(|user| limit(user.max_channels));
        let of_node = self.services().node.channel_max;
        self.services()
            .connections
            .add_channel(facts.id, of_user, of_node)?;
        self.services().tell_channel(facts, channel);
        Ok(())
    }

    /// A channel of this connection ended.
    pub fn close_channel(&self, facts: &ConnectionFacts, channel: u16) {
        self.services().connections.remove_channel(facts.id);
        self.services().tell_channel_gone(facts, channel);
    }

    /// A channel ended because its connection does, and counts as long as that.
    pub fn end_channel(&self, facts: &ConnectionFacts, channel: u16) {
        self.services().tell_channel_gone(facts, channel);
    }

    /// Every open connection.
    #[must_use]
    pub fn connections(&self) -> Vec<OpenConnection> {
        self.services().connections.all()
    }

    /// How many connections and channels are open.
    #[must_use]
    pub fn connection_counts(&self) -> (u64, u64) {
        self.services().connections.counts()
    }

    /// How many connections and channels came and went.
    #[must_use]
    pub fn churn(&self) -> Churn {
        self.services().connections.churn()
    }

    async fn change(&self, change: impl FnOnce(&mut Directory) -> Vec<MetaChange>) -> bool {
        self.try_change(|directory| Ok::<_, std::convert::Infallible>(change(directory)))
            .await
            .unwrap_or_default()
    }

    /// `true` when something changed.
    async fn try_change<E>(
        &self,
        change: impl FnOnce(&mut Directory) -> Result<Vec<MetaChange>, E>,
    ) -> Result<bool, E> {
        let has_changed = {
            let services = self.services();
            let applier = services.access.lock();
            let before = services.access.directory();
            let changes = services.access.change(&applier, change)?;
            services.tell_changes(&changes, &before);
            let has_changed = !changes.is_empty();
            services.send_metadata(changes.into_iter().map(Write::Meta).collect());
            has_changed
        };
        self.services().metadata_stored().await;
        Ok(has_changed)
    }
}
