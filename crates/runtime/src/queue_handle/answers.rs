//! Who waits for an answer of a queue.

use std::collections::BTreeMap;

use leveret_core::queue::{Answer, RequestId};
use tokio::sync::oneshot;

/// Questions that are not answered yet. The number 0 is nobody's.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    last: u64,
}

impl Answers {
    /// Somebody asks and waits.
    pub(super) fn wait(&mut self) -> (RequestId, oneshot::Receiver<Answer>) {
        let (sender, answer) = oneshot::channel();
        self.last += 1;
        self.waiting.insert(self.last, sender);
        (RequestId(self.last), answer)
    }

    /// Tells whoever asked, if anybody still waits: they may be gone with their connection.
    pub(super) fn tell(&mut self, RequestId(request): RequestId, answer: Answer) {
        if let Some(waiter) = self.waiting.remove(&request) {
            let _ = waiter.send(answer);
        }
    }

    /// Nothing is answered any more: whoever waits is told that the queue is gone.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
    }
}
