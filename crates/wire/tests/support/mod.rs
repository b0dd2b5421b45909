//! What several tests need.

#![allow(dead_code, reason = "every test uses a part of this")]

use bytes::{Bytes, BytesMut};
use leveret_wire::{
    ChannelId, Frame, FrameKind, Method, next_frame, put_method, take_whole_frames,
};

/// Octets from hexadecimal digits; spaces stand where a reader wants them.
#[track_caller]
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<char> = digits
        .chars()
        .filter(|char| !char.is_whitespace())
        .collect();
    digits
        .chunks(2)
        .map(|pair| {
            u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hexadecimal digits")
        })
        .collect()
}

/// The opposite of [`hex`], without spaces.
pub(crate) fn unhex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The only frame in these octets.
#[track_caller]
pub(crate) fn only_frame(octets: &[u8]) -> (Bytes, FrameKind, ChannelId, Bytes) {
    let mut buf = BytesMut::from(octets);
    let chunk = take_whole_frames(&mut buf, usize::MAX);
    assert_eq!(buf.len(), 0, "octets behind the last complete frame");
    let mut at = 0;
    let Frame {
        kind,
        channel,
        payload,
    } = next_frame(&chunk, &mut at, usize::MAX)
        .expect("a good frame")
        .expect("a complete frame");
    assert_eq!(at, chunk.len(), "a second frame");
    (chunk.clone(), kind, channel, chunk.slice_ref(payload))
}

/// A method frame on channel 1, as octets.
pub(crate) fn method_frame(method: &Method) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_method(&mut out, ChannelId::new(1), method);
    out.to_vec()
}

/// The method that a payload holds.
pub(crate) fn decode(payload: &[u8]) -> Result<Method, leveret_wire::MethodError> {
    let chunk = Bytes::copy_from_slice(payload);
    Method::decode(&chunk, &chunk)
}
