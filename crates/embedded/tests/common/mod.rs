//! A client of a few methods, so that these tests need none of somebody else's.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use leveret_embedded::Embedded;
use leveret_wire::{
    ChannelId, HEADER_LEN, LongString, Method, PROTOCOL_HEADER, RawProperties, ShortString, basic,
    channel, connection, method::basic::Basic, method::connection::Connection, put_body_frames,
    put_content_header, put_method,
};

const CHANNEL: ChannelId = ChannelId::new(1);
const FRAME_MAX: u32 = 131_072;
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection with one channel.
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn connect(broker: &Embedded, (user, password): (&str, &str), vhost: &str) -> Self {
        let socket = TcpStream::connect(broker.address()).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut client = Self(socket);
        client.0.write_all(&PROTOCOL_HEADER).expect("written");
        client.method();
        let start_ok = connection::StartOk {
            mechanism: ShortString::from_static("PLAIN"),
            response: LongString::from(format!("\0{user}\0{password}")),
            locale: ShortString::from_static("en_US"),
            ..connection::StartOk::default()
        };
        client.send(ChannelId::CONNECTION, start_ok);
        client.method();
        let tune_ok = connection::TuneOk {
            channel_max: 2047,
            frame_max: FRAME_MAX,
            heartbeat: 0,
        };
        client.send(ChannelId::CONNECTION, tune_ok);
        let open = connection::Open {
            virtual_host: ShortString::cut(vhost),
            ..connection::Open::default()
        };
        client.send(ChannelId::CONNECTION, open);
        client.method();
        client.send(CHANNEL, channel::Open::default());
        client.method();
        client
    }

    pub(crate) fn guest(broker: &Embedded) -> Self {
        Self::connect(broker, ("guest", "guest"), "/")
    }

    pub(crate) fn publish(&mut self, queue: &str, body: &[u8]) {
        let publish = basic::Publish {
            routing_key: ShortString::cut(queue),
            ..basic::Publish::default()
        };
        let mut out = BytesMut::new();
        put_method(&mut out, CHANNEL, &publish.into());
        let properties = RawProperties::EMPTY;
        put_content_header(&mut out, CHANNEL, body.len() as u64, properties.as_bytes());
        put_body_frames(&mut out, CHANNEL, body, FRAME_MAX as usize);
        self.0.write_all(&out).expect("written");
    }

    /// The next message of a queue, by `basic.get`.
    pub(crate) fn get(&mut self, queue: &str) -> Option<Vec<u8>> {
        let get = basic::Get {
            queue: ShortString::cut(queue),
            no_ack: true,
            ..basic::Get::default()
        };
        self.send(CHANNEL, get);
        match self.method() {
            Method::Basic(Basic::GetOk(_)) => {
                self.frame();
                Some(self.frame().to_vec())
            }
            Method::Basic(Basic::GetEmpty(_)) => None,
            other => panic!("{other:?}"),
        }
    }

    /// The code of the close that comes next; answers it.
    pub(crate) fn closed(&mut self) -> u16 {
        match self.method() {
            Method::Connection(Connection::Close(close)) => {
                self.send(ChannelId::CONNECTION, connection::CloseOk::default());
                close.reply_code
            }
            other => panic!("{other:?}"),
        }
    }

    fn send(&mut self, channel: ChannelId, method: impl Into<Method>) {
        let mut out = BytesMut::new();
        put_method(&mut out, channel, &method.into());
        self.0.write_all(&out).expect("written");
    }

    fn method(&mut self) -> Method {
        let payload = self.frame();
        Method::decode(&payload, &payload).expect("a method")
    }

    fn frame(&mut self) -> Bytes {
        let mut header = [0; HEADER_LEN];
        self.0.read_exact(&mut header).expect("a frame");
        let [_, _, _, l3, l2, l1, l0] = header;
        let mut payload = vec![0; u32::from_be_bytes([l3, l2, l1, l0]) as usize + 1];
        self.0.read_exact(&mut payload).expect("all of the frame");
        payload.pop();
        payload.into()
    }
}
