//! From the protocol header to `connection.open`.
//!
//! What goes wrong before `tune-ok` ends in silence, as on RabbitMQ: the client sees a refused login.
//! Behind it the connection is closed with a text.

use bytes::Bytes;
use leveret_wire::{
    frame::{Frame, FrameKind},
    method::{Method, connection},
    protocol_header::{self, Greeting, PROTOCOL_HEADER},
    value::{FieldTable, FieldValue, LongString, ShortString},
};

use super::{Connection, Introduction, Peer, Phase, Step, Tuned, Waiting, login};
use crate::{
    call::{Call, Login, Password},
    error::{ConnectionError, MethodIds, NO_METHOD},
    heartbeat::Heartbeat,
    input::Input,
    outgoing::Capabilities,
    settings::{self, Mechanism, Settings},
    time::Millis,
};

impl Connection {
    /// The first eight bytes.
    pub(super) fn greet(&mut self, input: &mut Input) -> Option<Step> {
        let Some(header) = input.take_protocol_header() else {
            return Some(Step::NeedInput);
        };
        match protocol_header::check(&header) {
            Greeting::Accepted => {
                self.put(&start(&self.settings));
                self.phase = Phase::Start;
            }
            Greeting::Refused => {
                self.replies.extend_from_slice(&PROTOCOL_HEADER);
                self.finish();
            }
        }
        None
    }

    /// One frame before the connection is open.
    pub(super) fn handshake(&mut self, now: Millis, input: &mut Input) -> Option<Step> {
        let payload_max = if let Phase::Open(_, tuned) = &self.phase {
            tuned.frame_max as usize
        } else {
            self.settings.initial_frame_max as usize
        };
        match input.next_frame(payload_max, payload_max.max(self.payload_max as usize)) {
            Ok(Some((chunk, frame, _))) => self.handshake_frame(now, chunk, frame),
            Ok(None) => Some(Step::NeedInput),
            Err(error) => {
                let error = ConnectionError::Frame(error);
                if matches!(self.phase, Phase::Open(..)) && error.is_deafening() {
                    self.close_deaf(now, &error);
                } else {
                    self.refuse(now, &error, NO_METHOD);
                }
                None
            }
        }
    }

    fn handshake_frame(&mut self, now: Millis, chunk: &Bytes, frame: Frame<'_>) -> Option<Step> {
        let is_channel_0 = frame.channel.is_connection();
        let method = match frame.kind {
            FrameKind::Heartbeat if is_channel_0 => return None,
            FrameKind::Method if is_channel_0 => Method::decode(chunk, frame.payload),
            FrameKind::Method | FrameKind::Header | FrameKind::Body | FrameKind::Heartbeat => {
                let description = frame.unexpected_text();
                self.refuse(
                    now,
                    &ConnectionError::UnexpectedFrame { description },
                    NO_METHOD,
                );
                return None;
            }
        };
        match method {
            Ok(method) => self.handshake_method(now, method),
            Err(error) => {
                let blamed = error.ids();
                self.refuse(now, &ConnectionError::Method(error), blamed);
                None
            }
        }
    }

    fn handshake_method(&mut self, now: Millis, method: Method) -> Option<Step> {
        let blamed = method.ids();
        match (&self.phase, method) {
            (Phase::Start, Method::Connection(connection::Connection::StartOk(start_ok))) => {
                self.start_ok(now, start_ok)
            }
            (Phase::Secure(_), Method::Connection(connection::Connection::SecureOk(secure_ok))) => {
                self.secure_ok(now, &secure_ok)
            }
            (Phase::Tune(_), Method::Connection(connection::Connection::TuneOk(tune_ok))) => {
                self.tune_ok(now, &tune_ok, blamed);
                None
            }
            (Phase::Open(peer, _), Method::Connection(connection::Connection::Open(open))) => {
                let vhost = open.virtual_host.detach();
                let call = Call::OpenVhost {
                    vhost,
                    user: peer.user.clone(),
                };
                self.waiting = Some(Waiting::OpenVhost { blamed });
                Some(Step::Call(call))
            }
            _ => {
                let error = ConnectionError::UnexpectedMethod { state: "opening" };
                self.refuse(now, &error, blamed);
                None
            }
        }
    }

    fn start_ok(&mut self, now: Millis, start_ok: connection::StartOk) -> Option<Step> {
        let connection::StartOk {
            client_properties,
            mechanism,
            response,
            ..
        } = start_ok;
        let capabilities = login::capabilities(&client_properties);
        let Some(mechanism) = login::offered(&self.settings.mechanisms, mechanism.as_bytes())
        else {
            self.drop_silently(now);
            return None;
        };
        let credentials = match mechanism {
            Mechanism::Plain => login::plain(response.as_bytes()),
            Mechanism::AmqPlain => login::amqplain(response.as_bytes()),
            Mechanism::Anonymous => Some(login::Credentials {
                user: self.settings.anonymous_user.as_bytes(),
                password: &[],
            }),
            Mechanism::External => {
                // Nobody has the empty name, and it is refused like any other unknown one.
                let user = self.certified.as_deref().unwrap_or_default();
                Some(login::Credentials {
                    user,
                    password: &[],
                })
            }
            Mechanism::CrDemo => {
                let challenge = LongString::from_static(login::CR_DEMO_CHALLENGE);
                self.put(&connection::Secure { challenge }.into());
                self.phase = Phase::Secure(Box::new(Introduction {
                    user: Bytes::copy_from_slice(response.as_bytes()),
                    mechanism,
                    capabilities,
                    client_properties: client_properties.detach(),
                }));
                return None;
            }
        };
        let Some(credentials) = credentials else {
            self.drop_silently(now);
            return None;
        };
        let password = Bytes::copy_from_slice(credentials.password);
        let introduction = Introduction {
            user: Bytes::copy_from_slice(credentials.user),
            mechanism,
            capabilities,
            client_properties: client_properties.detach(),
        };
        self.ask_for_login(now, introduction, password)
    }

    /// The second round of a login.
    fn secure_ok(&mut self, now: Millis, secure_ok: &connection::SecureOk) -> Option<Step> {
        // Whatever comes of it, another answer is not waited for.
        let Phase::Secure(introduction) = std::mem::replace(&mut self.phase, Phase::Start) else {
            return None;
        };
        let Some(password) = login::cr_demo(secure_ok.response.as_bytes()) else {
            self.drop_silently(now);
            return None;
        };
        let password = Bytes::copy_from_slice(password);
        self.ask_for_login(now, *introduction, password)
    }

    fn ask_for_login(
        &mut self,
        now: Millis,
        introduction: Introduction,
        password: Bytes,
    ) -> Option<Step> {
        let Introduction {
            user,
            mechanism,
            capabilities,
            client_properties,
        } = introduction;
        let Ok(user) = ShortString::try_from(&user[..]) else {
            // Nobody has a name of that length.
            self.login_refused(now, mechanism, capabilities);
            return None;
        };
        let login = Login {
            mechanism,
            user,
            password: Password::new(password),
            client_properties,
        };
        self.waiting = Some(Waiting::Login {
            mechanism,
            capabilities,
        });
        Some(Step::Call(Call::Login(login)))
    }

    /// The credentials are good.
    pub(super) fn logged_in(&mut self, user: ShortString, is_impersonator: bool) {
        let tune = connection::Tune {
            channel_max: self.settings.channel_max,
            frame_max: self.settings.frame_max,
            heartbeat: self.settings.heartbeat_secs,
        };
        self.put(&tune.into());
        self.phase = Phase::Tune(Peer {
            user,
            is_impersonator,
        });
    }

    /// The credentials are not good. Only a client that can take it is told.
    pub(super) fn login_refused(
        &mut self,
        now: Millis,
        mechanism: Mechanism,
        capabilities: Capabilities,
    ) {
        if capabilities.authentication_failure_close {
            let error = ConnectionError::LoginRefused {
                mechanism: mechanism.name(),
            };
            self.close_with(now.plus(settings::SILENT_DROP_MILLIS), &error, NO_METHOD);
        } else {
            self.drop_silently(now);
        }
    }

    fn tune_ok(&mut self, now: Millis, tune_ok: &connection::TuneOk, blamed: MethodIds) {
        let connection::TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        } = *tune_ok;
        let Phase::Tune(peer) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return;
        };
        self.heartbeat = Heartbeat::start(now, heartbeat);
        self.heartbeat_secs = heartbeat;
        self.phase = Phase::Open(
            peer,
            Tuned {
                channel_max,
                frame_max,
            },
        );
        if let Err(error) = check_tuning(&self.settings, tune_ok) {
            self.refuse(now, &error, blamed);
        }
    }

    /// Ends the handshake: with a close, or in silence before there was a `tune-ok`.
    fn refuse(&mut self, now: Millis, error: &ConnectionError, blamed: MethodIds) {
        if matches!(self.phase, Phase::Open(..)) {
            self.close_with(now.plus(self.close_timeout_millis()), error, blamed);
        } else {
            self.drop_silently(now);
        }
    }
}

fn check_tuning(settings: &Settings, tune_ok: &connection::TuneOk) -> Result<(), ConnectionError> {
    let frame_max_lowest = settings::FRAME_MAX_LOWEST.min(settings.frame_max);
    check_limit(
        "frame_max",
        tune_ok.frame_max,
        frame_max_lowest,
        settings.frame_max,
    )?;
    check_limit(
        "channel_max",
        tune_ok.channel_max.into(),
        1,
        settings.channel_max.into(),
    )
}

fn check_limit(
    field: &'static str,
    value: u32,
    lowest: u32,
    highest: u32,
) -> Result<(), ConnectionError> {
    let remark = if value == 0 { " (no limit)" } else { "" };
    let is_without_limit = highest == 0;
    let (comparison, bound, limit) = if !is_without_limit && (value == 0 || value > highest) {
        ("higher", "maximum", highest)
    } else if value != 0 && value < lowest {
        ("lower", "minimum", lowest)
    } else {
        return Ok(());
    };
    Err(ConnectionError::Tuning {
        field,
        value,
        remark,
        comparison,
        bound,
        limit,
    })
}

/// What the server says of itself.
fn start(settings: &Settings) -> Method {
    let capabilities = [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ];
    let capabilities: FieldTable = capabilities
        .into_iter()
        .map(|name| (ShortString::from_static(name), FieldValue::Bool(true)))
        .collect();
    let mechanisms: Vec<&str> = settings
        .mechanisms
        .iter()
        .map(|mechanism| mechanism.name())
        .collect();
    let text = |text: &String| FieldValue::text(text.as_str());
    connection::Start {
        version_major: 0,
        version_minor: 9,
        // Sorted by key.
        server_properties: FieldTable::new()
            .with("capabilities", FieldValue::Table(capabilities))
            .with("cluster_name", text(&settings.cluster_name))
            .with("copyright", text(&settings.copyright))
            .with("information", text(&settings.information))
            .with("platform", text(&settings.platform))
            .with("product", text(&settings.product))
            .with("version", text(&settings.version)),
        mechanisms: LongString::from(mechanisms.join(" ")),
        locales: LongString::from_static("en_US"),
    }
    .into()
}
