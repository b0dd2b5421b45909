//! What a stream wants of the store, and what it is told.

use crate::{
    ids::{ConsumerId, Seq, Timestamp},
    queue::Refilled,
};

/// To be answered by one [`Told`], once everything that was written before is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Say when everything below `until` is on disk.
    Stored {
        /// Position behind the last one.
        until: Seq,
    },
    /// Rows for one reader.
    Rows {
        /// The reader.
        reader: ConsumerId,
        /// First position to look at.
        from: Seq,
        /// Position behind the last one.
        until: Seq,
        /// At most this many rows.
        rows_max: usize,
        /// No further row once this many bytes are read.
        bytes_max: usize,
    },
    /// The first message that entered at this time or later.
    Since {
        /// The reader that starts there.
        reader: ConsumerId,
        /// First position to look at.
        from: Seq,
        /// Position behind the last one.
        until: Seq,
        /// The time.
        at: Timestamp,
    },
    /// Where segments begin: the rows of this priority, in order.
    Segments {
        /// Their priority.
        priority: u8,
        /// First position to look at.
        from: Seq,
        /// Position behind the last one.
        until: Seq,
    },
    /// Nothing but a pause, before a reader for which a read failed may ask again.
    Pause {
        /// The reader.
        reader: ConsumerId,
        /// How often it failed, one time after the other: the pause grows with it.
        failures: u32,
    },
}

/// What came of an [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Everything below is on disk.
    Stored {
        /// Position behind the last one.
        until: Seq,
    },
    /// What was read for a reader.
    Rows {
        /// The reader.
        reader: ConsumerId,
        /// The rows.
        rows: Refilled,
    },
    /// Where a reader is to start; `None` when everything is older.
    Since {
        /// The reader.
        reader: ConsumerId,
        /// The position.
        found: Option<Seq>,
    },
    /// Where segments begin.
    Segments(Refilled),
    /// The rows for this reader cannot be read: it stands still, and the others go on.
    Unreadable {
        /// The reader.
        reader: ConsumerId,
        /// They are damaged, so that another try would find the same. Else it asks again after a pause.
        is_damage: bool,
    },
    /// The pause of this reader is over.
    Paused {
        /// The reader.
        reader: ConsumerId,
    },
}
