//! What a queue does, one behaviour per file.

mod scenario;

mod ack_timeout;
mod attempts;
mod bounded_memory;
mod channel_release;
mod cold_range;
mod consumer_priority;
mod dead_letter;
mod delete;
mod durability;
mod exclusive_consumer;
mod expiry;
mod get;
mod hand_out_in_portions;
mod last_consumer;
mod length_limits;
mod no_ack;
mod pause;
mod prefetch;
mod priorities;
mod purge;
mod quorum;
mod random_commands;
mod random_settings;
mod read_ahead;
mod restart;
mod retry;
mod return_to_its_place;
mod round_robin;
mod settle;
mod shared_prefetch;
mod single_active_consumer;
mod spilling;
mod stranded;
mod unacked_on_disk;
