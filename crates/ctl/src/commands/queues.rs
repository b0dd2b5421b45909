//! What is done to queues, and what rabbitmq-queues, rabbitmq-streams and rabbitmq-upgrade ask of a node that is alone.

use serde_json::Value;

use crate::{
    call::{Call, Switch},
    client::{Client, as_told, segment},
    command::Command,
    failure::{DATA, Failure, UNAVAILABLE, USAGE},
    format::{Output, Rows},
    program::Program,
    term::Term,
};

const GROUP: &str = "Queues";
const REPLICATION: &str = "Replication";
const QUEUES: &[Program] = &[Program::Queues];
const STREAMS: &[Program] = &[Program::Streams];
const UPGRADE: &[Program] = &[Program::Upgrade];
const CHECKS: &[Program] = &[Program::Diagnostics, Program::Queues];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("delete_queue", "Deletes a queue", delete)
        .group(GROUP)
        .timed()
        .switches(&[
            Switch("if-empty", Some('e'), false),
            Switch("if-unused", Some('u'), false),
            Switch("force", Some('f'), false),
        ])
        .says(|call| {
            let (queue, vhost) = (call.argument(0), call.vhost());
            let when = match (call.has("if-empty"), call.has("if-unused")) {
                (true, true) => "if queue is empty and if queue is unused ",
                (true, false) => "if queue is empty ",
                (false, true) => "if queue is unused ",
                (false, false) => "",
            };
            format!("Deleting queue '{queue}' on vhost '{vhost}' {when}...")
        })
        .takes(1, 1, "[--vhost <vhost>] <queue_name> [--if-empty|-e] [--if-unused|-u] [--force|-f]"),
    Command::new("purge_queue", "Drops all ready messages of a queue", purge)
        .group(GROUP)
        .timed()
        .says(|call| format!("Purging queue '{}' in vhost '{}' ...", call.argument(0), call.vhost()))
        .takes(1, 1, "<queue>"),
    Command::new("rebalance", "Has nothing to do: all queues are on this node", rebalance)
        .group(REPLICATION)
        .of(QUEUES)
        .pretty()
        .switches(&[Switch("vhost-pattern", None, true), Switch("queue-pattern", None, true)])
        .says(|call| format!("Re-balancing leaders of {} queues...", call.argument(0)))
        .takes(1, 1, "< all | quorum | stream > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]"),
    Command::new("quorum_status", "Shows the one member of a quorum queue", quorum_status)
        .group(REPLICATION)
        .of(CHECKS)
        .pretty()
        .says(|call| format!("Status of queue {} on node {} ...", call.argument(0), call.node()))
        .takes(1, 1, "[--vhost <vhost>] <queue>"),
    Command::new("stream_status", "Shows the one member of a stream", stream_status)
        .group(REPLICATION)
        .of(&[Program::Diagnostics, Program::Queues, Program::Streams])
        .pretty()
        .switches(&[Switch("tracking", None, false)])
        .says(|call| format!("Status of stream {} on node {} ...", call.argument(0), call.node()))
        .takes(1, 1, "[--vhost <vhost>] [--tracking] <stream>"),
    Command::new("check_if_node_is_quorum_critical", "Checks whether queues need this node: it is the only one", quorum_critical)
        .group(REPLICATION)
        .of(CHECKS)
        .timed()
        .announces(|call| {
            let node = call.node();
            format!("Checking if node {node} is critical for quorum of any queues/streams ...")
        }),
    Command::new("check_if_node_is_mirror_sync_critical", "Checks whether mirrors need this node: there are none", mirror_critical)
        .group(REPLICATION)
        .of(CHECKS)
        .timed()
        .announces(|call| {
            let node = call.node();
            format!("Checking if node {node} is critical for data availability of any non-synchronised classic mirrored queues ...")
        }),
    Command::new(
        "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        "Checks whether new members lag behind: there are none",
        nothing_after_asking,
    )
    .group(REPLICATION)
    .of(CHECKS)
    .timed(),
    Command::new("check_for_quorum_queues_without_an_elected_leader", "Checks whether quorum queues have leaders: all have", leaders)
        .group(REPLICATION)
        .of(&[Program::Diagnostics])
        .switches(&[Switch("across-all-vhosts", None, false)])
        .says(|call| {
            let pattern = call.argument(0);
            let place = if call.has("across-all-vhosts") {
                "all vhosts".to_owned()
            } else {
                format!("vhost '{}'", call.vhost())
            };
            format!("Checking leader replicas of quorum queues matching '{pattern}' in {place} ...")
        })
        .takes(1, 1, "[--vhost <vhost>] [--across-all-vhosts] <pattern>"),
    replica("add_member", QUEUES, "[--vhost <vhost>] <queue> <node> [--membership <promotable|voter>]"),
    replica("delete_member", QUEUES, "[--vhost <vhost>] <queue> <node>"),
    replica("grow", QUEUES, "<node> < all | even > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]"),
    replica("shrink", &[Program::Queues, Program::Streams], "<node> [--errors-only]"),
    replica("add_replica", STREAMS, "[--vhost <vhost>] <stream> <node>"),
    replica("delete_replica", STREAMS, "[--vhost <vhost>] <queue> <node>"),
    replica("transfer_leadership", &[Program::Queues, Program::Streams], "[--vhost <vhost>] <queue> <node>"),
    Command::new("await_online_quorum_plus_one", "Waits for nothing: no queue needs another node", await_quorum)
        .group("Upgrade")
        .of(UPGRADE)
        .says(|call| {
            let secs = call.timeout_or(AWAIT_QUORUM_SECS).as_secs();
            format!(
                "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for {secs} seconds..."
            )
        }),
    Command::new("drain", "Tells that the node is about to be taken away; it serves until it is stopped", nothing_after_asking)
        .group("Upgrade")
        .of(UPGRADE)
        .says(|call| {
            let node = call.node();
            format!("Will put node {node} into maintenance mode. The node will no longer serve any client traffic!")
        }),
    Command::new("revive", "Tells that the node stays", nothing_after_asking)
        .group("Upgrade")
        .of(UPGRADE)
        .says(|call| {
            let node = call.node();
            format!(
                "Will put node {node} back into regular operating mode. The node will again serve client traffic and host primary queue replicas."
            )
        }),
    Command::new("post_upgrade", "Has nothing to do", post_upgrade)
        .group("Upgrade")
        .of(UPGRADE)
        .says(|_| "Executing post upgrade tasks...".to_owned()),
    Command::new("has_reached_target_cluster_size", "Checks that all nodes there should be are there: one", reached_size)
        .group("Upgrade")
        .of(&[Program::Ctl, Program::Diagnostics, Program::Upgrade])
        .timed(),
];

/// As RabbitMQ's own.
const AWAIT_QUORUM_SECS: u64 = 120;

/// Commands that would change where members of queues are.
const fn replica(name: &'static str, programs: &'static [Program], usage: &'static str) -> Command {
    Command::new(name, "Not supported: a broker is one node", no_replicas)
        .group("Not supported")
        .of(programs)
        .switches(&[
            Switch("errors-only", None, false),
            Switch("membership", None, true),
            Switch("vhost-pattern", None, true),
            Switch("queue-pattern", None, true),
        ])
        .takes(1, 2, usage)
}

fn no_replicas(call: &Call, _: &Client) -> Result<Output, Failure> {
    let name = call.command.name;
    Err(Failure::error(
        UNAVAILABLE,
        format!("{name} is not supported: a broker is one node, and queues have one member"),
    ))
}

fn path(call: &Call) -> String {
    format!(
        "queues/{}/{}",
        segment(call.vhost()),
        segment(call.argument(0))
    )
}

fn delete(call: &Call, client: &Client) -> Result<Output, Failure> {
    let (queue, vhost) = (call.argument(0), call.vhost());
    let (is_empty, is_unused) = (call.has("if-empty"), call.has("if-unused"));
    let path = format!("{}?if-empty={is_empty}&if-unused={is_unused}", path(call));
    let answer = client.change("DELETE", &path, None, |answer| match answer.status {
        404 => Failure::error(USAGE, "No such queue was found"),
        // Why it stays is in the API's words those of AMQP.
        400 => {
            let why = answer.why();
            let state = if why.contains("not empty") {
                "not empty"
            } else if why.contains("in use") {
                "in use"
            } else {
                return as_told(answer);
            };
            Failure::error(
                UNAVAILABLE,
                format!(
                    "{{:amqp_error, :precondition_failed, ~c\"queue '{queue}' in vhost '{vhost}' {state}\", :none}}"
                ),
            )
        }
        _ => as_told(answer),
    })?;
    let ready = answer.json()["messages"].as_u64().unwrap_or_default();
    Ok(Output::Text(format!(
        "Queue was successfully deleted with {ready} ready messages"
    )))
}

fn purge(call: &Call, client: &Client) -> Result<Output, Failure> {
    let path = format!("{}/contents", path(call));
    client.change("DELETE", &path, None, |answer| match answer.status {
        404 => not_found(),
        _ => as_told(answer),
    })?;
    Ok(Output::Nothing)
}

fn not_found() -> Failure {
    Failure::plain(DATA, "Object (queue, stream, exchange, etc) was not found")
}

fn rebalance(call: &Call, client: &Client) -> Result<Output, Failure> {
    if !["all", "quorum", "stream", "classic"].contains(&call.argument(0)) {
        return Err(Failure::validation(
            call,
            USAGE,
            "type should be all, quorum or stream",
        ));
    }
    client.get("x/node")?;
    let rows = vec![vec![Term::Names(Vec::new())]];
    Ok(Output::Rows(Rows::whole(&["Output"], rows)))
}

fn found(call: &Call, client: &Client, kind: &str, missing: Failure) -> Result<Value, Failure> {
    let queue = client.find(&path(call))?.ok_or(missing)?;
    if queue["type"] == kind {
        return Ok(queue);
    }
    Err(Failure::error(
        UNAVAILABLE,
        format!(
            "Operation is not supported for queues of type {}",
            queue["type"]
        ),
    ))
}

fn quorum_status(call: &Call, client: &Client) -> Result<Output, Failure> {
    let (name, vhost) = (call.argument(0), call.vhost());
    let missing = format!("queue '{name}' was not found in virtual host '{vhost}'");
    let queue = found(call, client, "quorum", Failure::plain(DATA, missing))?;
    let row = vec![
        Term::plain(&queue["node"]),
        Term::text("leader"),
        Term::text("voter"),
    ];
    let rows = Rows::whole(&["Node Name", "Raft State", "Membership"], vec![row]);
    Ok(Output::Rows(rows))
}

fn stream_status(call: &Call, client: &Client) -> Result<Output, Failure> {
    let queue = found(call, client, "stream", not_found())?;
    if call.has("tracking") {
        return Ok(Output::Rows(Rows::whole(
            &["reference", "type", "offset"],
            Vec::new(),
        )));
    }
    let row = vec![
        Term::text("writer"),
        Term::plain(&queue["node"]),
        Term::plain(&queue["messages"]),
    ];
    let rows = Rows::whole(&["role", "node", "messages"], vec![row]);
    Ok(Output::Rows(rows))
}

fn quorum_critical(call: &Call, client: &Client) -> Result<Output, Failure> {
    client.get("health/checks/node-is-quorum-critical")?;
    Ok(Output::Text(format!(
        "Node {} seems to be the only one in a single node cluster, the check does not apply",
        call.node()
    )))
}

fn mirror_critical(call: &Call, client: &Client) -> Result<Output, Failure> {
    quorum_critical(call, client)
}

fn leaders(call: &Call, client: &Client) -> Result<Output, Failure> {
    client.get("x/node/status")?;
    Ok(Output::Text(format!(
        "Node {} reported all quorum queue as having responsive leader replicas",
        call.node()
    )))
}

fn await_quorum(_: &Call, client: &Client) -> Result<Output, Failure> {
    client.get("x/node")?;
    Ok(Output::Text(
        "Target node seems to be the only one in a single node cluster, the command does not apply"
            .to_owned(),
    ))
}

fn nothing_after_asking(_: &Call, client: &Client) -> Result<Output, Failure> {
    client.get("x/node")?;
    Ok(Output::Nothing)
}

fn post_upgrade(_: &Call, client: &Client) -> Result<Output, Failure> {
    client.get("x/node")?;
    Ok(Output::Text("Rebalancing queue masters...\n".to_owned()))
}

fn reached_size(_: &Call, client: &Client) -> Result<Output, Failure> {
    client.get("x/node")?;
    Ok(Output::Text("true".to_owned()))
}
