//! What must hold for any bytes that reach `leveret-wire`.

use bytes::{BufMut, Bytes, BytesMut};
use leveret_wire::{
    BasicProperties, ChannelId, ContentHeader, FRAME_END, FRAME_OVERHEAD, FieldTable, FrameError,
    FrameKind, HEADER_LEN, Method, RawProperties, RawTable, equivalent, next_frame,
    put_content_header, put_frame_header, put_method, take_whole_frames, wanted,
};

/// A stream of frames means the same however it is cut, and what was read is what was sent.
///
/// The first octet chooses the largest payload, the second one where the stream is cut.
pub fn frame(input: &[u8]) {
    let Some((&[payload_max, cut], stream)) = input.split_first_chunk() else {
        return;
    };
    let payload_max = usize::from(payload_max) * 4;
    let (start, end) = stream.split_at(usize::from(cut).min(stream.len()));

    let whole = read_frames(&[stream], payload_max);
    let cut = read_frames(&[start, end], payload_max);
    assert_eq!(whole, cut);

    let mut written = BytesMut::new();
    for (kind, channel, payload) in &whole.frames {
        put_frame_header(&mut written, *kind, *channel, payload.len());
        written.put_slice(payload);
        written.put_u8(FRAME_END);
    }
    assert!(stream.starts_with(&written));
    if let Some(error) = whole.error {
        error.to_string();
    }
}

#[derive(Debug, PartialEq)]
struct Reading {
    frames: Vec<(FrameKind, ChannelId, Vec<u8>)>,
    error: Option<FrameError>,
}

fn read_frames(pieces: &[&[u8]], payload_max: usize) -> Reading {
    let mut buf = BytesMut::new();
    let mut reading = Reading {
        frames: Vec::new(),
        error: None,
    };
    for piece in pieces {
        buf.put_slice(piece);
        let chunk = take_whole_frames(&mut buf, payload_max);
        let mut at = 0;
        loop {
            match next_frame(&chunk, &mut at, payload_max) {
                Ok(Some(frame)) => {
                    assert!(frame.payload.len() <= payload_max);
                    let payload = frame.payload.to_vec();
                    reading.frames.push((frame.kind, frame.channel, payload));
                }
                Ok(None) => break,
                Err(error) => {
                    reading.error = Some(error);
                    return reading;
                }
            }
        }
        assert_eq!(at, chunk.len(), "a chunk holds complete frames only");
        let wanted = wanted(&buf, payload_max);
        assert!((1..=payload_max.max(HEADER_LEN) + FRAME_OVERHEAD).contains(&wanted));
    }
    reading
}

/// A method that can be read can be written, and then reads as the same method.
pub fn method(input: &[u8]) {
    let chunk = Bytes::copy_from_slice(input);
    let method = match Method::decode(&chunk, &chunk) {
        Ok(method) => method,
        Err(error) => {
            error.to_string();
            return;
        }
    };
    let mut written = BytesMut::new();
    put_method(&mut written, ChannelId::new(1), &method);
    let chunk = take_whole_frames(&mut written, usize::MAX);
    let mut at = 0;
    let frame = next_frame(&chunk, &mut at, usize::MAX)
        .expect("what was written is a frame")
        .expect("what was written is complete");
    let again = Method::decode(&chunk, frame.payload).expect("what was written can be read");
    assert_eq!(method, again);
    assert!(
        Method::definitions()
            .any(|known| known.name == method.name() && known.has_content == method.has_content())
    );
}

/// Checking and reading agree, and a table that can be read can be written.
pub fn table(input: &[u8]) {
    let payload = Bytes::copy_from_slice(input);
    let read = FieldTable::decode_all(&payload);
    assert_eq!(
        RawTable::new(&payload).check(),
        read.as_ref().map(|_| ()).map_err(|error| *error)
    );
    let Ok(table) = read else {
        return;
    };
    let mut written = BytesMut::new();
    table.encode_payload(&mut written);
    assert_eq!(
        Ok(&table),
        FieldTable::decode_all(&written.freeze()).as_ref()
    );
    assert_eq!(table, table.detach());

    let sorted = Bytes::from(table.canonical_bytes());
    let sorted = FieldTable::decode_all(&sorted).expect("the order of entries breaks nothing");
    assert_eq!(table.canonical_bytes(), sorted.canonical_bytes());
    for (key, value) in &table {
        assert!(table.get(key.as_bytes()).is_some());
        value.to_string();
        if value.as_float().is_none_or(|number| !number.is_nan()) {
            assert!(equivalent(value, value));
        }
    }
}

/// Scanning and reading agree, and properties pass through unharmed, as they came and rewritten.
pub fn properties(input: &[u8]) {
    let Ok(raw) = RawProperties::from_wire(Bytes::copy_from_slice(input)) else {
        return;
    };
    let read = BasicProperties::decode(&raw);
    let scan = raw.scan();
    assert_eq!(scan.is_ok(), read.is_ok());
    let passed = pass_on(&raw);
    assert_eq!(passed.scan(), scan);
    let Ok(properties) = read else {
        return;
    };
    let encoded = properties.encode();
    assert_eq!(pass_on(&encoded), encoded);
    assert_eq!(BasicProperties::decode(&encoded), Ok(properties));
}

fn pass_on(raw: &RawProperties) -> RawProperties {
    let mut written = BytesMut::new();
    put_content_header(&mut written, ChannelId::new(1), 0, raw.as_bytes());
    let chunk = take_whole_frames(&mut written, usize::MAX);
    let mut at = 0;
    let frame = next_frame(&chunk, &mut at, usize::MAX)
        .expect("what was written is a frame")
        .expect("what was written is complete");
    ContentHeader::decode(&chunk, frame.payload)
        .expect("what was written can be read")
        .properties
}
