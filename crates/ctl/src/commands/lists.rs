//! Lists with columns that one chooses: queues, exchanges, bindings, connections, channels, consumers.

use serde_json::{Value, json};

use crate::{
    call::{Call, Switch},
    client::{Client, segment},
    command::Command,
    failure::{Failure, USAGE},
    format::{Output, Rows},
    term::Term,
};

const GROUP: &str = "Monitoring, observability and health checks";

/// What a list can show, and how it is found in an object of the API.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column(pub(super) &'static str, pub(super) fn(&Value) -> Term);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("list_bindings", "Lists bindings of a vhost", bindings)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing bindings for vhost {}...", call.vhost()))
        .takes(0, usize::MAX, "[--vhost <vhost>] [--no-table-headers] [<column> ...]"),
    Command::new("list_channels", "Lists channels", channels)
        .group(GROUP)
        .of_both()
        .says(|_| "Listing channels ...".to_owned())
        .takes(0, usize::MAX, "[--no-table-headers] [<column> ...]"),
    Command::new("list_connections", "Lists connections", connections)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|_| "Listing connections ...".to_owned())
        .takes(0, usize::MAX, "[--no-table-headers] [<column> ...]"),
    Command::new("list_consumers", "Lists consumers of a vhost", consumers)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing consumers in vhost {} ...", call.vhost()))
        .takes(0, usize::MAX, "[--vhost <vhost>] [--no-table-headers] [<column> ...]"),
    Command::new("list_exchanges", "Lists exchanges of a vhost", exchanges)
        .group(GROUP)
        .of_both()
        .timed()
        .says(|call| format!("Listing exchanges for vhost {} ...", call.vhost()))
        .takes(0, usize::MAX, "[--vhost <vhost>] [--no-table-headers] [<column> ...]"),
    Command::new("list_queues", "Lists queues of a vhost", queues)
        .group(GROUP)
        .of_both()
        .timed()
        .switches(&[
            Switch("online", None, false),
            Switch("offline", None, false),
            Switch("local", None, false),
        ])
        .says(|call| {
            let secs = call.timeout().as_secs_f64();
            format!("Timeout: {secs:?} seconds ...\nListing queues for vhost {} ...", call.vhost())
        })
        .takes(
            0,
            usize::MAX,
            "[--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...]",
        ),
    Command::new("list_unresponsive_queues", "Lists queues that do not answer: there are none", unresponsive)
        .group(GROUP)
        .of_both()
        .timed()
        .switches(&[Switch("queue-timeout", None, true), Switch("local", None, false)])
        .says(|call| format!("Listing unresponsive queues for vhost {} ...", call.vhost()))
        .takes(
            0,
            usize::MAX,
            "[--local] [--queue-timeout <seconds>] [<column> ...] [--no-table-headers]",
        ),
];

/// The rows of a list, with the columns that were asked for.
pub(super) fn rows(
    call: &Call,
    known: &'static [Column],
    default: &[&str],
    list: impl FnOnce() -> Result<Vec<Value>, Failure>,
) -> Result<Rows, Failure> {
    // `a b` and `a,b` are the same.
    let asked = call
        .arguments
        .iter()
        .flat_map(|word| word.split([',', ' ']));
    let mut asked: Vec<&str> = asked.filter(|name| !name.is_empty()).collect();
    if asked.is_empty() {
        asked = default.to_vec();
    }
    let of = |name: &str| known.iter().find(|Column(column, _)| *column == name);
    let unknown: Vec<&str> = asked
        .iter()
        .copied()
        .filter(|name| of(name).is_none())
        .collect();
    if !unknown.is_empty() {
        let why = format!("Info key(s) {} are not supported", unknown.join(","));
        return Err(Failure::validation(call, USAGE, &why));
    }
    let columns: Vec<Column> = asked.iter().filter_map(|name| of(name)).copied().collect();
    let rows = list()?
        .iter()
        .map(|object| columns.iter().map(|Column(_, cell)| cell(object)).collect())
        .collect();
    Ok(Rows {
        columns: columns.iter().map(|Column(name, _)| *name).collect(),
        rows,
        is_stream: true,
        has_header: true,
    })
}

/// A field that every queue of a process has and ours has once.
fn names_of_one(value: &Value) -> Term {
    Term::names(&json!([value]))
}

const QUEUE_COLUMNS: &[Column] = &[
    Column("name", |queue| Term::plain(&queue["name"])),
    Column("durable", |queue| Term::plain(&queue["durable"])),
    Column("auto_delete", |queue| Term::plain(&queue["auto_delete"])),
    Column("arguments", |queue| Term::arguments(&queue["arguments"])),
    Column("policy", |queue| Term::plain(&queue["policy"])),
    Column("operator_policy", |queue| {
        Term::plain(&queue["operator_policy"])
    }),
    Column("effective_policy_definition", |queue| {
        Term::table(&queue["effective_policy_definition"])
    }),
    Column("pid", |queue| Term::plain(&queue["pid"])),
    Column("owner_pid", |queue| Term::plain(&queue["owner_pid"])),
    Column("exclusive", |queue| Term::plain(&queue["exclusive"])),
    Column("exclusive_consumer_pid", |_| Term::text("")),
    Column("exclusive_consumer_tag", |queue| {
        Term::plain(&queue["exclusive_consumer_tag"])
    }),
    Column("single_active_consumer_tag", |queue| {
        Term::plain(&queue["single_active_consumer_tag"])
    }),
    Column("messages_ready", |queue| {
        Term::plain(&queue["messages_ready"])
    }),
    Column("messages_unacknowledged", |queue| {
        Term::plain(&queue["messages_unacknowledged"])
    }),
    Column("messages", |queue| Term::plain(&queue["messages"])),
    Column("messages_ready_ram", |queue| {
        Term::plain(&queue["messages_ready_ram"])
    }),
    Column("messages_unacknowledged_ram", |queue| {
        Term::plain(&queue["messages_unacknowledged_ram"])
    }),
    Column("messages_ram", |queue| Term::plain(&queue["messages_ram"])),
    Column("messages_persistent", |queue| {
        Term::plain(&queue["messages_persistent"])
    }),
    Column("message_bytes", |queue| {
        Term::plain(&queue["message_bytes"])
    }),
    Column("message_bytes_ready", |queue| {
        Term::plain(&queue["message_bytes_ready"])
    }),
    Column("message_bytes_unacknowledged", |queue| {
        Term::plain(&queue["message_bytes_unacknowledged"])
    }),
    Column("message_bytes_ram", |queue| {
        Term::plain(&queue["message_bytes_ram"])
    }),
    Column("message_bytes_persistent", |queue| {
        Term::plain(&queue["message_bytes_persistent"])
    }),
    Column("head_message_timestamp", |queue| {
        Term::plain(&queue["head_message_timestamp"])
    }),
    Column("disk_reads", |_| Term::Plain(0.into())),
    Column("disk_writes", |_| Term::Plain(0.into())),
    Column("consumers", |queue| Term::plain(&queue["consumers"])),
    Column("active_consumers", |queue| Term::plain(&queue["consumers"])),
    Column("consumer_utilisation", |queue| {
        Term::plain(&queue["consumer_utilisation"])
    }),
    Column("consumer_capacity", |queue| {
        Term::plain(&queue["consumer_capacity"])
    }),
    Column("memory", |queue| Term::plain(&queue["memory"])),
    Column("state", |queue| Term::plain(&queue["state"])),
    Column("type", |queue| Term::plain(&queue["type"])),
    Column("leader", |queue| Term::plain(&queue["node"])),
    Column("members", |queue| names_of_one(&queue["node"])),
    Column("online", |queue| names_of_one(&queue["node"])),
    Column("vhost", |queue| Term::plain(&queue["vhost"])),
];

fn queues(call: &Call, client: &Client) -> Result<Output, Failure> {
    let path = format!("x/node/queues?vhost={}", segment(call.vhost()));
    let list = || {
        // Every queue of a node that answers is online.
        if call.has("offline") && !call.has("online") {
            return Ok(Vec::new());
        }
        client.list(&path)
    };
    rows(call, QUEUE_COLUMNS, &["name", "messages"], list).map(Output::Rows)
}

fn unresponsive(call: &Call, _: &Client) -> Result<Output, Failure> {
    rows(call, QUEUE_COLUMNS, &["name"], || Ok(Vec::new())).map(Output::Rows)
}

const EXCHANGE_COLUMNS: &[Column] = &[
    Column("name", |exchange| Term::plain(&exchange["name"])),
    Column("type", |exchange| Term::plain(&exchange["type"])),
    Column("durable", |exchange| Term::plain(&exchange["durable"])),
    Column("auto_delete", |exchange| {
        Term::plain(&exchange["auto_delete"])
    }),
    Column("internal", |exchange| Term::plain(&exchange["internal"])),
    Column("arguments", |exchange| {
        Term::arguments(&exchange["arguments"])
    }),
    Column("policy", |exchange| Term::plain(&exchange["policy"])),
];

fn exchanges(call: &Call, client: &Client) -> Result<Output, Failure> {
    let path = format!("exchanges/{}", segment(call.vhost()));
    let list = || client.list(&path);
    rows(call, EXCHANGE_COLUMNS, &["name", "type"], list).map(Output::Rows)
}

const BINDING_COLUMNS: &[Column] = &[
    Column("source_name", |binding| Term::plain(&binding["source"])),
    Column("source_kind", |_| Term::text("exchange")),
    Column("destination_name", |binding| {
        Term::plain(&binding["destination"])
    }),
    Column("destination_kind", |binding| {
        Term::plain(&binding["destination_type"])
    }),
    Column("routing_key", |binding| {
        Term::plain(&binding["routing_key"])
    }),
    Column("arguments", |binding| {
        Term::arguments(&binding["arguments"])
    }),
    Column("vhost", |binding| Term::plain(&binding["vhost"])),
];

const BINDING_DEFAULT: &[&str] = &[
    "source_name",
    "source_kind",
    "destination_name",
    "destination_kind",
    "routing_key",
    "arguments",
];

fn bindings(call: &Call, client: &Client) -> Result<Output, Failure> {
    let path = format!("bindings/{}", segment(call.vhost()));
    let list = || client.list(&path);
    rows(call, BINDING_COLUMNS, BINDING_DEFAULT, list).map(Output::Rows)
}

const CONNECTION_COLUMNS: &[Column] = &[
    Column("pid", |connection| Term::plain(&connection["pid"])),
    Column("name", |connection| Term::plain(&connection["name"])),
    Column("port", |connection| Term::plain(&connection["port"])),
    Column("host", |connection| address(&connection["host"])),
    Column("peer_port", |connection| {
        Term::plain(&connection["peer_port"])
    }),
    Column("peer_host", |connection| address(&connection["peer_host"])),
    Column("ssl", |connection| Term::plain(&connection["ssl"])),
    Column("ssl_protocol", |connection| {
        Term::plain(&connection["ssl_protocol"])
    }),
    Column("ssl_key_exchange", |connection| {
        Term::plain(&connection["ssl_key_exchange"])
    }),
    Column("ssl_cipher", |connection| {
        Term::plain(&connection["ssl_cipher"])
    }),
    Column("ssl_hash", |connection| {
        Term::plain(&connection["ssl_hash"])
    }),
    Column("peer_cert_subject", |connection| {
        Term::plain(&connection["peer_cert_subject"])
    }),
    Column("peer_cert_issuer", |connection| {
        Term::plain(&connection["peer_cert_issuer"])
    }),
    Column("peer_cert_validity", |connection| {
        Term::plain(&connection["peer_cert_validity"])
    }),
    Column("state", |connection| Term::plain(&connection["state"])),
    Column("channels", |connection| {
        Term::plain(&connection["channels"])
    }),
    Column("protocol", |connection| protocol(&connection["protocol"])),
    Column("auth_mechanism", |connection| {
        Term::plain(&connection["auth_mechanism"])
    }),
    Column("user", |connection| Term::plain(&connection["user"])),
    Column("vhost", |connection| Term::plain(&connection["vhost"])),
    Column("container_id", |_| Term::text("")),
    Column("timeout", |connection| Term::plain(&connection["timeout"])),
    Column("frame_max", |connection| {
        Term::plain(&connection["frame_max"])
    }),
    Column("channel_max", |connection| {
        Term::plain(&connection["channel_max"])
    }),
    Column("client_properties", |connection| {
        Term::arguments(&connection["client_properties"])
    }),
    Column("connected_at", |connection| {
        Term::plain(&connection["connected_at"])
    }),
    Column("recv_oct", |connection| {
        Term::plain(&connection["recv_oct"])
    }),
    Column("recv_cnt", |connection| {
        Term::plain(&connection["recv_cnt"])
    }),
    Column("send_oct", |connection| {
        Term::plain(&connection["send_oct"])
    }),
    Column("send_cnt", |connection| {
        Term::plain(&connection["send_cnt"])
    }),
    Column("send_pend", |connection| {
        Term::plain(&connection["send_pend"])
    }),
];

fn address(value: &Value) -> Term {
    Term::Address(value.as_str().unwrap_or_default().to_owned())
}

fn protocol(value: &Value) -> Term {
    match value.as_str() {
        Some("AMQP 0-9-1") => Term::text("{0,9,1}"),
        _ => Term::plain(value),
    }
}

fn connections(call: &Call, client: &Client) -> Result<Output, Failure> {
    let default = ["user", "peer_host", "peer_port", "state"];
    let list = || client.list("x/node/connections");
    rows(call, CONNECTION_COLUMNS, &default, list).map(Output::Rows)
}

const CHANNEL_COLUMNS: &[Column] = &[
    Column("pid", |channel| Term::plain(&channel["pid"])),
    Column("connection", |channel| Term::plain(&channel["connection"])),
    Column("name", |channel| Term::plain(&channel["name"])),
    Column("number", |channel| Term::plain(&channel["number"])),
    Column("user", |channel| Term::plain(&channel["user"])),
    Column("vhost", |channel| Term::plain(&channel["vhost"])),
    Column("transactional", |channel| {
        Term::plain(&channel["transactional"])
    }),
    Column("confirm", |channel| Term::plain(&channel["confirm"])),
    Column("consumer_count", |channel| {
        Term::plain(&channel["consumer_count"])
    }),
    Column("messages_unacknowledged", |channel| {
        Term::plain(&channel["messages_unacknowledged"])
    }),
    Column("messages_uncommitted", |channel| {
        Term::plain(&channel["messages_uncommitted"])
    }),
    Column("acks_uncommitted", |channel| {
        Term::plain(&channel["acks_uncommitted"])
    }),
    Column("messages_unconfirmed", |channel| {
        Term::plain(&channel["messages_unconfirmed"])
    }),
    Column("prefetch_count", |channel| {
        Term::plain(&channel["prefetch_count"])
    }),
    Column("pending_raft_commands", |channel| {
        Term::plain(&channel["pending_raft_commands"])
    }),
    Column("cached_segments", |channel| {
        Term::plain(&channel["cached_segments"])
    }),
];

fn channels(call: &Call, client: &Client) -> Result<Output, Failure> {
    let default = ["pid", "user", "consumer_count", "messages_unacknowledged"];
    let list = || client.list("x/node/channels");
    rows(call, CHANNEL_COLUMNS, &default, list).map(Output::Rows)
}

const CONSUMER_COLUMNS: &[Column] = &[
    Column("queue_name", |consumer| {
        Term::plain(&consumer["queue"]["name"])
    }),
    Column("channel_pid", |consumer| {
        Term::plain(&consumer["channel_pid"])
    }),
    Column("consumer_tag", |consumer| {
        Term::plain(&consumer["consumer_tag"])
    }),
    Column("ack_required", |consumer| {
        Term::plain(&consumer["ack_required"])
    }),
    Column("prefetch_count", |consumer| {
        Term::plain(&consumer["prefetch_count"])
    }),
    Column("active", |consumer| Term::plain(&consumer["active"])),
    Column("activity_status", |consumer| {
        Term::plain(&consumer["activity_status"])
    }),
    Column("arguments", |consumer| {
        Term::arguments(&consumer["arguments"])
    }),
];

const CONSUMER_DEFAULT: &[&str] = &[
    "queue_name",
    "channel_pid",
    "consumer_tag",
    "ack_required",
    "prefetch_count",
    "active",
    "arguments",
];

fn consumers(call: &Call, client: &Client) -> Result<Output, Failure> {
    let path = format!("x/node/consumers?vhost={}", segment(call.vhost()));
    let list = || client.list(&path);
    let mut rows = rows(call, CONSUMER_COLUMNS, CONSUMER_DEFAULT, list)?;
    in_order(&mut rows);
    Ok(Output::Rows(rows))
}

/// As RabbitMQ does with consumers: the columns in their own order, whatever that of the question.
fn in_order(rows: &mut Rows) {
    let place = |name: &str| {
        CONSUMER_COLUMNS
            .iter()
            .position(|Column(known, _)| *known == name)
    };
    let mut order: Vec<usize> = (0..rows.columns.len()).collect();
    order.sort_by_key(|&at| place(rows.columns[at]));
    rows.columns = order.iter().map(|&at| rows.columns[at]).collect();
    for row in &mut rows.rows {
        *row = order.iter().map(|&at| row[at].clone()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;

    fn call(text: &str) -> Call {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Call::parse(Program::Ctl, &words).expect("a command")
    }

    #[test]
    fn columns_come_in_the_order_of_the_question_and_unknown_ones_are_named() {
        let asked = call("list_queues messages,name durable");
        let queue = json!({"name": "q", "messages": 1, "durable": true});
        let found = rows(&asked, QUEUE_COLUMNS, &["name"], || Ok(vec![queue])).expect("rows");
        assert_eq!(found.columns, ["messages", "name", "durable"]);
        assert_eq!(found.rows[0][0], Term::Plain(json!(1)));

        let asked = call("list_queues name bogus");
        let failure = rows(&asked, QUEUE_COLUMNS, &["name"], || Ok(Vec::new()));
        let failure = failure.expect_err("no such column");
        assert_eq!(failure.code, USAGE);
        assert!(failure.text.starts_with(
            "Error (argument validation): Info key(s) bogus are not supported\nArguments given:\n\tlist_queues name bogus\n"
        ));
    }

    #[test]
    fn columns_of_consumers_keep_their_own_order() {
        let mut rows = Rows {
            columns: vec!["consumer_tag", "queue_name"],
            rows: vec![vec![Term::text("t"), Term::text("q")]],
            is_stream: true,
            has_header: true,
        };
        in_order(&mut rows);
        assert_eq!(rows.columns, ["queue_name", "consumer_tag"]);
        assert_eq!(rows.rows[0][0], Term::text("q"));
    }
}
