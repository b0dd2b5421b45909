//! What is kept where, and from when on publishers wait.

use std::path::PathBuf;

use leveret_runtime::Amount;

use super::super::{
    setting::{
        Form::{Share, Size},
        Row, in_form, key,
    },
    value::{Bytes, Value},
};
use super::types::{Storage, StorageSync};

settings! {
    StorageSettings "Storage"

    /// Directory for everything durable; made if it is missing, used by one broker at a time
    data_dir: Option<PathBuf> {
        value_name: "DIR",
        default_words: "./leveret-data",
        over: &[key("RABBITMQ_MNESIA_DIR")],
    }
    /// Directory in which the data directory lies, under the name of the node; --data-dir overrides it
    data_base: Option<PathBuf> {
        value_name: "DIR",
        default_words: "none; /var/lib/rabbitmq/mnesia as rabbitmq-server",
        over: &[key("RABBITMQ_MNESIA_BASE")],
    }
    /// Where queues and messages are kept: in the data directory, or in memory, for tests: nothing then outlives the
    /// process, and the data directory is not touched
    storage: Storage {
        value_name: "WHERE",
        default: "disk",
    }
    /// When a message counts as stored and is confirmed; docs/durability.md tells what each promises
    storage_sync: StorageSync {
        value_name: "WHEN",
        default: "always",
    }
    /// Memory in use from which on publishers wait, told by connection.blocked: a size like 512MiB, or a share of the
    /// memory this machine or container has
    memory_limit: Amount {
        value_name: "SIZE",
        default: "0.6",
        keys: &[
            key("vm_memory_high_watermark"),
            in_form("vm_memory_high_watermark.relative", Share),
            in_form("vm_memory_high_watermark.absolute", Size),
        ],
        over: &[key("RABBITMQ_VM_MEMORY_HIGH_WATERMARK")],
    }
    /// Memory to take shares of, in place of what this machine or container has
    total_memory: Option<Bytes> {
        value_name: "SIZE",
        default_words: "what the machine or the control group has",
        range: (1, u64::MAX),
        keys: &[key("total_memory_available_override_value")],
    }
    /// Free space on the disk of the data directory below which publishers wait
    disk_free_limit: Amount {
        value_name: "SIZE",
        default: "50MB",
        keys: &[
            key("disk_free_limit"),
            in_form("disk_free_limit.relative", Share),
            in_form("disk_free_limit.absolute", Size),
        ],
    }
}
