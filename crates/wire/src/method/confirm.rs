//! Class confirm: RabbitMQ's publisher confirms.

amqp_class! {
    /// Publisher confirms.
    Confirm = 85 {
        /// From now on the broker acknowledges what is published on this channel.
        Select = 10, "confirm.select" { nowait: bool }
        /// The channel is in confirm mode.
        SelectOk = 11, "confirm.select-ok" {}
    }
}
