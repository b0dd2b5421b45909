//! `/nodes/n/memory`: what the memory of the process is for, under the names that tools require.

use leveret_core::arguments::QueueType;
use serde_json::{Map, Value, json};

use crate::{
    error::Refused, lists, reply::Reply, request::Request, resource::node::Process, server::Api,
};

/// Categories of the Erlang machine. What is none here is 0.
const CATEGORIES: [&str; 25] = [
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "queue_procs",
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "quorum_ets",
    "mnesia",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
];

/// Pages of the program and of files, which the system takes back when it needs them.
const RESERVED: &str = "reserved_unallocated";

/// What is in use, by category.
#[derive(Debug)]
pub(crate) struct Breakdown {
    bytes: Map<String, Value>,
    used: u64,
    resident: u64,
}

impl Breakdown {
    pub(crate) fn measured(api: &Api) -> Self {
        let resident = Process::measured().memory_used;
        // The alarm counts what is no file's, and so does this.
        let used = api.broker.gauges().memory_used.min(resident);
        let (mut classic, mut quorum, mut stream) = (0, 0, 0);
        for vhost in api.broker.vhosts() {
            for record in vhost.snapshot().queues() {
                let Some(queue) = api.broker.queue(record.id) else {
                    continue;
                };
                let of_type = match record.queue_type {
                    QueueType::Classic => &mut classic,
                    QueueType::Quorum => &mut quorum,
                    QueueType::Stream => &mut stream,
                };
                *of_type += queue.report().memory_bytes;
            }
        }
        let mut bytes: Map<String, Value> = CATEGORIES
            .iter()
            .map(|category| ((*category).to_owned(), 0.into()))
            .collect();
        let rest = used.saturating_sub(classic + quorum + stream);
        for (category, value) in [
            ("queue_procs", classic),
            ("quorum_queue_procs", quorum),
            ("stream_queue_procs", stream),
            ("other_system", rest),
            (RESERVED, resident - used),
        ] {
            bytes.insert(category.to_owned(), value.into());
        }
        Self {
            bytes,
            used,
            resident,
        }
    }

    /// Each category with its bytes.
    pub(crate) fn categories(&self) -> impl Iterator<Item = (&str, u64)> {
        let each = self.bytes.iter();
        each.map(|(category, bytes)| (category.as_str(), bytes.as_u64().unwrap_or(0)))
    }

    pub(crate) fn absolute(&self) -> Value {
        let mut memory = self.bytes.clone();
        memory.insert("strategy".to_owned(), "rss".into());
        let total = json!({"erlang": self.used, "rss": self.resident, "allocated": self.used});
        memory.insert("total".to_owned(), total);
        json!({ "memory": memory })
    }

    /// In percent; what is there is no less than 1.
    fn relative(&self) -> Value {
        let percent = |bytes: u64| match bytes {
            0 => 0,
            some => (some * 100 / self.resident.max(1)).max(1),
        };
        let mut memory: Map<String, Value> = self
            .categories()
            .map(|(category, bytes)| (category.to_owned(), percent(bytes).into()))
            .collect();
        memory.insert("total".to_owned(), 100.into());
        json!({ "memory": memory })
    }
}

pub(crate) fn absolute(api: &Api, request: &Request) -> Result<Reply, Refused> {
    Ok(lists::one(request, Breakdown::measured(api).absolute()))
}

pub(crate) fn relative(api: &Api, request: &Request) -> Result<Reply, Refused> {
    Ok(lists::one(request, Breakdown::measured(api).relative()))
}
