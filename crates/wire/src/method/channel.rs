//! Class channel: opening and closing channels.

use crate::ids::{ClassId, MethodId};
use crate::value::{LongString, ShortString};

amqp_class! {
    /// Opening and closing channels.
    Channel = 20 {
        /// A client opens the channel that the frame names.
        Open = 10, "channel.open" {
            /// A leftover of older versions.
            out_of_band: ShortString,
        }
        /// The channel is usable.
        OpenOk = 11, "channel.open-ok" {
            /// A leftover of older versions.
            channel_id: LongString,
        }
        /// One side asks the other to stop sending content, or to go on.
        Flow = 20, "channel.flow" { active: bool }
        /// The other side says which of both it does now.
        FlowOk = 21, "channel.flow-ok" { active: bool }
        /// Either side ends the channel.
        Close = 40, "channel.close" {
            /// Any number may come from a client; see [`crate::ReplyCode`].
            reply_code: u16,
            reply_text: ShortString,
            /// The class of the method that failed, or 0.
            class_id: ClassId,
            /// The method that failed, or 0.
            method_id: MethodId,
        }
        /// The other side agrees, and the number is free again.
        CloseOk = 41, "channel.close-ok" {}
    }
}
