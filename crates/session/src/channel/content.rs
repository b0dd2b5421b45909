//! What is received of a publish: method, content header, body; and of the methods with a content that only a
//! server sends, which are refused when all of it has come.
//!
//! ```text
//!   Idle ──publish──▶ AwaitHeader ──header──▶ AwaitBody ──last body frame──▶ Idle
//!     ▲                                │ size 0
//!     └────────────────────────────────┘
//! ```
//!
//! Nothing is reserved for an announced body. A body of one frame stays a slice of the chunk it came
//! in, several are put together. Between two reads nothing here is a slice of a chunk; see
//! [`Content::park`].

use bytes::Bytes;
use leveret_wire::{
    content::{ContentHeader, RawProperties},
    ids::ClassId,
    method::basic,
    value::ShortString,
};

use super::PUBLISH;
use crate::error::{ConnectionError, MethodIds, NO_METHOD};

/// The part of a content that came so far.
#[derive(Debug, Default)]
pub(crate) enum Content {
    /// A method is due.
    #[default]
    Idle,
    /// A method with a content came.
    AwaitHeader(Head),
    /// Its header came too.
    AwaitBody(Unfinished),
}

/// What `basic.publish` says, or which other method it was.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: MethodIds,
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) mandatory: bool,
    pub(crate) immediate: bool,
}

#[derive(Debug)]
pub(crate) struct Unfinished {
    head: Head,
    properties: RawProperties,
    size: u64,
    left: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// What came so far.
    Kept(Vec<u8>),
    /// Nobody wants it; only counted.
    Discarded,
}

/// A whole content.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) head: Head,
    pub(crate) properties: RawProperties,
    pub(crate) size: u64,
    /// `None` when it was larger than allowed and thrown away.
    pub(crate) body: Option<Bytes>,
}

impl Content {
    /// Whether a method may come now.
    pub(crate) fn expects_method(&self) -> Result<(), ConnectionError> {
        match self {
            Self::Idle => Ok(()),
            Self::AwaitHeader(_) => Err(ConnectionError::ExpectedHeader),
            Self::AwaitBody(_) => Err(ConnectionError::ExpectedBody),
        }
    }

    /// Begins with a publish.
    pub(crate) fn begin(&mut self, publish: basic::Publish) {
        let basic::Publish {
            exchange,
            routing_key,
            mandatory,
            immediate,
            ..
        } = publish;
        *self = Self::AwaitHeader(Head {
            method: PUBLISH,
            exchange,
            routing_key,
            mandatory,
            immediate,
        });
    }

    /// Begins with a method whose content nobody wants.
    pub(crate) fn begin_unwanted(&mut self, method: MethodIds) {
        *self = Self::AwaitHeader(Head::of(method));
    }

    /// The method whose content this is, which faults of it blame.
    pub(crate) const fn method(&self) -> MethodIds {
        match self {
            Self::Idle => NO_METHOD,
            Self::AwaitHeader(head) | Self::AwaitBody(Unfinished { head, .. }) => head.method,
        }
    }

    /// Whether a content header may come now.
    pub(crate) const fn expects_header(&self) -> Result<(), ConnectionError> {
        match self {
            Self::Idle => Err(ConnectionError::ExpectedMethod),
            Self::AwaitHeader(_) => Ok(()),
            Self::AwaitBody(_) => Err(ConnectionError::ExpectedBody),
        }
    }

    /// A header came. A body above `size_max` will be read and thrown away.
    pub(crate) fn header(
        &mut self,
        header: ContentHeader,
        size_max: u64,
    ) -> Result<Option<Finished>, ConnectionError> {
        let ContentHeader {
            class_id,
            weight,
            body_size: size,
            properties,
        } = header;
        self.expects_header()?;
        if weight != 0 {
            return Err(ConnectionError::ExpectedHeader);
        }
        if class_id != ClassId::new(basic::Basic::CLASS_ID) {
            return Err(ConnectionError::HeaderOfAnotherClass { class: class_id });
        }
        let Self::AwaitHeader(head) = std::mem::take(self) else {
            return Ok(None);
        };
        if size == 0 {
            return Ok(Some(Finished {
                head,
                properties,
                size,
                body: Some(Bytes::new()),
            }));
        }
        let body = if size > size_max {
            Body::Discarded
        } else {
            Body::Kept(Vec::new())
        };
        *self = Self::AwaitBody(Unfinished {
            head,
            properties,
            size,
            left: size,
            body,
        });
        Ok(None)
    }

    /// A body frame came; `payload` is a part of `chunk`.
    pub(crate) fn body(
        &mut self,
        chunk: &Bytes,
        payload: &[u8],
    ) -> Result<Option<Finished>, ConnectionError> {
        let unfinished = match self {
            Self::Idle => return Err(ConnectionError::ExpectedMethod),
            Self::AwaitHeader(_) => return Err(ConnectionError::ExpectedHeader),
            Self::AwaitBody(unfinished) => unfinished,
        };
        let len = payload.len() as u64;
        let left = unfinished
            .left
            .checked_sub(len)
            .ok_or(ConnectionError::BodyTooLong)?;
        if left > 0 {
            unfinished.add(payload);
            return Ok(None);
        }
        let is_whole = len == unfinished.size;
        if !is_whole {
            unfinished.add(payload);
        }
        let Self::AwaitBody(unfinished) = std::mem::take(self) else {
            return Ok(None);
        };
        let Unfinished {
            head,
            properties,
            size,
            body,
            ..
        } = unfinished;
        let body = match body {
            Body::Discarded => None,
            Body::Kept(_) if is_whole => Some(chunk.slice_ref(payload)),
            Body::Kept(bytes) => Some(Bytes::from(bytes)),
        };
        Ok(Some(Finished {
            head,
            properties,
            size,
            body,
        }))
    }

    /// Bytes this keeps in memory until the rest has come.
    pub(crate) fn held_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Idle => 0,
            Self::AwaitHeader(head) => head.len(),
            Self::AwaitBody(Unfinished {
                head,
                properties,
                body,
                ..
            }) => {
                let body_len = match body {
                    Body::Kept(bytes) => bytes.len(),
                    Body::Discarded => 0,
                };
                head.len() + properties.as_bytes().len() + body_len
            }
        };
        bytes as u64
    }

    /// Nobody wants this content; the rest of it is only counted.
    pub(crate) fn discard(&mut self) {
        match self {
            Self::Idle => {}
            Self::AwaitHeader(head) => *head = Head::of(head.method),
            Self::AwaitBody(unfinished) => {
                unfinished.head = Head::of(unfinished.head.method);
                unfinished.properties = RawProperties::EMPTY;
                unfinished.body = Body::Discarded;
            }
        }
    }

    /// Copies what is still a slice of a chunk, so that no read buffer waits for the rest to come.
    pub(crate) fn park(&mut self) {
        match self {
            Self::Idle => {}
            Self::AwaitHeader(head) => head.detach(),
            Self::AwaitBody(unfinished) => {
                unfinished.head.detach();
                unfinished.properties = unfinished.properties.detach();
            }
        }
    }
}

impl Head {
    const fn of(method: MethodIds) -> Self {
        Self {
            method,
            exchange: ShortString::empty(),
            routing_key: ShortString::empty(),
            mandatory: false,
            immediate: false,
        }
    }

    const fn len(&self) -> usize {
        self.exchange.len() + self.routing_key.len()
    }

    fn detach(&mut self) {
        self.exchange = self.exchange.detach();
        self.routing_key = self.routing_key.detach();
    }
}

impl Unfinished {
    fn add(&mut self, payload: &[u8]) {
        self.left -= payload.len() as u64;
        let Body::Kept(bytes) = &mut self.body else {
            return;
        };
        if bytes.capacity() - bytes.len() < payload.len() {
            // Doubled, but never beyond what was announced: the last step fits exactly.
            let size = usize::try_from(self.size).unwrap_or(usize::MAX);
            let wanted = (bytes.len() * 2).max(bytes.len() + payload.len()).min(size);
            bytes.reserve_exact(wanted - bytes.len());
        }
        bytes.extend_from_slice(payload);
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use leveret_wire::{
        BasicProperties,
        content::ContentHeader,
        frame::{self, Frame},
        ids::ChannelId,
        method::{Method, basic},
        value::ShortString,
    };

    use super::Content;

    /// Publish, header and two halves of a body in one chunk.
    fn chunk() -> Bytes {
        let (mut out, channel) = (BytesMut::new(), ChannelId::new(1));
        let publish = basic::Publish {
            exchange: ShortString::from_static("exchange"),
            routing_key: ShortString::from_static("key"),
            ..basic::Publish::default()
        };
        let properties = BasicProperties {
            message_id: Some(ShortString::from_static("id")),
            ..BasicProperties::default()
        };
        frame::put_method(&mut out, channel, &publish.into());
        frame::put_content_header(&mut out, channel, 8, properties.encode().as_bytes());
        frame::put_body_frames(&mut out, channel, b"12345678", 4 + frame::FRAME_OVERHEAD);
        out.freeze()
    }

    fn next<'a>(chunk: &'a Bytes, at: &mut usize) -> Frame<'a> {
        frame::next_frame(chunk, at, usize::MAX >> 1)
            .expect("a good frame")
            .expect("one more")
    }

    fn receive(content: &mut Content, chunk: &Bytes, frames: usize) {
        let mut at = 0;
        if let Method::Basic(basic::Basic::Publish(publish)) =
            Method::decode(chunk, next(chunk, &mut at).payload).expect("a good method")
        {
            content.begin(publish);
        }
        for frame in 1..frames {
            let payload = next(chunk, &mut at).payload;
            if frame == 1 {
                let header = ContentHeader::decode(chunk, payload).expect("a good header");
                assert!(content.header(header, 100).expect("in order").is_none());
            } else {
                assert!(content.body(chunk, payload).expect("in order").is_none());
            }
        }
    }

    #[test]
    fn a_parked_content_keeps_no_chunk_alive_and_the_same_bytes() {
        for frames in 1..=3 {
            let (chunk, mut content) = (chunk(), Content::default());
            receive(&mut content, &chunk, frames);
            assert!(!chunk.is_unique());
            let held = content.held_bytes();
            content.park();
            assert!(chunk.is_unique(), "after {frames} frames");
            assert_eq!(content.held_bytes(), held);
        }
    }

    #[test]
    fn a_discarded_content_holds_nothing_and_still_counts_to_its_end() {
        let (chunk, mut content) = (chunk(), Content::default());
        receive(&mut content, &chunk, 3);
        content.discard();
        assert!(chunk.is_unique());
        assert_eq!(content.held_bytes(), 2, "the empty word of flags");
        let rest = Bytes::from_static(b"5678");
        let finished = content
            .body(&rest, &rest)
            .expect("in order")
            .expect("the end");
        assert_eq!((finished.size, finished.body), (8, None));
    }

    #[test]
    fn a_growing_body_never_reserves_more_than_was_announced_or_twice_what_came() {
        let mut content = Content::default();
        content.begin(basic::Publish::default());
        let size = 100_000;
        let header = ContentHeader {
            class_id: 60.into(),
            weight: 0,
            body_size: size,
            properties: super::RawProperties::EMPTY,
        };
        content.header(header, size).expect("in order");
        let part = Bytes::from(vec![1; 700]);
        let mut came = 0;
        while came + 700 < size {
            assert!(content.body(&part, &part).expect("in order").is_none());
            came += 700;
            let Content::AwaitBody(super::Unfinished {
                body: super::Body::Kept(bytes),
                ..
            }) = &content
            else {
                panic!("a body is due");
            };
            assert!(bytes.capacity() as u64 <= size.min(2 * came));
        }
    }
}
