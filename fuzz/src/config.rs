//! The languages of the broker's configuration, from a package that is no library.

#[allow(dead_code, reason = "the broker uses all of it")]
#[path = "../../crates/leveret/src/config/conf_file.rs"]
mod conf_file;
#[allow(dead_code, reason = "the broker uses all of it")]
#[path = "../../crates/leveret/src/config/erlang_terms.rs"]
mod erlang_terms;
#[path = "../../crates/leveret/src/config/toml_file.rs"]
mod toml_file;

pub mod configuration;
