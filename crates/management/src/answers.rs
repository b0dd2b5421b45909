//! Answers on their way to clients, who may never take them: how much memory all of these hold.
//!
//! A list, or a page of metrics of single objects, can have tens of megabytes, and who reads metrics shows no
//! credentials. What does not fit any more is answered 503 at once, unless it tells of something that was done and cannot be
//! asked for again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    body::{Body, HttpBody, to_bytes},
    http::{Response, StatusCode, header},
};
use bytes::Bytes;

/// Bytes of answers that wait for their clients. One that is larger is sent when no other one waits.
const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Answers up to this size are always sent: a health check says what it has to say. All connections together hold no more
/// than some tens of megabytes of them.
const SMALL_BYTES_MAX: u64 = 32 * 1024;

/// What is sent and not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    waiting: Arc<AtomicUsize>,
}

/// The place of one answer, given back when its last byte is taken or its connection is gone.
#[derive(Debug)]
struct Place {
    bytes: Bytes,
    waiting: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Place {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

impl Answers {
    /// Whether so much waits that nothing should be done whose answer may be large.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > WAITING_BYTES_MAX / 2
    }

    /// The answer, counted for as long as some of it is here; or that there is no room for it, if it `may_be_refused`.
    pub(crate) async fn hold(
        &self,
        answer: Response<Body>,
        may_be_refused: bool,
    ) -> Response<Body> {
        let size = answer.body().size_hint().exact();
        if size.is_some_and(|bytes| bytes <= SMALL_BYTES_MAX) {
            return answer;
        }
        let (mut head, body) = answer.into_parts();
        // It is there as a whole; nothing is copied.
        let place = match to_bytes(body, usize::MAX).await {
            Ok(bytes) => self.place(bytes, may_be_refused),
            Err(_) => None,
        };
        let Some(place) = place else {
            head.status = StatusCode::SERVICE_UNAVAILABLE;
            for name in [
                header::CONTENT_TYPE,
                header::CONTENT_ENCODING,
                header::CONTENT_DISPOSITION,
            ] {
                head.headers.remove(name);
            }
            return Response::from_parts(head, Body::empty());
        };
        Response::from_parts(head, Body::from(Bytes::from_owner(place)))
    }

    fn place(&self, bytes: Bytes, may_be_refused: bool) -> Option<Place> {
        let has_room = |waiting: usize| {
            let all = waiting.checked_add(bytes.len())?;
            (!may_be_refused || waiting == 0 || all <= WAITING_BYTES_MAX).then_some(all)
        };
        let (order, waiting) = (Ordering::Relaxed, &self.waiting);
        waiting.fetch_update(order, order, has_room).ok()?;
        let waiting = self.waiting.clone();
        Some(Place { bytes, waiting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Response<Body> {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn sc21_answers_that_nobody_takes_are_bounded_and_small_ones_always_sent() {
        let answers = Answers::default();
        let half = WAITING_BYTES_MAX / 2;
        let first = answers.hold(answer(half), true).await;
        let second = answers.hold(answer(half), true).await;
        let refused = answers.hold(answer(half), true).await;
        let statuses = [&first, &second, &refused].map(Response::status);
        assert_eq!(statuses.map(|status| status.as_u16()), [200, 200, 503]);
        assert!(answers.is_crowded());
        // What was done is told.
        let told = answers.hold(answer(half), false).await;
        assert_eq!(told.status(), StatusCode::OK);
        drop(told);
        assert_eq!(
            answers.hold(answer(1000), true).await.status(),
            StatusCode::OK
        );
        drop(second);
        let taken = to_bytes(
            answers.hold(answer(half), true).await.into_body(),
            usize::MAX,
        )
        .await;
        assert_eq!(taken.map(|bytes| bytes.len()).ok(), Some(half));
        drop(first);
        assert_eq!(answers.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn an_answer_of_any_size_is_sent_when_no_other_one_waits() {
        let answers = Answers::default();
        let large = answers.hold(answer(WAITING_BYTES_MAX + 1), true).await;
        assert_eq!(large.status(), StatusCode::OK);
        assert_eq!(
            answers.hold(answer(100_000), true).await.status().as_u16(),
            503
        );
    }
}
