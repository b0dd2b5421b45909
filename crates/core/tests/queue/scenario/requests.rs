//! What is asked of a queue and answered.

use leveret_core::{
    ids::ChannelKey,
    queue::{Answer, Command, RequestId},
};

use super::{QueueScenario, channel, label};

impl QueueScenario {
    /// What `basic.get` finds: its label, whether it may have been seen, and how many are left.
    #[track_caller]
    pub(crate) fn get(&mut self) -> Option<(String, bool, u64)> {
        let request = self.ask_get();
        self.take_got(request)
    }

    /// `basic.get` of a message that is gone with it.
    #[track_caller]
    pub(crate) fn get_no_ack(&mut self) -> Option<(String, bool, u64)> {
        let request = self.ask_get_on(channel(999), true);
        self.take_got(request)
    }

    /// A get that may have to wait.
    #[track_caller]
    pub(crate) fn ask_get(&mut self) -> RequestId {
        self.ask_get_on(channel(999), false)
    }

    #[track_caller]
    pub(crate) fn ask_get_on(&mut self, channel: ChannelKey, no_ack: bool) -> RequestId {
        self.announce_consumers();
        let request = self.new_request();
        self.together(vec![Command::Get {
            request,
            channel,
            no_ack,
        }]);
        request
    }

    /// The answer to [`Self::ask_get`].
    #[track_caller]
    pub(crate) fn take_got(&mut self, request: RequestId) -> Option<(String, bool, u64)> {
        match self.take_answer(request) {
            Answer::Got(got) => {
                got.map(|got| (label(&got.message), got.redelivered, got.remaining))
            }
            other => panic!("a get is answered by {other:?}: {self:#?}"),
        }
    }

    #[track_caller]
    pub(crate) fn expect_unanswered(&self, request: RequestId) {
        if let Some(answer) = self.answers.get(&request.0) {
            panic!("{request:?} should still wait, answered was {answer:?}: {self:#?}");
        }
    }

    /// Ready messages dropped.
    #[track_caller]
    pub(crate) fn purge(&mut self) -> u64 {
        let request = self.new_request();
        self.together(vec![Command::Purge { request }]);
        match self.take_answer(request) {
            Answer::Purged(ready) => ready,
            other => panic!("a purge is answered by {other:?}: {self:#?}"),
        }
    }

    /// What a delete without conditions is answered.
    #[track_caller]
    pub(crate) fn delete(&mut self) -> Answer {
        self.delete_if(false, false)
    }

    #[track_caller]
    pub(crate) fn delete_if(&mut self, if_unused: bool, if_empty: bool) -> Answer {
        let request = self.new_request();
        self.together(vec![Command::Delete {
            request,
            if_unused,
            if_empty,
        }]);
        self.take_answer(request)
    }

    pub(crate) fn new_request(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId(self.last_request)
    }

    #[track_caller]
    pub(crate) fn take_answer(&mut self, request: RequestId) -> Answer {
        let answer = self.answers.remove(&request.0);
        answer.unwrap_or_else(|| panic!("{request:?} was not answered: {self:#?}"))
    }
}
