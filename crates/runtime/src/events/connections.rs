//! Connections, channels, consumers and logins.

use std::net::IpAddr;

use leveret_core::ids::{ChannelKey, ConnectionId};
use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use super::{number, terms, text};
use crate::{
    broker::{Broker, Services},
    connections::{CONNECTION_NAME, ConnectionFacts},
    endpoint::Endpoint,
};

/// What a connection and the broker agreed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tuned {
    /// Number of channels.
    pub channel_max: u16,
    /// Size of a frame.
    pub frame_max: u32,
    /// Heartbeat interval, 0 for none.
    pub heartbeat_secs: u16,
}

/// What is told of a consumer.
#[derive(Debug)]
pub struct ConsumerFacts<'a> {
    /// Its channel.
    pub channel: ChannelKey,
    /// Its tag.
    pub tag: &'a ShortString,
    /// Its queue.
    pub queue: &'a ShortString,
    /// The vhost of that.
    pub vhost: &'a ShortString,
    /// Messages are gone once handed out.
    pub no_ack: bool,
    /// Nobody else may consume.
    pub exclusive: bool,
    /// Unacked messages it may hold.
    pub prefetch: u16,
    /// The arguments of its `basic.consume`.
    pub arguments: &'a FieldTable,
}

/// Somebody who tries to log in.
#[derive(Debug, Clone, Copy)]
pub struct LoginFacts<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// The name they gave.
    pub user: &'a ShortString,
    /// How they prove it.
    pub mechanism: &'static str,
    /// The client's end.
    pub peer: &'a Endpoint,
    /// The broker's end.
    pub local: &'a Endpoint,
    /// Over TLS.
    pub is_encrypted: bool,
}

impl Broker {
    /// Whether somebody asked for events.
    #[must_use]
    pub fn tells_events(&self) -> bool {
        self.services().events.is_on()
    }

    /// Somebody logged in, or was refused in these words.
    pub fn tell_login(&self, login: LoginFacts<'_>, refused: Option<&str>) {
        let LoginFacts {
            connection,
            user,
            mechanism,
            peer,
            local,
            is_encrypted,
        } = login;
        let services = self.services();
        let name = || FieldValue::text(format!("{peer} -> {local}"));
        let key = match refused {
            None => "user.authentication.success",
            Some(_) => "user.authentication.failure",
        };
        services.tell_of_nobody(key, || {
            let headers = FieldTable::new()
                .with("auth_mechanism", FieldValue::text(mechanism))
                .with("connection_name", name())
                .with("connection_type", FieldValue::text("network"))
                .with("host", FieldValue::text(address(local.ip())))
                .with("name", text(user))
                .with("peer_host", FieldValue::text(address(peer.ip())))
                .with("peer_port", number(peer.port().into()))
                .with("protocol", FieldValue::text(PROTOCOL))
                .with("ssl", FieldValue::Bool(is_encrypted));
            match refused {
                None => headers,
                Some(reason) => {
                    // A string of Erlang's, which is a list of numbers.
                    let letters = reason.chars().map(|letter| number(letter.into()));
                    headers.with("error", FieldValue::Array(letters.collect()))
                }
            }
        });
        if refused.is_some() {
            services.tell_of_nobody("connection.closed", || {
                FieldTable::new()
                    .with("name", name())
                    .with("node", FieldValue::text(services.node.name.clone()))
                    .with("pid", services.pid(connection, 0))
            });
        }
    }

    /// A connection has opened its vhost.
    pub fn tell_opened(&self, facts: &ConnectionFacts, tuned: Tuned) {
        let services = self.services();
        services.tell("connection.created", || {
            let ConnectionFacts { tls, .. } = facts;
            let of_tls = tls.as_deref().cloned().unwrap_or_default();
            let peer = of_tls.peer.as_ref();
            let certificate =
                |part: Option<&String>| FieldValue::text(part.cloned().unwrap_or_default());
            services
                .of_connection(facts)
                .with("auth_mechanism", FieldValue::text(facts.mechanism))
                .with("channel_max", number(tuned.channel_max.into()))
                .with("connected_at", number(facts.connected_at.get()))
                .with("frame_max", number(tuned.frame_max.into()))
                .with("host", FieldValue::text(address(facts.local.ip())))
                .with(
                    "peer_cert_issuer",
                    certificate(peer.map(|peer| &peer.issuer)),
                )
                .with("peer_cert_serial_number", FieldValue::text(""))
                .with(
                    "peer_cert_subject",
                    certificate(peer.map(|peer| &peer.subject)),
                )
                .with(
                    "peer_cert_validity",
                    certificate(peer.map(|peer| &peer.validity)),
                )
                .with("peer_host", FieldValue::text(address(facts.peer.ip())))
                .with("peer_port", number(facts.peer.port().into()))
                .with("port", number(facts.local.port().into()))
                .with("protocol", FieldValue::text(PROTOCOL))
                .with("ssl", FieldValue::Bool(tls.is_some()))
                .with("ssl_cipher", FieldValue::text(of_tls.cipher))
                .with("ssl_hash", FieldValue::text(of_tls.hash))
                .with("ssl_key_exchange", FieldValue::text(of_tls.key_exchange))
                .with("ssl_protocol", FieldValue::text(of_tls.protocol))
                .with("timeout", number(tuned.heartbeat_secs.into()))
                .with("type", FieldValue::text("network"))
                .with("user", text(&facts.user))
                .with("vhost", text(&facts.vhost))
        });
    }

    /// A consumer came.
    pub fn tell_consumer(&self, consumer: &ConsumerFacts<'_>) {
        let services = self.services();
        services.tell("consumer.created", || {
            of_consumer(services, consumer.channel, consumer.tag, consumer.queue)
                .with("ack_required", FieldValue::Bool(!consumer.no_ack))
                .with("arguments", terms(consumer.arguments))
                .with("exclusive", FieldValue::Bool(consumer.exclusive))
                .with("prefetch_count", number(consumer.prefetch.into()))
                .with("vhost", text(consumer.vhost))
        });
    }

    /// A consumer is gone.
    pub fn tell_consumer_gone(
        &self,
        channel: ChannelKey,
        tag: &ShortString,
        queue: &ShortString,
        vhost: &ShortString,
    ) {
        let services = self.services();
        services.tell("consumer.deleted", || {
            of_consumer(services, channel, tag, queue).with("vhost", text(vhost))
        });
    }
}

impl Services {
    pub(crate) fn tell_closed(&self, facts: &ConnectionFacts) {
        self.tell_of_nobody("connection.closed", || self.of_connection(facts));
    }

    pub(crate) fn tell_channel(&self, facts: &ConnectionFacts, number_of: u16) {
        self.tell("channel.created", || {
            let name = format!("{} ({number_of})", facts.name());
            FieldTable::new()
                .with("connection", self.pid(facts.id, 0))
                .with("name", FieldValue::text(name))
                .with("number", number(number_of.into()))
                .with("pid", self.pid(facts.id, number_of))
                .with("user", text(&facts.user))
                .with("vhost", text(&facts.vhost))
        });
    }

    pub(crate) fn tell_channel_gone(&self, facts: &ConnectionFacts, number_of: u16) {
        self.tell("channel.closed", || {
            FieldTable::new()
                .with("consumer_count", number(0))
                .with("pid", self.pid(facts.id, number_of))
        });
    }

    fn of_connection(&self, facts: &ConnectionFacts) -> FieldTable {
        let client_properties = facts.client_properties.table();
        let headers = FieldTable::new()
            .with("client_properties", terms(&client_properties))
            .with("name", FieldValue::text(facts.name()))
            .with("node", FieldValue::text(self.node.name.clone()))
            .with("pid", self.pid(facts.id, 0));
        match client_properties.get(CONNECTION_NAME) {
            Some(given) => headers.with("user_provided_name", given.clone()),
            None => headers,
        }
    }
}

/// AMQP 0-9-1 in Erlang.
const PROTOCOL: &str = "{0,9,1}";

fn of_consumer(
    services: &Services,
    channel: ChannelKey,
    tag: &ShortString,
    queue: &ShortString,
) -> FieldTable {
    FieldTable::new()
        .with("channel", services.pid(channel.connection, channel.channel))
        .with("consumer_tag", text(tag))
        .with("queue", text(queue))
}

/// An address as Erlang has it.
fn address(address: IpAddr) -> String {
    let parts: Vec<String> = match address {
        IpAddr::V4(address) => address.octets().iter().map(u8::to_string).collect(),
        IpAddr::V6(address) => address.segments().iter().map(u16::to_string).collect(),
    };
    format!("{{{}}}", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_tuples() {
        let shown = |text: &str| address(text.parse().expect("an address"));
        assert_eq!(shown("127.0.0.1"), "{127,0,0,1}");
        assert_eq!(shown("::1"), "{0,0,0,0,0,0,0,1}");
    }

    #[test]
    fn tables_are_lists_of_terms_by_name() {
        let table = FieldTable::new()
            .with("x-max-length", FieldValue::Int(5))
            .with("x-a", FieldValue::text("b"));
        let expected = [
            "{<<\"x-a\">>,longstr,<<\"b\">>}",
            "{<<\"x-max-length\">>,signedint,5}",
        ];
        let expected = expected.map(FieldValue::text).to_vec();
        assert_eq!(terms(&table), FieldValue::Array(expected));
    }
}
