//! From what the operator set to what all connections are told and held to.

use leveret_session::Mechanism;

use crate::config::{AuthMechanism, Bytes, Settings};

/// How clients may log in.
pub(crate) fn mechanisms(settings: &Settings) -> impl Iterator<Item = Mechanism> {
    let nobody = settings.connections.anonymous_login_user == "none";
    let mechanisms = settings.connections.auth_mechanisms.iter();
    mechanisms.filter_map(move |mechanism| match mechanism {
        AuthMechanism::Plain => Some(Mechanism::Plain),
        AuthMechanism::Amqplain => Some(Mechanism::AmqPlain),
        AuthMechanism::External => Some(Mechanism::External),
        AuthMechanism::CrDemo => Some(Mechanism::CrDemo),
        AuthMechanism::Anonymous => (!nobody).then_some(Mechanism::Anonymous),
    })
}

/// The length of a frame, which its range keeps within 31 bits.
fn frame_bytes(Bytes(bytes): Bytes) -> u32 {
    bytes.try_into().expect("its range was checked")
}

/// The settings of all connections.
pub(crate) fn of(settings: &Settings) -> leveret_session::Settings {
    let defaults = leveret_session::Settings::default();
    let message_size_max = settings.connections.max_message_size.0;
    leveret_session::Settings {
        product: settings.connections.compat_product.clone(),
        version: settings.connections.compat_version.clone(),
        cluster_name: settings
            .node
            .cluster_name
            .clone()
            .unwrap_or_else(|| leveret_ctl::node_name(settings.node.node_name.as_deref())),
        has_own_prefetch_only: settings.connections.compat_strict
            || !settings.connections.permit_global_qos,
        mechanisms: mechanisms(settings).collect(),
        anonymous_user: settings
            .connections
            .anonymous_login_user
            .as_str()
            .try_into()
            .expect("its length was checked"),
        frame_max: frame_bytes(settings.connections.frame_max),
        initial_frame_max: frame_bytes(settings.connections.initial_frame_max),
        channel_max: settings.connections.channel_max,
        heartbeat_secs: settings.connections.heartbeat.0,
        handshake_timeout_millis: settings.connections.handshake_timeout.0,
        message_size_max,
        unfinished_content_max: defaults.unfinished_content_max.max(message_size_max),
        transaction_max: defaults.transaction_max.max(message_size_max),
        ..defaults
    }
}
