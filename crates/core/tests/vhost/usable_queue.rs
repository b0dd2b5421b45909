//! Who may use a queue: passive declares, purges, consumers and gets ask this.

use leveret_core::{refusal::Refusal, vhost::QueueDeclare};
use leveret_wire::value::FieldTable;

use crate::scenario::{ME, OTHER, VhostScenario, binding, expect_refused, name, queue};

#[test]
fn everybody_may_use_a_shared_queue() {
    let mut vhost = VhostScenario::new();
    let id = vhost.queue("Q");
    for connection in [ME, OTHER] {
        let found = vhost.vhost.usable_queue(&name("Q"), connection);
        assert_eq!(found.map(|record| record.id), Ok(id));
    }
}

#[test]
fn a_missing_queue_is_not_found() {
    let vhost = VhostScenario::new();
    let refused = "NOT_FOUND - no queue 'Q' in vhost 'V'";
    expect_refused(vhost.vhost.usable_queue(&name("Q"), ME), 404, refused);
    expect_refused(vhost.vhost.queue(&name("Q")), 404, refused);
}

#[test]
fn only_its_connection_may_use_an_exclusive_queue() {
    let mut vhost = VhostScenario::new();
    let asked = QueueDeclare {
        exclusive: true,
        ..queue("Q")
    };
    vhost.declare_queue(asked).expect("new");
    assert!(vhost.vhost.usable_queue(&name("Q"), ME).is_ok());
    expect_refused(
        vhost.vhost.usable_queue(&name("Q"), OTHER),
        405,
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'Q' in vhost 'V'. It \
         could be originally declared on another connection or the exclusive property value does \
         not match that of the original declaration.",
    );
    vhost.exchange("X", "direct");
    vhost.bind("X", "Q", "k");
    let bound = |key| binding("X", "Q", key, FieldTable::new());
    let refused = vhost.vhost.unbind(&bound("k"), OTHER);
    assert!(
        matches!(refused, Err(Refusal::Locked { .. })),
        "{refused:?}"
    );
    let missing = vhost.vhost.unbind(&bound("another"), OTHER);
    assert_eq!(missing, Ok(Vec::new()), "what is missing is nobody's");
}

#[test]
fn everybody_may_publish_to_an_exclusive_queue() {
    let mut vhost = VhostScenario::new();
    let asked = QueueDeclare {
        exclusive: true,
        ..queue("Q")
    };
    vhost.declare_queue(asked).expect("new");
    vhost.expect_route("", "Q", ["Q"]);
}
