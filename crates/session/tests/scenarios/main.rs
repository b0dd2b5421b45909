//! A connection from the outside: bytes in, bytes and calls out. One behaviour per file.

mod ack_timeout;
mod channel_lifecycle;
mod confirms;
mod connection_methods;
mod consuming;
mod deliveries;
mod direct_reply_to;
mod extra_keys;
mod frame_order;
mod framing_errors;
mod fuzz_corpus;
mod getting;
mod handshake;
mod heartbeats;
mod hot_path_order;
mod permissions;
mod protocol_header;
mod publish_checks;
mod random_frames;
mod random_traffic;
mod returns;
mod settling;
mod support;
mod topology;
mod transactions;
mod unfinished_contents;
