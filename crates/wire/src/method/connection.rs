//! Class connection: login, limits and closing, all on channel 0.

use crate::ids::{ClassId, MethodId};
use crate::value::{FieldTable, LongString, ShortString};

amqp_class! {
    /// The connection itself: login, limits, closing.
    Connection = 10 {
        /// The broker opens the conversation and says what it is.
        Start = 10, "connection.start" {
            version_major: u8,
            version_minor: u8,
            server_properties: FieldTable,
            /// Names separated by spaces.
            mechanisms: LongString,
            /// Names separated by spaces.
            locales: LongString,
        }
        /// The client says what it is and logs in.
        StartOk = 11, "connection.start-ok" {
            client_properties: FieldTable,
            mechanism: ShortString,
            /// What the mechanism asks for, such as user and password.
            response: LongString,
            locale: ShortString,
        }
        /// The broker asks for more, if the mechanism has more to ask.
        Secure = 20, "connection.secure" { challenge: LongString }
        /// The client answers the challenge.
        SecureOk = 21, "connection.secure-ok" { response: LongString }
        /// The broker offers limits.
        Tune = 30, "connection.tune" {
            channel_max: u16,
            /// In octets, the eight of the envelope included.
            frame_max: u32,
            /// In seconds; 0 means no heartbeats.
            heartbeat: u16,
        }
        /// The client settles the limits, none of them above the offer.
        TuneOk = 31, "connection.tune-ok" {
            channel_max: u16,
            /// In octets, the eight of the envelope included.
            frame_max: u32,
            /// In seconds; 0 means no heartbeats.
            heartbeat: u16,
        }
        /// The client chooses a vhost.
        Open = 40, "connection.open" {
            virtual_host: ShortString,
            /// A leftover of older versions.
            capabilities: ShortString,
            /// A leftover of older versions.
            insist: bool,
        }
        /// The connection is usable.
        OpenOk = 41, "connection.open-ok" {
            /// A leftover of older versions.
            known_hosts: ShortString,
        }
        /// Either side ends the connection.
        Close = 50, "connection.close" {
            /// Any number may come from a client; see [`crate::ReplyCode`].
            reply_code: u16,
            reply_text: ShortString,
            /// The class of the method that failed, or 0.
            class_id: ClassId,
            /// The method that failed, or 0.
            method_id: MethodId,
        }
        /// The other side agrees, and the socket may be closed.
        CloseOk = 51, "connection.close-ok" {}
        /// The broker has stopped reading because it lacks a resource.
        Blocked = 60, "connection.blocked" { reason: ShortString }
        /// The broker reads again.
        Unblocked = 61, "connection.unblocked" {}
        /// The client replaces its password or token before it runs out.
        UpdateSecret = 70, "connection.update-secret" {
            new_secret: LongString,
            reason: ShortString,
        }
        /// The new secret is good.
        UpdateSecretOk = 71, "connection.update-secret-ok" {}
    }
}
