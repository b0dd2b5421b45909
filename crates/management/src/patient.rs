//! A socket whose other end has to take what it asked for: without that, an answer would lie here for as long as somebody
//! likes to leave it unread.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream that fails when nothing of what is written is taken for some time.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while the other end takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    pub(crate) const fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            stalled: None,
        }
    }

    fn poll_taken<T>(
        &mut self,
        context: &mut Context<'_>,
        work: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let outcome = work(Pin::new(&mut self.stream), context);
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        stalled
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_taken(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_taken(context, |stream, context| {
            stream.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_taken(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_taken(context, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn sc47_who_takes_nothing_of_an_answer_is_cut_off() {
        let (here, _there) = duplex(1000);
        let mut stream = Patient::new(here, Duration::from_millis(10));
        let failed = stream.write_all(&[0; 1001]).await;
        assert_eq!(
            failed.map_err(|error| error.kind()),
            Err(io::ErrorKind::TimedOut)
        );
    }

    #[tokio::test]
    async fn who_takes_it_bit_by_bit_gets_all_of_it() {
        let (here, mut there) = duplex(1000);
        let mut stream = Patient::new(here, Duration::from_secs(3600));
        let sending = tokio::spawn(async move { stream.write_all(&[7; 100_000]).await });
        let mut taken = Vec::new();
        there.read_to_end(&mut taken).await.expect("all of it");
        assert!(taken.len() == 100_000 && sending.await.expect("no panic").is_ok());
    }
}
