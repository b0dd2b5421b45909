//! Vhosts, users and permissions change, and a restart finds them as they were.

use std::{net::Ipv4Addr, path::Path, sync::Arc};

use leveret_core::{
    ids::ConnectionId,
    record::{HashAlgorithm, ParameterRecord, PermissionRecord, UserRecord, VhostRecord},
    refusal::Refusal,
    vhost::{ExchangeDeclare, QueueDeclare},
};
use leveret_runtime::{Broker, NodeOptions, StartOptions, VhostHandle, VhostKept, hash_password};
use leveret_wire::value::{FieldTable, ShortString};
use tempfile::TempDir;

const CONNECTION: ConnectionId = ConnectionId::new(1);

fn name(text: &str) -> ShortString {
    ShortString::try_from(text).expect("short")
}

fn start(dir: &Path) -> Arc<Broker> {
    let options = StartOptions {
        data_dir: Some(dir.to_owned()),
        store: leveret_store::Options::default(),
        node: NodeOptions::default(),
        limits: leveret_runtime::Limits::default(),
    };
    Broker::start(&options, |failure| panic!("storage failed: {failure}")).expect("it starts")
}

fn alice() -> UserRecord {
    UserRecord {
        name: name("alice"),
        password_hash: hash_password(HashAlgorithm::Sha512, b"secret"),
        algorithm: HashAlgorithm::Sha512,
        ..UserRecord::default()
    }
}

fn everything(vhost: &str, user: &str) -> PermissionRecord {
    let everything = || ".*".to_owned();
    PermissionRecord {
        vhost: name(vhost),
        user: name(user),
        configure: everything(),
        write: everything(),
        read: everything(),
    }
}

fn queue(text: &str) -> QueueDeclare {
    QueueDeclare {
        name: name(text),
        server_named: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: FieldTable::new(),
        refused_if_new: None,
    }
}

async fn fill(vhost: &Arc<VhostHandle>) {
    vhost
        .declare_queue(queue("jobs"), CONNECTION)
        .await
        .expect("declared");
    let exchange = ExchangeDeclare {
        name: name("news"),
        kind: name("fanout"),
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: FieldTable::new(),
        refused_if_new: None,
    };
    vhost.declare_exchange(exchange).await.expect("declared");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_finds_vhosts_users_and_permissions() {
    let dir = TempDir::new().expect("a directory");
    let broker = start(dir.path());
    let vhost = VhostRecord {
        description: "for tests".to_owned(),
        max_queues: Some(1),
        ..VhostRecord::named(name("test"))
    };
    broker.put_vhost(vhost.clone()).await;
    broker.put_user(alice()).await;
    broker
        .put_permission(everything("test", "alice"))
        .await
        .expect("both are there");
    fill(&broker.vhost(&name("test")).expect("a vhost")).await;
    broker.stop().expect("stopped");
    drop(broker);

    let broker = start(dir.path());
    let directory = broker.directory();
    assert_eq!(
        directory.vhost(&name("test")).map(|found| &**found),
        Some(&vhost)
    );
    let peer = Ipv4Addr::new(10, 0, 0, 1).into();
    assert!(broker.login(b"alice", b"secret", peer).await.is_ok());
    assert!(broker.rights(&name("test"), &name("alice")).is_member());
    assert!(!broker.rights(&name("/"), &name("alice")).is_member());
    assert!(broker.rights(&name("/"), &name("guest")).is_member());
    let vhost = broker.vhost(&name("test")).expect("a vhost");
    assert!(vhost.snapshot().queue(&name("jobs")).is_ok());
    assert!(vhost.snapshot().exchange(&name("news")).is_ok());
    // A known queue is no further one.
    assert!(vhost.declare_queue(queue("jobs"), CONNECTION).await.is_ok());
    assert_eq!(
        vhost.declare_queue(queue("more"), CONNECTION).await.err(),
        Some(Refusal::QueueLimit {
            name: name("more"),
            vhost: name("test"),
            max: 1
        })
    );
    broker.stop().expect("stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_vhost_is_gone_with_everything_in_it() {
    let dir = TempDir::new().expect("a directory");
    let broker = start(dir.path());
    broker.put_vhost(VhostRecord::named(name("test"))).await;
    broker.put_user(alice()).await;
    broker
        .put_permission(everything("test", "alice"))
        .await
        .expect("both are there");
    let vhost = broker.vhost(&name("test")).expect("a vhost");
    fill(&vhost).await;
    assert_eq!(broker.delete_vhost(&name("test")).await, Ok(()));
    assert_eq!(
        broker.delete_vhost(&name("test")).await,
        Err(VhostKept::NotFound)
    );
    assert!(broker.vhost(&name("test")).is_err());
    // Whoever still has it in hand can make nothing in it.
    assert_eq!(
        vhost.declare_queue(queue("late"), CONNECTION).await.err(),
        Some(Refusal::VhostDeleted {
            vhost: name("test")
        })
    );
    broker.stop().expect("stopped");
    drop(broker);

    let broker = start(dir.path());
    assert!(broker.vhost(&name("test")).is_err());
    assert!(!broker.rights(&name("test"), &name("alice")).is_member());
    // A new one of the name is empty.
    broker.put_vhost(VhostRecord::named(name("test"))).await;
    let vhost = broker.vhost(&name("test")).expect("a vhost");
    assert_eq!(vhost.snapshot().queue_count(), 0);
    assert!(vhost.snapshot().exchange(&name("news")).is_err());
    broker.stop().expect("stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_vhost_is_not_deleted() {
    let dir = TempDir::new().expect("a directory");
    let broker = start(dir.path());
    let vhost = VhostRecord {
        protected: true,
        ..VhostRecord::named(name("kept"))
    };
    broker.put_vhost(vhost).await;
    assert_eq!(
        broker.delete_vhost(&name("kept")).await,
        Err(VhostKept::Protected)
    );
    assert!(broker.vhost(&name("kept")).is_ok());
    broker.stop().expect("stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_user_logs_in_no_more_and_has_no_rights() {
    let dir = TempDir::new().expect("a directory");
    let broker = start(dir.path());
    broker.put_user(alice()).await;
    broker
        .put_permission(everything("/", "alice"))
        .await
        .expect("both are there");
    let before = broker.directory_version();
    assert!(broker.delete_user(&name("alice")).await);
    assert!(broker.directory_version() > before);
    assert!(!broker.delete_user(&name("alice")).await);
    let peer = Ipv4Addr::LOCALHOST.into();
    assert!(broker.login(b"alice", b"secret", peer).await.is_err());
    assert!(!broker.rights(&name("/"), &name("alice")).is_member());
    broker.stop().expect("stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policies_of_a_deleted_vhost_meet_no_later_one_of_its_name() {
    let dir = TempDir::new().expect("a directory");
    let broker = start(dir.path());
    let policy = || ParameterRecord {
        component: "policy".to_owned(),
        vhost: name("test"),
        name: "p".to_owned(),
        value: r#"{"pattern": ".*", "definition": {"max-length": 1}}"#.to_owned(),
    };
    let policy_of_jobs = || {
        let vhost = broker.vhost(&name("test")).expect("a vhost");
        let snapshot = vhost.snapshot();
        let record = snapshot.queue(&name("jobs")).expect("a queue");
        let queue = broker.queue(record.id).expect("a queue");
        queue.policy().user.map(|policy| policy.name.clone())
    };
    broker.put_vhost(VhostRecord::named(name("test"))).await;
    fill(&broker.vhost(&name("test")).expect("a vhost")).await;
    broker.put_parameter(policy()).await;
    assert_eq!(policy_of_jobs(), Some("p".to_owned()));
    assert_eq!(broker.delete_vhost(&name("test")).await, Ok(()));
    broker.put_vhost(VhostRecord::named(name("test"))).await;
    fill(&broker.vhost(&name("test")).expect("a vhost")).await;
    assert_eq!(policy_of_jobs(), None);
    broker.stop().expect("stopped");
}
