//! The store of a queue that is played: it commits and reads late, stops and starts again.

use leveret_core::{
    ids::Timestamp,
    queue::{Command, Effects, Found, Look, Queue, Refill, Refilled},
};

use super::{Batch, QUEUE, QueueScenario, Stop, Store};

impl QueueScenario {
    /// From now on nothing is committed before [`Self::commit`].
    pub(crate) fn hold_commits(&mut self) {
        self.commits_late = true;
    }

    /// Commits what waits for it.
    #[track_caller]
    pub(crate) fn commit(&mut self) {
        while let Some(batch) = self.batches.pop_front() {
            if let Err(wrong) = self.store.commit(&batch.writes) {
                panic!("{wrong}: {self:#?}");
            }
            let numbers = batch.promises.iter().map(|confirm| confirm.number);
            self.confirmed.extend(numbers);
            self.refills.extend(batch.refill);
        }
    }

    /// From now on no refill is answered before [`Self::answer_refill`].
    pub(crate) fn hold_reads(&mut self) {
        self.reads_late = true;
    }

    /// What the queue waits for.
    pub(crate) fn pending_refill(&self) -> Option<Refill> {
        self.refills.front().copied()
    }

    /// Reads what the queue waits for, and gives it to the queue.
    #[track_caller]
    pub(crate) fn answer_refill(&mut self) {
        let refilled = self.read_refill();
        self.together(vec![Command::Refilled(refilled)]);
    }

    /// Reads what the queue waits for.
    #[track_caller]
    pub(crate) fn read_refill(&mut self) -> Refilled {
        let Some(refill) = self.refills.pop_front() else {
            panic!("nothing is to be read: {self:#?}");
        };
        self.store.read(&refill)
    }

    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// What somebody sees who only looks.
    pub(crate) fn look(&self, look: Look) -> Found {
        self.queue.look(look)
    }

    /// Stops and starts. Whoever was there is gone, and so is what was transient; the store commits and
    /// reads at once again.
    #[track_caller]
    pub(crate) fn restart(&mut self, stop: Stop) {
        if stop == Stop::Clean {
            self.batches.push_back(Batch {
                writes: self.queue.state_at_stop().into_iter().collect(),
                ..Batch::default()
            });
            self.commit();
        }
        let state = self.store.recover();
        self.queue = Queue::recovered(QUEUE, self.durable, state)
            .with_settings(self.settings.clone())
            .with_attempts(Timestamp::new(self.now), self.store.attempts())
            .with_unacked_bytes_max(self.unacked_bytes_max);
        self.effects = Effects::default();
        self.commits_late = false;
        self.reads_late = false;
        self.batches.clear();
        self.refills.clear();
        self.received.clear();
        self.unacked.clear();
    }

    /// Ends the run, and leaves the counters as a build would have that counted bodies only.
    #[track_caller]
    pub(crate) fn restart_after_a_build_without_properties(&mut self) {
        self.commit();
        self.store.count_bodies_only();
        self.restart(Stop::Crash);
    }

    /// Ends the run, and leaves the rows as a build would have that did not write when a message is to leave.
    #[track_caller]
    pub(crate) fn restart_after_a_build_without_times(&mut self) {
        self.commit();
        self.store.forget_times();
        self.restart(Stop::Crash);
    }

    /// Before anybody is handed anything the store knows that this will happen.
    #[track_caller]
    pub(crate) fn announce_consumers(&mut self) {
        if self.queue.has_unknown_consumers() {
            self.together(vec![Command::MarkConsumed]);
            self.commit();
        }
    }
}
