//! Carries out what a session cannot answer by itself.

mod ending;
mod states;

use std::{collections::BTreeMap, sync::Arc};

use leveret_core::{
    arguments::QueueType,
    ids::{ChannelKey, ConnectionId, ConsumerId, HandedOut, QueueId},
    queue::{Command, ConsumerSettings},
    record::{BindingRecord, Destination},
    refusal::{ObjectKind, Refusal},
    rights::{Right, Rights},
    vhost,
};
use leveret_runtime::{
    Actor, Broker, ChannelRefused, ConnectionFacts, ConsumerFacts, Endpoint, LoginFacts, LoginOver,
    LoginRefused, OpenRefused, QueueHandle, ReplyAddress, SecretRefused, TlsFacts, Tuned, User,
    VhostHandle,
};
use leveret_session::{
    Answer, Call, ConnectionStatus, Consume, ExchangeBind, ExchangeDeclare, ExchangeUnbind, Get,
    Login, Mechanism, OpenRefusal, QueueBind, QueueDeclare, QueueUnbind, SharePrefetch,
};
use leveret_wire::value::{EncodedTable, FieldTable, ShortString};
use tracing::{debug, error, info, warn};

use crate::{outbox::ConnectionOutbox, stage::Stage, token_end::TokenEnd};

/// What a connection's calls are carried out with.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) id: ConnectionId,
    pub(crate) peer: Endpoint,
    pub(crate) broker: Arc<Broker>,
    pub(crate) outbox: Arc<ConnectionOutbox>,
    vhost: Option<Arc<VhostHandle>>,
    /// Since the vhost was opened.
    facts: Option<Arc<ConnectionFacts>>,
    local: Endpoint,
    /// Until the vhost is opened.
    tls: Option<Box<TlsFacts>>,
    /// What the client said of itself, and how it logged in; until the vhost is opened.
    introduction: Option<Box<(FieldTable, &'static str)>>,
    /// Who has logged in.
    user: Option<User>,
    /// Ends the connection with their token.
    token_end: Option<TokenEnd>,
    /// Who acts, once they have logged in.
    pub(crate) actor: Actor,
    /// Tag and queue of those consumers that an event told of.
    told_consumers: BTreeMap<ConsumerId, (ShortString, ShortString)>,
    /// Arguments of those consumers that have some.
    consumer_arguments: BTreeMap<ConsumerId, FieldTable>,
    /// Of the channels that consume replies, one each.
    reply_addresses: BTreeMap<ChannelKey, ReplyAddress>,
    /// The queue of a consume or get under way. If it is given up, the session never learns what came of it.
    asked: Option<QueueId>,
}

/// What is to be done once the answer stands in the outgoing buffer.
#[derive(Debug)]
pub(crate) enum Afterwards {
    Nothing,
    /// The connection is open, and what was agreed stands.
    TellOpened,
    /// The consumer may be served: its consume-ok comes first.
    Serve(Arc<QueueHandle>, ConsumerId),
    /// Consumers of the channel that wait for room may have some: its qos-ok comes first.
    Wake(ChannelKey),
    /// The queue's delete-ok comes before the cancels of its consumers.
    TellCancelled(Vec<ConsumerId>),
}

impl Calls {
    pub(crate) fn new(
        id: ConnectionId,
        peer: Endpoint,
        local: Endpoint,
        tls: Option<Box<TlsFacts>>,
        broker: Arc<Broker>,
        outbox: Arc<ConnectionOutbox>,
    ) -> Self {
        Self {
            id,
            peer,
            broker,
            outbox,
            vhost: None,
            facts: None,
            local,
            tls,
            introduction: None,
            user: None,
            token_end: None,
            actor: Actor::default(),
            told_consumers: BTreeMap::new(),
            consumer_arguments: BTreeMap::new(),
            reply_addresses: BTreeMap::new(),
            asked: None,
        }
    }

    /// Carries out one call. Everything staged before it was submitted.
    pub(crate) async fn carry_out(
        &mut self,
        call: Call,
        stage: &mut Stage,
    ) -> (Answer, Afterwards) {
        let answer = match call {
            Call::Login(login) => self.login(login).await,
            Call::OpenVhost { vhost, user } => {
                let answer = self.open_vhost(&vhost, &user, stage);
                return (answer, Afterwards::TellOpened);
            }
            Call::OpenChannel(key) => self.open_channel(key.channel),
            Call::CatchUp => Answer::Done,
            Call::UpdateSecret { secret } => {
                return self.update_secret(secret.expose(), stage).await;
            }
            Call::Commit(_) => Answer::Committed {
                accepted: self.outbox.committed().await,
            },
            Call::CloseChannel(end) => {
                stage.forget(end.channel);
                self.release(&end);
                if let Some(facts) = &self.facts {
                    self.broker.close_channel(facts, end.channel.channel);
                }
                Answer::Done
            }
            Call::CloseConnection { channels } => {
                for end in &channels {
                    stage.forget(end.channel);
                }
                self.end(&channels);
                Answer::Done
            }
            Call::Cancel(cancel) => {
                if let Some(queue) = self.broker.queue(cancel.queue) {
                    queue.submit(&mut vec![Command::Unsubscribe {
                        consumer: cancel.consumer,
                    }]);
                }
                self.outbox.remove_consumer(cancel.consumer);
                self.consumer_arguments.remove(&cancel.consumer);
                self.tell_consumers_gone(cancel.consumer..=cancel.consumer);
                Answer::Done
            }
            Call::SharePrefetch(asked) => {
                self.share_prefetch(&asked);
                return (Answer::Done, Afterwards::Wake(asked.channel));
            }
            Call::ConsumeReplies(consumer) => {
                let outbox = self.outbox.clone();
                let address = self.open().add_reply_consumer(consumer, outbox);
                let answer = Answer::ReplyAddress(address.address().clone());
                self.reply_addresses.insert(consumer.channel, address);
                answer
            }
            Call::CancelReplies(consumer) => {
                self.reply_addresses.remove(&consumer.channel);
                Answer::Done
            }
            Call::Consume(consume) => return self.consume(consume).await,
            Call::QueueDelete(asked) => {
                let (name, unused, empty) = (&asked.queue, asked.if_unused, asked.if_empty);
                return match self.open().delete_queue(name, self.id, unused, empty).await {
                    Ok(deleted) => (
                        count(deleted.ready),
                        Afterwards::TellCancelled(deleted.cancelled),
                    ),
                    Err(refusal) => (Answer::Refused(refusal), Afterwards::Nothing),
                };
            }
            Call::QueueDeclare(asked) => self.declare_queue(asked).await,
            Call::QueuePurge(asked) => self
                .open()
                .purge_queue(&asked.queue, self.id)
                .await
                .map_or_else(Answer::Refused, count),
            Call::Get(get) => self.get(&get).await,
            Call::ExchangeDeclare(asked) => {
                done(self.open().declare_exchange(exchange_declare(asked)).await)
            }
            Call::ExchangeDelete(asked) => done(
                self.open()
                    .delete_exchange(&asked.exchange, asked.if_unused)
                    .await,
            ),
            Call::ExchangeBind(ExchangeBind {
                destination,
                source,
                routing_key,
                arguments,
            }) => {
                let to = Destination::Exchange(destination.detach());
                done(
                    self.bind(self.binding(source, to, routing_key, &arguments))
                        .await,
                )
            }
            Call::ExchangeUnbind(ExchangeUnbind {
                destination,
                source,
                routing_key,
                arguments,
            }) => {
                let to = Destination::Exchange(destination.detach());
                done(
                    self.open()
                        .unbind(&self.binding(source, to, routing_key, &arguments), self.id)
                        .await,
                )
            }
            Call::QueueBind(QueueBind {
                queue,
                exchange,
                routing_key,
                arguments,
            }) => {
                let to = Destination::Queue(queue.detach());
                done(
                    self.bind(self.binding(exchange, to, routing_key, &arguments))
                        .await,
                )
            }
            Call::QueueUnbind(QueueUnbind {
                queue,
                exchange,
                routing_key,
                arguments,
            }) => {
                let to = Destination::Queue(queue.detach());
                done(
                    self.open()
                        .unbind(
                            &self.binding(exchange, to, routing_key, &arguments),
                            self.id,
                        )
                        .await,
                )
            }
        };
        (answer, Afterwards::Nothing)
    }

    async fn login(&mut self, login: Login) -> Answer {
        let (name, peer) = (&login.user, self.peer.ip());
        let admitted = match login.mechanism {
            Mechanism::Anonymous | Mechanism::External => {
                self.broker.login_without_password(name, peer)
            }
            Mechanism::Plain | Mechanism::AmqPlain | Mechanism::CrDemo => {
                let password = login.password.expose();
                self.broker.login(name.as_bytes(), password, peer).await
            }
        };
        // Not before: whoever only looks whether the port is open is worth no line, nor who is not listened to.
        if !matches!(admitted, Err(LoginRefused::TooMany)) {
            info!("accepting AMQP connection {} -> {}", self.peer, self.local);
        }
        self.broker.note_login(LoginOver::Amqp, admitted.is_ok());
        let facts = LoginFacts {
            connection: self.id,
            user: name,
            mechanism: login.mechanism.name(),
            peer: &self.peer,
            local: &self.local,
            is_encrypted: self.tls.is_some(),
        };
        let refused = admitted.as_ref().err();
        let refused = refused.map(|reason| reason.told_of(&name.to_string()));
        self.broker.tell_login(facts, refused.as_deref());
        match admitted {
            Ok(user) => {
                self.actor.is(&user.name);
                self.token_end = TokenEnd::of(&user, &self.outbox, &self.peer);
                let introduction = (login.client_properties, login.mechanism.name());
                self.introduction = Some(Box::new(introduction));
                let impersonator = is_impersonator(&user);
                let name = user.name.clone();
                self.user = Some(user);
                Answer::LoggedIn {
                    user: name,
                    impersonator,
                }
            }
            Err(reason) => {
                let mechanism = login.mechanism.name();
                let told = reason.told_of(&login.user.to_string());
                if reason == LoginRefused::TooMany {
                    // Told once, when it began.
                    debug!("{mechanism} login refused: {told}");
                    return Answer::LoginRefused;
                }
                error!(
                    "Error on AMQP connection ({} -> {}, state: starting): {mechanism} login refused: {told}",
                    self.peer, self.local
                );
                Answer::LoginRefused
            }
        }
    }

    fn open_vhost(&mut self, name: &ShortString, user: &ShortString, stage: &mut Stage) -> Answer {
        let (client_properties, mechanism) = *self.introduction.take().unwrap_or_default();
        let known = self.user.as_ref().expect("who opens a vhost has logged in");
        let facts = Arc::new(ConnectionFacts {
            id: self.id,
            user: user.clone(),
            vhost: name.clone(),
            peer: self.peer.clone(),
            local: self.local.clone(),
            connected_at: self.broker.now(),
            client_properties: EncodedTable::from(&client_properties),
            mechanism,
            tls: self.tls.take(),
        });
        let control = self.outbox.clone();
        match self.broker.open_connection(facts.clone(), control, known) {
            Ok(vhost) => {
                let named = self.called_so(&facts);
                if let Some(given) = facts.given_name() {
                    info!(
                        "connection {} has a client-provided name: {given}",
                        facts.name()
                    );
                }
                info!(
                    "connection {named}: user '{user}' authenticated and granted access to vhost '{name}'"
                );
                self.outbox.count_for(vhost.traffic().clone());
                stage.open_vhost(vhost.clone(), facts.clone(), known);
                self.vhost = Some(vhost);
                self.facts = Some(facts);
                Answer::Done
            }
            Err(refused) => {
                error!(
                    "Error on AMQP connection ({}, user: '{user}', state: opening): access to vhost '{name}' refused: {refused}",
                    facts.name()
                );
                Answer::OpenRefused(open_refusal(refused, &facts))
            }
        }
    }

    /// The connection under the name by which its lines are found.
    fn called_so(&self, facts: &ConnectionFacts) -> String {
        let name = facts.name();
        match facts.given_name() {
            Some(given) => format!("{name} - {given}"),
            None => name,
        }
    }

    /// The connection is open.
    pub(crate) fn tell_opened(&self, status: &ConnectionStatus) {
        if let Some(facts) = &self.facts {
            let tuned = Tuned {
                channel_max: status.channel_max,
                frame_max: status.frame_max,
                heartbeat_secs: status.heartbeat_secs,
            };
            self.broker.tell_opened(facts, tuned);
        }
    }

    /// A new token replaces the one the user came with; consumers that it does not allow are cancelled.
    async fn update_secret(&mut self, secret: &[u8], stage: &mut Stage) -> (Answer, Afterwards) {
        let (Some(user), Some(facts)) = (&self.user, &self.facts) else {
            return (
                Answer::OpenRefused(OpenRefusal::NewSecret),
                Afterwards::Nothing,
            );
        };
        let (name, vhost) = (facts.name(), facts.vhost.clone());
        let refused = match self.broker.renew_secret(user, secret).await {
            Ok(user) => {
                let rights = self.broker.rights_of(&vhost, &user);
                if rights.is_member() {
                    info!("connection {name}: user '{}' updated secret", user.name);
                    let cancelled = self.forbidden_consumers(&rights);
                    if user.token.is_some() {
                        stage.set_rights(rights);
                    }
                    self.token_end = TokenEnd::of(&user, &self.outbox, &self.peer);
                    let impersonator = is_impersonator(&user);
                    self.user = Some(user);
                    return (
                        Answer::SecretUpdated { impersonator },
                        Afterwards::TellCancelled(cancelled),
                    );
                }
                OpenRefusal::NoPermission {
                    vhost,
                    user: user.name,
                }
            }
            Err(SecretRefused::Unreadable(_)) => OpenRefusal::SecretUpdate,
            Err(SecretRefused::Refused(_) | SecretRefused::OtherUser) => OpenRefusal::NewSecret,
            Err(SecretRefused::Ended(reason)) => OpenRefusal::SecretEnded {
                vhost,
                user: user.name.clone(),
                reason: reason.to_string(),
            },
        };
        error!(
            "connection {name}: new secret of user '{}' is not taken: {refused}",
            facts.user
        );
        (Answer::OpenRefused(refused), Afterwards::Nothing)
    }

    /// Takes consumers off queues that may not be read any more.
    fn forbidden_consumers(&self, rights: &Rights) -> Vec<ConsumerId> {
        let consumers = self.outbox.consumers().into_iter();
        let forbidden = consumers.filter(|(_, queue)| {
            let name = &queue.record().name;
            rights.check(Right::Read, ObjectKind::Queue, name).is_err()
        });
        forbidden
            .map(|(consumer, queue)| {
                warn!(
                    "cancelling a consumer of queue '{}': read access refused after credential update",
                    queue.record().name
                );
                queue.submit(&mut vec![Command::Unsubscribe { consumer }]);
                consumer
            })
            .collect()
    }

    fn open_channel(&self, channel: u16) -> Answer {
        let Some(facts) = &self.facts else {
            return Answer::Done;
        };
        let refusal = match self.broker.open_channel(facts, channel) {
            Ok(()) => return Answer::Done,
            Err(ChannelRefused::UserLimit(max)) => OpenRefusal::UserChannels {
                user: facts.user.clone(),
                max,
            },
            Err(ChannelRefused::NodeLimit(max)) => OpenRefusal::NodeChannels {
                node: self.broker.node().name.clone(),
                max,
            },
        };
        Answer::OpenRefused(refusal)
    }

    async fn declare_queue(&self, asked: QueueDeclare) -> Answer {
        let vhost = self.open();
        let declared = if asked.passive {
            vhost.look_at_queue(&asked.queue, self.id)
        } else {
            let QueueDeclare {
                queue,
                server_named,
                durable,
                exclusive,
                auto_delete,
                ..
            } = asked;
            let declare = vhost::QueueDeclare {
                name: queue,
                server_named,
                durable,
                exclusive,
                auto_delete,
                arguments: asked.arguments,
                refused_if_new: asked.refused_if_new.map(|refusal| *refusal),
            };
            vhost.declare_queue(declare, self.id).await
        };
        declared.map_or_else(Answer::Refused, |status| Answer::QueueDeclared {
            name: status.name,
            messages: clamped(status.ready),
            consumers: clamped(status.consumers),
        })
    }

    async fn consume(&mut self, consume: Consume) -> (Answer, Afterwards) {
        let Consume {
            consumer,
            no_ack,
            exclusive,
            prefetch,
            shared_else,
            ..
        } = consume;
        let settings = ConsumerSettings {
            prefetch,
            no_ack,
            exclusive,
            shared_else,
            ..ConsumerSettings::default()
        };
        let outbox = self.outbox.clone();
        self.asked = self.open().queue_id(&consume.queue, self.id);
        let subscribed = self
            .open()
            .subscribe(
                &consume.queue,
                consumer,
                settings,
                &consume.arguments,
                outbox,
            )
            .await;
        self.asked = None;
        match subscribed {
            Ok(queue) => {
                self.outbox.add_consumer(consumer, queue.clone());
                if self.broker.tells_events() {
                    let record = queue.record();
                    self.broker.tell_consumer(&ConsumerFacts {
                        channel: consumer.channel,
                        tag: &consume.tag,
                        queue: &record.name,
                        vhost: &record.vhost,
                        no_ack,
                        exclusive,
                        prefetch,
                        arguments: &consume.arguments,
                    });
                    let told = (consume.tag, record.name.clone());
                    self.told_consumers.insert(consumer, told);
                }
                if !consume.arguments.is_empty() {
                    self.consumer_arguments.insert(consumer, consume.arguments);
                }
                (
                    Answer::ConsumeOk {
                        queue: queue.id(),
                        takes_room: queue.queue_type() == QueueType::Classic,
                    },
                    Afterwards::Serve(queue, consumer),
                )
            }
            Err(refusal) => (Answer::Refused(refusal), Afterwards::Nothing),
        }
    }

    fn share_prefetch(&self, asked: &SharePrefetch) {
        let &SharePrefetch {
            channel, max, held, ..
        } = asked;
        // Before any queue asks for room.
        self.outbox
            .with(|outgoing| outgoing.set_room(channel, max, held));
        for queue in asked.queues.iter().filter_map(|&id| self.broker.queue(id)) {
            queue.share(channel);
        }
    }

    async fn get(&mut self, get: &Get) -> Answer {
        self.asked = self.open().queue_id(&get.queue, self.id);
        let got = self.open().get(&get.queue, get.channel, get.no_ack).await;
        self.asked = None;
        match got {
            Ok(Some((queue, got))) => Answer::Got {
                at: HandedOut {
                    queue,
                    seq: got.seq,
                    handout: got.handout,
                },
                redelivered: got.redelivered,
                message: got.message,
                remaining: clamped(got.remaining),
            },
            Ok(None) => Answer::GetEmpty,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    async fn bind(&self, binding: BindingRecord) -> Result<(), Refusal> {
        self.open().bind(binding, self.id).await
    }

    fn binding(
        &self,
        source: ShortString,
        destination: Destination,
        key: ShortString,
        arguments: &FieldTable,
    ) -> BindingRecord {
        BindingRecord {
            vhost: self.open().name().clone(),
            source: source.detach(),
            destination,
            key: key.detach(),
            arguments: arguments.detach(),
        }
    }

    fn open(&self) -> &Arc<VhostHandle> {
        self.vhost
            .as_ref()
            .expect("the session asks only in an open vhost")
    }
}

/// Whether the user may publish under another user's id.
fn is_impersonator(user: &User) -> bool {
    user.tags.iter().any(|tag| tag == "impersonator")
}

fn open_refusal(refused: OpenRefused, facts: &ConnectionFacts) -> OpenRefusal {
    let (vhost, user) = (facts.vhost.clone(), facts.user.clone());
    match refused {
        OpenRefused::NodeLimit(max) => OpenRefusal::NodeConnections { max },
        OpenRefused::NoVhost => OpenRefusal::VhostNotFound { vhost },
        OpenRefused::VhostLimit(max) => OpenRefusal::VhostConnections { vhost, user, max },
        OpenRefused::UserLimit(max) => OpenRefusal::UserConnections { user, max },
        OpenRefused::NoPermission => OpenRefusal::NoPermission { vhost, user },
    }
}

fn exchange_declare(asked: ExchangeDeclare) -> vhost::ExchangeDeclare {
    vhost::ExchangeDeclare {
        name: asked.exchange,
        kind: asked.kind,
        passive: asked.passive,
        durable: asked.durable,
        auto_delete: asked.auto_delete,
        internal: asked.internal,
        arguments: asked.arguments,
        refused_if_new: asked.refused_if_new.map(|refusal| *refusal),
    }
}

fn done(result: Result<(), Refusal>) -> Answer {
    result.map_or_else(Answer::Refused, |()| Answer::Done)
}

fn count(messages: u64) -> Answer {
    Answer::Count(clamped(messages))
}

/// The wire has 32 bits for counts.
fn clamped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
