//! What follows the answer to a call.

use leveret_core::ids::{ChannelKey, ConsumerId};
use leveret_wire::method::{Method, basic, channel, connection, queue, tx};

use super::{
    Connection, Phase, Todo, Waiting,
    running::{Running, Trouble},
};
use crate::{
    call::Answer,
    channel::Then,
    error::{self, ChannelError, ConnectionError, Fault, MethodIds, NO_METHOD},
    heartbeat::Heartbeat,
    outgoing::Outgoing,
    time::Millis,
};

impl Connection {
    /// Opens, closes and replies. Panics when the answer is none for what was asked.
    pub(super) fn answered(
        &mut self,
        now: Millis,
        waiting: Waiting,
        answer: Answer,
        outgoing: &mut Outgoing,
    ) {
        match (waiting, answer) {
            (Waiting::Login { capabilities, .. }, Answer::LoggedIn { user, impersonator }) => {
                outgoing.set_capabilities(capabilities);
                self.logged_in(user, impersonator);
            }
            (
                Waiting::Login {
                    mechanism,
                    capabilities,
                },
                Answer::LoginRefused,
            ) => {
                self.login_refused(now, mechanism, capabilities);
            }
            (Waiting::OpenVhost { .. }, Answer::Done) => self.opened(outgoing),
            (Waiting::OpenVhost { blamed }, Answer::OpenRefused(refusal)) => {
                let until = now.plus(self.close_timeout_millis());
                self.close_with(until, &ConnectionError::Open(refusal), blamed);
            }
            (Waiting::OpenChannel { channel }, Answer::Done) => {
                if let Phase::Running(running) = &mut self.phase {
                    running.add_channel(channel);
                }
                outgoing.open_channel(channel);
                self.put_on(channel, &channel::OpenOk::default().into());
            }
            (Waiting::OpenChannel { .. }, Answer::OpenRefused(refusal)) => {
                self.fail_later(ConnectionError::Open(refusal), 0, NO_METHOD);
            }
            (Waiting::UpdateSecret { .. }, Answer::SecretUpdated { impersonator }) => {
                if let Phase::Running(running) = &mut self.phase {
                    running.set_impersonator(impersonator);
                }
                self.put(&connection::UpdateSecretOk {}.into());
            }
            (Waiting::UpdateSecret { blamed }, Answer::OpenRefused(refusal)) => {
                self.fail_later(ConnectionError::Open(refusal), 0, blamed);
            }
            (
                Waiting::Method {
                    channel, blamed, ..
                },
                Answer::Refused(refusal),
            ) => {
                self.fail_later(refusal, channel.channel, blamed);
            }
            (
                Waiting::Method {
                    channel, blamed, ..
                },
                Answer::Committed { accepted: false },
            ) => {
                self.fail_later(ChannelError::PartialCommit, channel.channel, blamed);
            }
            (Waiting::Method { channel, then, .. }, answer) => {
                self.method_answered(channel, then, answer, outgoing);
            }
            (Waiting::ChannelCloseOk { channel }, Answer::Done) => {
                outgoing.close_channel(channel);
                if let Phase::Running(running) = &mut self.phase {
                    running.remove_channel(channel);
                }
                self.put_on(channel, &channel::CloseOk {}.into());
            }
            (
                Waiting::ChannelClose {
                    channel,
                    error,
                    blamed,
                },
                Answer::Done,
            ) => {
                outgoing.close_channel(channel);
                if let Phase::Running(running) = &mut self.phase {
                    running.begin_close(channel);
                }
                self.put_on(channel, &error::channel_close(&error, blamed));
            }
            (Waiting::CloseOk, Answer::Done) => {
                outgoing.close_all_channels();
                self.put(&connection::CloseOk {}.into());
                self.phase = Phase::Closed;
                self.heartbeat = Heartbeat::default();
                self.deadline = Some(now.plus(self.close_timeout_millis()));
            }
            (Waiting::Close { error, blamed }, Answer::Done) => {
                outgoing.close_all_channels();
                if error.is_deafening() {
                    self.close_deaf(now, &error);
                } else {
                    self.close_with(now.plus(self.close_timeout_millis()), &error, blamed);
                }
            }
            (waiting, answer) => panic!("{answer:?} is no answer for {waiting:?}"),
        }
    }

    /// A call of a channel's method was carried out.
    fn method_answered(
        &mut self,
        channel: ChannelKey,
        then: Then,
        answer: Answer,
        outgoing: &mut Outgoing,
    ) {
        let Phase::Running(running) = &mut self.phase else {
            return;
        };
        let Some(known) = running.channel(channel) else {
            return;
        };
        let reply: Option<Method> = match (then, answer) {
            (Then::Reply(reply), Answer::Done) => reply.map(|reply| *reply),
            (
                Then::QueueDeclared { nowait },
                Answer::QueueDeclared {
                    name,
                    messages,
                    consumers,
                },
            ) => {
                known.remember_queue(name.clone());
                let (message_count, consumer_count) = (messages, consumers);
                (!nowait).then(|| {
                    queue::DeclareOk {
                        queue: name,
                        message_count,
                        consumer_count,
                    }
                    .into()
                })
            }
            (Then::QueuePurged { nowait }, Answer::Count(message_count)) => {
                (!nowait).then(|| queue::PurgeOk { message_count }.into())
            }
            (Then::QueueDeleted { nowait }, Answer::Count(message_count)) => {
                (!nowait).then(|| queue::DeleteOk { message_count }.into())
            }
            (
                Then::Consuming {
                    number,
                    tag,
                    no_ack,
                    nowait,
                },
                Answer::ConsumeOk { queue, takes_room },
            ) => {
                known.add_consumer(number, tag.clone(), queue);
                if !nowait {
                    let consume_ok = basic::ConsumeOk {
                        consumer_tag: tag.clone(),
                    };
                    self.put_on(channel, &consume_ok.into());
                    outgoing.append(&mut self.replies);
                }
                let consumer = ConsumerId { channel, number };
                outgoing.add_consumer(consumer, tag, no_ack, takes_room);
                None
            }
            (
                Then::ConsumingReplies {
                    number,
                    tag,
                    nowait,
                },
                Answer::ReplyAddress(address),
            ) => {
                known.set_reply_consumer(number, tag.clone(), address);
                if !nowait {
                    let consumer_tag = tag.clone();
                    self.put_on(channel, &basic::ConsumeOk { consumer_tag }.into());
                    outgoing.append(&mut self.replies);
                }
                outgoing.add_consumer(ConsumerId { channel, number }, tag, true, false);
                None
            }
            (
                Then::Cancelled {
                    number,
                    tag,
                    nowait,
                },
                Answer::Done,
            ) => {
                known.remove_consumer(number);
                outgoing.remove_consumer(ConsumerId { channel, number });
                (!nowait).then(|| basic::CancelOk { consumer_tag: tag }.into())
            }
            (
                Then::Got { no_ack },
                Answer::Got {
                    at,
                    redelivered,
                    message,
                    remaining,
                },
            ) => {
                outgoing.get_ok(channel, at, redelivered, &message, remaining, no_ack);
                None
            }
            (Then::Got { .. }, Answer::GetEmpty) => {
                known.count_get_empty();
                Some(basic::GetEmpty::default().into())
            }
            (Then::Committed, Answer::Committed { .. }) => Some(tx::CommitOk {}.into()),
            (Then::Recovered { has_reply }, Answer::Done) => {
                self.todo = Some(Todo::Return(channel, known.take_unacked()));
                has_reply.then(|| basic::RecoverOk {}.into())
            }
            (then, answer) => panic!("{answer:?} is no answer for {then:?}"),
        };
        if let Some(reply) = reply {
            self.put_on(channel, &reply);
        }
    }

    fn opened(&mut self, outgoing: &mut Outgoing) {
        let Phase::Open(peer, tuned) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return;
        };
        outgoing.set_frame_max(tuned.frame_max as usize);
        self.payload_max = tuned.frame_max;
        self.put(&connection::OpenOk::default().into());
        self.phase = Phase::Running(Box::new(Running::new(self.id, &self.settings, peer, tuned)));
        self.deadline = None;
    }

    fn fail_later(&mut self, fault: impl Into<Fault>, channel: u16, blamed: MethodIds) {
        self.todo = Some(Todo::Fault(Trouble {
            fault: fault.into(),
            channel,
            blamed,
        }));
    }
}
