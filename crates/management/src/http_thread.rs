//! The one thread that answers HTTP, with a runtime of its own: however long a list takes to be put together and
//! packed, no AMQP connection waits for it.

use std::{
    convert::Infallible,
    io,
    thread::{self, JoinHandle},
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// Further threads, for a moment each: as many as hashes of passwords may be made at once.
const BLOCKING_THREADS_MAX: usize = 2;

/// The thread. Everything on it ends when this is dropped, which waits for that.
#[derive(Debug)]
pub struct HttpThread {
    runtime: Handle,
    /// Never says anything; dropping it is the word.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpThread {
    /// Starts it. Nothing is served yet.
    ///
    /// # Errors
    ///
    /// When the system gives no thread or no descriptors.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .thread_name("http")
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let thread = thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || drop(runtime.block_on(stopped)))?;
        Ok(Self {
            runtime: handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl Drop for HttpThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic was told where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[test]
    fn nothing_on_it_outlives_it() {
        let thread = HttpThread::start().expect("a thread");
        let (held, mut gone) = oneshot::channel::<()>();
        let (begun, begins) = oneshot::channel();
        thread.runtime().spawn(async move {
            let _held = held;
            let _ = begun.send(());
            pending::<()>().await;
        });
        begins.blocking_recv().expect("it begins");
        drop(thread);
        assert_eq!(gone.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
