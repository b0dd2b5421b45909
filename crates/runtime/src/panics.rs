//! A panic is a bug of the broker. It ends what it happened in, and not the rest.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
};

/// What a panic left; whoever hands it on does so with [`std::panic::resume_unwind`].
pub type Panic = Box<dyn Any + Send>;

/// Does `work`, up to its end or to a panic in it. What it worked on may be half done then.
///
/// # Errors
///
/// The panic.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(work))
}

/// The same for work that waits.
///
/// # Errors
///
/// The panic.
pub fn contained_task<T>(work: impl Future<Output = T>) -> impl Future<Output = Result<T, Panic>> {
    // An asynchronous function would keep room for `work` twice: as it was given, and as it is pinned.
    let mut work = Box::pin(work);
    poll_fn(
        move |context| match contained(|| work.as_mut().poll(context)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        },
    )
}
