//! Where settings are read from.

use std::path::PathBuf;

use super::super::{setting::Row, value::Value};

settings! {
    #[expect(dead_code, reason = "they are read while the others are merged")]
    ConfigurationSettings "Configuration"

    /// Files to read settings from: TOML if the name ends in .toml, else lines as in rabbitmq.conf. Of several the
    /// later overrides the earlier
    config: Vec<PathBuf> {
        value_name: "FILE",
    }
    /// Whether a key that does not exist keeps the broker from starting; it is a warning otherwise
    config_strict: bool {
        value_name: "BOOL",
        default: "false",
    }
}
