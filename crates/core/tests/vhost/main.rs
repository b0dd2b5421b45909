//! What a vhost does with exchanges, queues, bindings and messages, one behaviour per file.

mod scenario;

mod alternate_exchange;
mod auto_delete_exchange;
mod bind;
mod choosing_exchanges;
mod consume_arguments;
mod declare_exchange;
mod declare_queue;
mod delayed_exchange;
mod delete_exchange;
mod direct_and_fanout;
mod exchange_to_exchange;
mod headers;
mod queue_arguments;
mod remove_queue;
mod route_dead_letter;
mod several_keys;
mod snapshot;
mod stored_changes;
mod topic;
mod topic_random;
mod unbind;
mod usable_queue;
