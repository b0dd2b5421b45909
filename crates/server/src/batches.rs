//! Commands of one read, collected per queue.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use leveret_core::{ids::QueueId, queue::Command};
use leveret_runtime::QueueHandle;

/// Batches that are kept for the next read.
const KEPT_MAX: usize = 16;

/// Commands whose memory each of them keeps: what one burst needed is not kept for as long as the connection is open.
const KEPT_COMMANDS_MAX: usize = 512;

/// Up to so many queues looking through the list is faster than an index.
const LOOKED_THROUGH_MAX: usize = 8;

/// Queues in the order in which this read met them.
#[derive(Debug)]
pub(crate) struct Batches {
    list: Vec<Batch>,
    /// Batches from here on wait for use; they keep their capacity.
    used: usize,
    /// Where the batch of a queue is; empty while there are few.
    index: HashMap<QueueId, usize, RandomState>,
}

#[derive(Debug)]
pub(crate) struct Batch {
    queue: Arc<QueueHandle>,
    pub(crate) commands: Vec<Command>,
    /// Of settles: to which step of its stage the last one belongs.
    pub(crate) last_step: u64,
}

impl Batches {
    pub(crate) fn new() -> Self {
        Self {
            list: Vec::new(),
            used: 0,
            index: HashMap::default(),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The batch of this queue; `find` is asked for a queue that has none yet.
    pub(crate) fn of(
        &mut self,
        queue: QueueId,
        find: impl FnOnce() -> Option<Arc<QueueHandle>>,
    ) -> Option<&mut Batch> {
        let at = match self.position(queue) {
            Some(at) => at,
            None => self.add(find()?),
        };
        Some(&mut self.list[at])
    }

    /// A read meets few queues, and mostly the same one again.
    fn position(&self, queue: QueueId) -> Option<usize> {
        let last = self.used.checked_sub(1)?;
        if self.list[last].queue.id() == queue {
            return Some(last);
        }
        if self.used > LOOKED_THROUGH_MAX {
            return self.index.get(&queue).copied();
        }
        self.list[..last]
            .iter()
            .rposition(|batch| batch.queue.id() == queue)
    }

    fn add(&mut self, queue: Arc<QueueHandle>) -> usize {
        let at = self.used;
        match self.list.get_mut(at) {
            Some(spare) => spare.queue = queue,
            None => self.list.push(Batch {
                queue,
                commands: Vec::new(),
                last_step: 0,
            }),
        }
        self.used += 1;
        if self.used > LOOKED_THROUGH_MAX {
            // All of them when it begins, then one by one.
            let unknown = if self.index.is_empty() { 0 } else { at };
            let unknown = (unknown..self.used).map(|at| (self.list[at].queue.id(), at));
            self.index.extend(unknown);
        }
        at
    }

    /// One lock round for each queue.
    pub(crate) fn submit(&mut self) {
        for batch in &mut self.list[..self.used] {
            batch.queue.submit(&mut batch.commands);
            batch.commands.shrink_to(KEPT_COMMANDS_MAX);
        }
        self.used = 0;
        self.index.clear();
        // A spare keeps its last queue alive: few may stay, and an index of many.
        self.list.truncate(KEPT_MAX);
        self.index.shrink_to(KEPT_MAX);
    }
}
