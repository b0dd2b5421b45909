//! How many instructions a message takes on its way: counted by valgrind, so that neither the machine nor its other
//! work matters. `scripts/check-perf` runs them and compares with what the repository has on record.
//!
//! From the inside out: frames, routing, a queue, the committer, and the whole way from a client's socket to
//! another's. Each function does the work of [`MESSAGES`] messages or so many of its own kind.

#![allow(unused_qualifications, reason = "what the macros of gungraun write")]

mod committer;
mod queue;
mod routing;
mod whole_way;
mod wire;

use gungraun::{library_benchmark_group, main};
use tikv_jemallocator::Jemalloc;

use self::{
    committer::{all_threads, cancelled_pairs, put_and_forget},
    queue::{auto_acked, backlog_in_and_out, each_acked},
    routing::{direct, headers, topic},
    whole_way::{persistent_confirmed_acked, transient_acked_each, transient_auto_acked},
    wire::{decode_properties, decode_publishes, encode_deliveries},
};

// As the broker has it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Messages of one benchmark.
const MESSAGES: u64 = 10_000;

library_benchmark_group!(
    name = wire_group,
    benchmarks = [decode_publishes, encode_deliveries, decode_properties]
);
library_benchmark_group!(name = routing_group, benchmarks = [direct, topic, headers]);
library_benchmark_group!(
    name = queue_group,
    benchmarks = [auto_acked, each_acked, backlog_in_and_out]
);
library_benchmark_group!(
    name = committer_group,
    config = all_threads(),
    benchmarks = [put_and_forget, cancelled_pairs]
);
library_benchmark_group!(
    name = whole_way_group,
    benchmarks = [
        transient_auto_acked,
        transient_acked_each,
        persistent_confirmed_acked
    ]
);

main!(
    library_benchmark_groups = [
        wire_group,
        routing_group,
        queue_group,
        committer_group,
        whole_way_group
    ]
);
