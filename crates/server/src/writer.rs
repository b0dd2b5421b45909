//! The writing half of a connection: takes what is there, writes it in one go, waits for more.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tracing::debug;

use crate::{
    outbox::{ConnectionOutbox, End},
    transport::WriteHalf,
};

/// Slices handed to one `writev`; the rest goes with the next.
const SLICES_MAX: usize = 64;

/// Writes until the connection ends or the peer is gone.
pub(crate) async fn run(mut socket: WriteHalf, outbox: Arc<ConnectionOutbox>) {
    let mut segments: Vec<Bytes> = Vec::new();
    loop {
        let end = outbox.take(&mut segments);
        if segments.is_empty() {
            if end != End::Open {
                // The reader keeps its half until the peer is done, so that the last frames arrive.
                let _ = socket.shutdown().await;
                return;
            }
            segments = Vec::new();
            poll_fn(|context| outbox.poll_rung(context)).await;
            continue;
        }
        if let Err(reason) = write_all(&mut socket, &mut segments, &outbox).await {
            debug!(%reason, "the peer does not take any more");
            return;
        }
        outbox.wrote();
    }
}

async fn write_all(
    socket: &mut WriteHalf,
    segments: &mut Vec<Bytes>,
    outbox: &ConnectionOutbox,
) -> io::Result<()> {
    let mut rest = segments.as_mut_slice();
    while let Some(first) = rest.first() {
        if first.is_empty() {
            rest = &mut rest[1..];
            continue;
        }
        let mut written = poll_fn(|context| poll_write(context, socket, rest)).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        outbox.sent(written);
        while written > 0 {
            let taken = written.min(rest[0].len());
            rest[0].advance(taken);
            written -= taken;
            if rest[0].is_empty() {
                rest = &mut rest[1..];
            }
        }
    }
    segments.clear();
    // Nothing for a plain socket; TLS may still have a part of the last record.
    socket.flush().await
}

/// As much as one system call takes. The slices are made anew each time: kept over a wait, a kilobyte of them would
/// lie with every connection.
fn poll_write(
    context: &mut Context<'_>,
    socket: &mut WriteHalf,
    segments: &[Bytes],
) -> Poll<io::Result<usize>> {
    let socket = Pin::new(socket);
    if let [only] = segments {
        return socket.poll_write(context, only);
    }
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let count = segments.len().min(SLICES_MAX);
    for (slice, segment) in slices.iter_mut().zip(segments) {
        *slice = IoSlice::new(segment);
    }
    socket.poll_write_vectored(context, &slices[..count])
}
