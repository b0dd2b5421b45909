//! What was stored is put back in its place; an empty directory gets what every broker begins with.

use std::{collections::HashMap, sync::Arc};

use leveret_core::{
    record::{
        BindingRecord, DelayRecord, ExchangeRecord, PermissionRecord, QueueRecord, QueueState,
        UserRecord, VhostRecord, Write,
    },
    vhost::Vhost,
};
use leveret_store::Recovered;
use leveret_wire::value::ShortString;

use super::Broker;
use crate::{
    passwords::hash_password, policies::Policies, queue_handle::QueueHandle,
    vhost_handle::VhostHandle,
};

impl Broker {
    pub(super) fn restore(&self, mut recovered: Recovered) {
        let is_new = recovered.is_new();
        let mut vhosts = self.restore_directory(&recovered);
        if is_new && self.services.node.is_seeded {
            vhosts.push(self.first_start());
        }
        let mut in_vhost = InVhost::default();
        for exchange in recovered.exchanges {
            in_vhost.of(&exchange.vhost).exchanges.push(exchange);
        }
        for queue in recovered.queues {
            in_vhost.of(&queue.0.vhost).queues.push(queue);
        }
        for binding in recovered.bindings {
            in_vhost.of(&binding.vhost).bindings.push(binding);
        }
        for mut vhost in vhosts {
            let Stored {
                exchanges,
                queues,
                bindings,
            } = std::mem::take(in_vhost.of(vhost.name()));
            // Before their bindings, which are stored. They are not: whether they are there is said at every start.
            for exchange in self.services.own_exchanges(vhost.name()) {
                vhost.restore_exchange(exchange);
            }
            exchanges
                .iter()
                .for_each(|record| vhost.restore_exchange(record.clone()));
            let queues: Vec<_> = queues
                .into_iter()
                .map(|(record, state)| (vhost.restore_queue(record), state))
                .collect();
            bindings
                .into_iter()
                .for_each(|record| vhost.restore_binding(record));
            let handle = VhostHandle::new(vhost, self.services.clone());
            for (record, state) in queues {
                let attempts = recovered.attempts.remove(&record.id).unwrap_or_default();
                let queue = QueueHandle::new(
                    record,
                    Arc::downgrade(&handle),
                    self.services.clone(),
                    Some(state),
                    attempts,
                );
                self.services.registry.add_queue(queue.clone());
                queue.touch();
            }
            handle.apply_exchange_policies();
            self.services.registry.add_vhost(handle.clone());
            for record in &exchanges {
                if let Some(DelayRecord { id, .. }) = record.delay {
                    let held = recovered.held.iter().find(|(held, _)| *held == id);
                    let delay = handle.add_delay(id, record, held.map(|(_, state)| *state));
                    // Asks for what is due first.
                    delay.tick();
                }
            }
        }
    }

    /// Puts vhosts, users, permissions and parameters back. A directory of an earlier version has no
    /// permissions: its only user gets all of them.
    fn restore_directory(&self, recovered: &Recovered) -> Vec<Vhost> {
        let access = &self.services.access;
        let Ok(missing) = access.change(&access.lock(), |directory| {
            for vhost in &recovered.vhosts {
                // Nobody is traced for longer than until a stop.
                directory.put_vhost(VhostRecord {
                    tracing: false,
                    ..vhost.clone()
                });
            }
            for user in &recovered.users {
                directory.put_user(user.clone());
            }
            // What was stored was checked before.
            for permission in &recovered.permissions {
                let _ = directory.put_permission(permission.clone());
            }
            for permission in &recovered.topic_permissions {
                let _ = directory.put_topic_permission(permission.clone());
            }
            for parameter in &recovered.parameters {
                directory.put_parameter(parameter.clone());
            }
            let (root, guest) = ("/", "guest");
            let is_of_early_version = recovered.permissions.is_empty()
                && matches!(recovered.vhosts.as_slice(), [only] if only.name == *root)
                && matches!(recovered.users.as_slice(), [only] if only.name == *guest);
            let missing = is_of_early_version.then(|| full_permission(root, guest));
            let missing = missing.and_then(|missing| directory.put_permission(missing).ok());
            Ok::<_, std::convert::Infallible>(missing.unwrap_or_default())
        });
        let policies = Policies::of(&access.directory());
        self.services.policies.store(Arc::new(policies));
        self.services
            .send_metadata(missing.into_iter().map(Write::Meta).collect());
        let names = recovered.vhosts.iter().map(|vhost| vhost.name.clone());
        names.map(Vhost::new).collect()
    }

    /// What an empty directory gets: a vhost and an administrator who may do everything there.
    fn first_start(&self) -> Vhost {
        let node = &self.services.node;
        let vhost = VhostRecord {
            description: "Default virtual host".to_owned(),
            ..VhostRecord::named(ShortString::cut(&node.default_vhost))
        };
        let user = UserRecord {
            name: ShortString::cut(&node.default_user),
            password_hash: hash_password(node.password_hashing, node.default_password.as_bytes()),
            algorithm: node.password_hashing,
            tags: node.default_tags.clone(),
            ..UserRecord::default()
        };
        let name = vhost.name.clone();
        let [configure, write, read] = node.default_permission.clone();
        let permission = PermissionRecord {
            vhost: name.clone(),
            user: user.name.clone(),
            configure,
            write,
            read,
        };
        let access = &self.services.access;
        let Ok(changes) = access.change(&access.lock(), |directory| {
            let mut changes = node.vhost_defaults.put_new(directory, vhost);
            changes.extend(directory.put_user(user));
            // The patterns were read when they were set.
            changes.extend(directory.put_permission(permission).unwrap_or_default());
            Ok::<_, std::convert::Infallible>(changes)
        });
        let policies = Policies::of(&access.directory());
        self.services.policies.store(Arc::new(policies));
        self.services
            .send_metadata(changes.into_iter().map(Write::Meta).collect());
        Vhost::new(name)
    }
}

/// What was stored of each vhost.
#[derive(Debug, Default)]
struct InVhost(HashMap<ShortString, Stored>);

#[derive(Debug, Default)]
struct Stored {
    exchanges: Vec<ExchangeRecord>,
    queues: Vec<(QueueRecord, QueueState)>,
    bindings: Vec<BindingRecord>,
}

impl InVhost {
    fn of(&mut self, vhost: &ShortString) -> &mut Stored {
        self.0.entry(vhost.clone()).or_default()
    }
}

/// Everything in one vhost.
fn full_permission(vhost: &str, user: &str) -> PermissionRecord {
    let everything = || ".*".to_owned();
    PermissionRecord {
        vhost: ShortString::cut(vhost),
        user: ShortString::cut(user),
        configure: everything(),
        write: everything(),
        read: everything(),
    }
}
