//! Messages go out to readers: from the tail, or from a page that was read for one of them.

use super::{
    Ask, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGE_ROWS_MAX, PAGES_BYTES_MAX, SEGMENT_STARTS, Stream,
    Told,
    readers::{Paged, Readers},
};
use crate::{
    ids::{ConsumerId, Handout, Seq},
    queue::{Delivery, Effects, HAND_OUT_BYTES_MAX, Refilled},
};

/// Bytes for one reader before it is the next one's turn.
const TURN_BYTES_MAX: usize = 64 * 1024;

impl Stream {
    /// Hands committed messages to readers with credit, each in order, up to [`HAND_OUT_BYTES_MAX`]
    /// bytes in all.
    ///
    /// `true` when there is more to hand out at once; the caller looks at its readers' buffers in
    /// between.
    pub fn hand_out(&mut self, effects: &mut Effects) -> bool {
        let mut bytes_left = HAND_OUT_BYTES_MAX;
        while self.readers.is_anyone_in_line() {
            if bytes_left == 0 {
                return true;
            }
            if let Some(reader) = self.readers.next_in_line() {
                self.serve(reader, &mut bytes_left, effects);
            }
        }
        self.ask_for_wishes(effects);
        false
    }

    fn serve(&mut self, id: ConsumerId, bytes_left: &mut usize, effects: &mut Effects) {
        let mut turn = TURN_BYTES_MAX.min(*bytes_left);
        let turn_bytes = turn;
        loop {
            let Some(reader) = self.readers.get_mut(id) else {
                return;
            };
            let mut at = match reader.at {
                Ok(at) => at,
                Err(since) => {
                    if since.until <= self.committed {
                        self.readers.wish(id);
                    }
                    break;
                }
            };
            if reader.page.is_empty() {
                // Retention may have taken what it was to get next.
                at = at.max(self.state.head);
            }
            if !reader.has_credit() || at >= self.committed {
                break;
            }
            if turn == 0 {
                self.readers.line_up(id);
                break;
            }
            let (at, message) = if let Some(row) = reader.page.pop_front() {
                reader.page_bytes -= row.message.memory_bytes();
                (row.at, row.message)
            } else if let Some(message) = self.tail.get(at) {
                (at, message.clone())
            } else {
                break;
            };
            reader.at = Ok(at.next());
            turn = turn.saturating_sub(message.memory_bytes());
            if reader
                .filter
                .as_ref()
                .is_some_and(|filter| !filter.wants(&message))
            {
                continue;
            }
            let delivery = Delivery {
                consumer: id,
                // A reader's deliveries have numbers of their own, none of which comes twice.
                seq: self.readers.charge(id),
                handout: Handout::default(),
                redelivered: false,
                message,
            };
            self.counters.deliver += 1;
            effects.deliveries.push(delivery);
        }
        *bytes_left -= turn_bytes - turn;
        self.read_ahead(id);
    }

    /// What a reader will want soon and is not in memory is read before it waits for it.
    fn read_ahead(&mut self, id: ConsumerId) {
        let bytes_max = page_bytes_max(&self.readers);
        let Some(reader) = self.readers.get_mut(id) else {
            return;
        };
        let Ok(at) = reader.at else {
            return;
        };
        if reader.page.is_empty() {
            let at = at.max(self.state.head);
            reader.at = Ok(at);
            reader.page_until = at;
        }
        let is_low = reader.page.len() < PAGE_ROWS_MAX / 2 && reader.page_bytes < bytes_max / 2;
        if is_low && reader.page_until < self.committed.min(self.tail.from()) {
            self.readers.wish(id);
        }
    }

    fn ask_for_wishes(&mut self, effects: &mut Effects) {
        let bytes_max = page_bytes_max(&self.readers);
        let head = self.state.head;
        let until = self.committed;
        while let Some(id) = self.readers.next_wish() {
            let Some(reader) = self.readers.get_mut(id) else {
                continue;
            };
            let place = reader.at;
            let until = place.map_or_else(|since| since.until, |_| until);
            let (from, ask) = match place {
                Ok(at) => {
                    let from = reader.page_until.max(at).max(head);
                    let rows_max = PAGE_ROWS_MAX - reader.page.len();
                    let bytes_max = bytes_max.saturating_sub(reader.page_bytes);
                    let rows = Ask::Rows {
                        reader: id,
                        from,
                        until,
                        rows_max,
                        bytes_max,
                    };
                    (from, rows)
                }
                Err(since) => {
                    // What came after the reader is for it, whatever the time.
                    let ask = Ask::Since {
                        reader: id,
                        from: head,
                        until: since.until,
                        at: since.at,
                    };
                    (head, ask)
                }
            };
            self.readers.asked(id, from, until);
            effects.asks.push(ask);
        }
    }

    pub(super) fn told(&mut self, told: Told, effects: &mut Effects) {
        match told {
            Told::Stored { until } => {
                if until > self.committed {
                    self.readers.line_up_all_from(self.committed);
                    self.committed = until.min(self.state.next);
                }
            }
            Told::Rows { reader, rows } => {
                self.counters.disk_reads += rows.rows.len() as u64;
                if let Some((from, until)) = self.readers.answered(reader) {
                    self.rows_read(reader, rows, from, until, effects);
                }
            }
            Told::Since { reader: id, found } => {
                if let Some((_, until)) = self.readers.answered(id)
                    && let Some(reader) = self.readers.get_mut(id)
                {
                    reader.failures = 0;
                    reader.at = Ok(found.unwrap_or(until));
                    self.readers.line_up(id);
                    self.read_ahead(id);
                }
            }
            Told::Segments(rows) => self.segments_read(&rows, effects),
            Told::Unreadable {
                reader: id,
                is_damage,
            } => {
                self.readers.answered(id);
                if let Some(reader) = self.readers.get_mut(id) {
                    reader.is_stuck = true;
                    reader.failures = reader.failures.saturating_add(1);
                    if !is_damage {
                        effects.asks.push(Ask::Pause {
                            reader: id,
                            failures: reader.failures,
                        });
                    }
                }
            }
            Told::Paused { reader: id } => {
                if let Some(reader) = self.readers.get_mut(id) {
                    reader.is_stuck = false;
                    self.readers.wish(id);
                }
            }
        }
    }

    fn rows_read(
        &mut self,
        id: ConsumerId,
        rows: Refilled,
        from: Seq,
        until: Seq,
        effects: &mut Effects,
    ) {
        let head = self.state.head;
        let Some(reader) = self.readers.get_mut(id) else {
            return;
        };
        reader.failures = 0;
        let mut expected = from.max(head);
        for row in rows.rows {
            if row.seq < expected {
                // Retention took it while it was read.
                continue;
            }
            effects.missing += row.seq.get() - expected.get();
            expected = row.seq.next();
            reader.page_bytes += row.message.memory_bytes();
            reader.page.push_back(Paged {
                at: row.seq,
                message: row.message,
            });
        }
        let seen_until = rows.next.unwrap_or(until).max(expected);
        effects.missing += seen_until.get() - expected.get();
        reader.page_until = seen_until;
        if reader.page.is_empty() {
            // Without this it would ask for what is not there for ever.
            reader.at = reader.at.map(|at| at.max(seen_until));
        }
        self.readers.line_up(id);
        self.read_ahead(id);
    }

    /// Asks where segments begin, once after a start.
    pub(super) fn ask_segments(&mut self, effects: &mut Effects) {
        if self.segments.must_be_asked() {
            self.segments.asked();
            effects.asks.push(Ask::Segments {
                priority: SEGMENT_STARTS,
                from: self.state.head,
                until: self.state.next,
            });
        }
    }
}

/// What one reader may have in its page, when all readers have one.
fn page_bytes_max(readers: &Readers) -> usize {
    (PAGES_BYTES_MAX / readers.len().max(1)).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX)
}
