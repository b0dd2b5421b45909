//! The two halves of a socket, of whatever kind it is.
//!
//! Plain TCP is the hot path: it is read into the connection's own buffer and written with `writev`, and to be one
//! of several kinds costs it a branch per system call.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use leveret_session::Input;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, split},
    net::{TcpStream, UnixStream, tcp, unix},
};
use tokio_rustls::server::TlsStream;

/// The most that one TLS record holds.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// A stream of bytes that was accepted, after its handshake if it has one.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What is read from.
#[derive(Debug)]
pub(crate) enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Tls(tokio::io::ReadHalf<Box<TlsStream<TcpStream>>>),
}

/// What is written to.
#[derive(Debug)]
pub(crate) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Tls(tokio::io::WriteHalf<Box<TlsStream<TcpStream>>>),
}

impl Transport {
    pub(crate) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            Self::Unix(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Unix(read), WriteHalf::Unix(write))
            }
            Self::Tls(stream) => {
                let (read, write) = split(stream);
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
        }
    }
}

impl ReadHalf {
    /// Waits for bytes and reads about so many; 0 at the end. While it waits it keeps no buffer, and when it is
    /// dropped nothing is lost.
    pub(crate) async fn read(&mut self, input: &mut Input, at_most: usize) -> io::Result<usize> {
        poll_fn(|context| match self {
            Self::Tcp(socket) => {
                ready!(socket.as_ref().poll_read_ready(context))?;
                poll_bytes(context, socket, input, at_most)
            }
            Self::Unix(socket) => {
                ready!(socket.as_ref().poll_read_ready(context))?;
                poll_bytes(context, socket, input, at_most)
            }
            Self::Tls(socket) => poll_records(context, socket, input, at_most),
        })
        .await
    }
}

/// What a socket has that is said to have something. A read that finds less than there is room for needs no
/// second one to learn that there is no more.
fn poll_bytes(
    context: &mut Context<'_>,
    socket: &mut (impl AsyncRead + Unpin),
    input: &mut Input,
    at_most: usize,
) -> Poll<io::Result<usize>> {
    let buffer = input.buffer_mut();
    buffer.reserve(at_most);
    let read = pin!(socket.read_buf(buffer)).poll(context);
    if read.is_pending() {
        // There was nothing after all, and nobody knows for how long.
        input.release_idle_capacity();
    }
    read
}

/// Whole records, as many as are there.
fn poll_records(
    context: &mut Context<'_>,
    socket: &mut (impl AsyncRead + Unpin),
    input: &mut Input,
    at_most: usize,
) -> Poll<io::Result<usize>> {
    let mut space = [0; RECORD_BYTES_MAX];
    let mut total = 0;
    while total < at_most {
        let mut record = ReadBuf::new(&mut space);
        match Pin::new(&mut *socket).poll_read(context, &mut record) {
            Poll::Ready(Ok(())) if record.filled().is_empty() => return Poll::Ready(Ok(total)),
            Poll::Ready(Ok(())) => {
                total += record.filled().len();
                input.buffer_mut().extend_from_slice(record.filled());
            }
            // What was read first is worked through first; this comes again. A client that just hangs up
            // owes no goodbye: frames have their own ends.
            Poll::Ready(Err(error)) if total > 0 || is_end(&error) => {
                return Poll::Ready(Ok(total));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending if total > 0 => break,
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Ready(Ok(total))
}

fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Unix(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Unix(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Tls(socket) => Pin::new(socket).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_flush(context),
            Self::Unix(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}
