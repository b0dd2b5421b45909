//! What is to have come of it.

use std::{
    collections::BTreeMap,
    fmt::{Debug, Display},
};

use leveret_core::{
    arguments::QueueSettings,
    ids::ConsumerId,
    queue::{Deaths, Depth, Overdue, Queue},
};
use leveret_wire::value::FieldTable;

use super::{QueueScenario, Received, counts_among, label};

impl QueueScenario {
    /// Exactly these have arrived at the consumer since the last look, none of them seen before.
    #[track_caller]
    pub(crate) fn expect_deliveries<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
    ) {
        self.expect_received(consumer, labels, false);
    }

    /// The labels of what has arrived at the consumer since the last look.
    pub(crate) fn take_labels(&mut self, consumer: ConsumerId) -> Vec<String> {
        let received = self.received.remove(&consumer).unwrap_or_default();
        received
            .into_iter()
            .map(|received| received.label)
            .collect()
    }

    /// Exactly these have arrived at the consumer since the last look, all of them flagged.
    #[track_caller]
    pub(crate) fn expect_redeliveries<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
    ) {
        self.expect_received(consumer, labels, true);
    }

    #[track_caller]
    fn expect_received<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
        redelivered: bool,
    ) {
        let expected: Vec<Received> = labels
            .into_iter()
            .map(|label| Received {
                label: label.to_string(),
                redelivered,
            })
            .collect();
        let found = self.received.remove(&consumer).unwrap_or_default();
        self.expect_equal("deliveries", &found, &expected);
    }

    /// Whatever was delivered since the last look was already expected.
    #[track_caller]
    pub(crate) fn expect_nothing_more(&self) {
        self.expect_equal("further deliveries", &self.received, &BTreeMap::new());
    }

    /// The first `count` deliveries to the consumer since the last look, whatever follows.
    #[track_caller]
    pub(crate) fn expect_first_deliveries<L: Display>(
        &mut self,
        consumer: ConsumerId,
        labels: impl IntoIterator<Item = L>,
    ) {
        let expected: Vec<String> = labels.into_iter().map(|label| label.to_string()).collect();
        let mut found = self.received.remove(&consumer).unwrap_or_default();
        let later = found.split_off(expected.len().min(found.len()));
        if !later.is_empty() {
            self.received.insert(consumer, later);
        }
        let found: Vec<String> = found.into_iter().map(|received| received.label).collect();
        self.expect_equal("first deliveries", &found, &expected);
    }

    #[track_caller]
    pub(crate) fn expect_depth(&self, ready: u64, unacked: u64) {
        self.expect_equal("depth", &self.queue.depth(), &Depth { ready, unacked });
    }

    /// So many consumers `queue.declare-ok` tells.
    #[track_caller]
    pub(crate) fn expect_declared_consumers(&self, count: usize) {
        self.expect_equal(
            "declared consumers",
            &self.queue.declared_consumers(),
            &count,
        );
    }

    /// These confirms have left since the last look, for what is on disk.
    #[track_caller]
    pub(crate) fn expect_confirmed(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let found = std::mem::take(&mut self.confirmed);
        self.expect_equal("confirmed", &found, &numbers.into_iter().collect());
    }

    /// These confirms have left since the last look, for what is not to be stored.
    #[track_caller]
    pub(crate) fn expect_accepted(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let found = std::mem::take(&mut self.accepted);
        self.expect_equal("accepted", &found, &numbers.into_iter().collect());
    }

    /// These publishes were refused since the last look.
    #[track_caller]
    pub(crate) fn expect_rejected(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let found = std::mem::take(&mut self.rejected);
        self.expect_equal("rejected", &found, &numbers.into_iter().collect());
    }

    /// The labels of what is stored.
    #[track_caller]
    pub(crate) fn expect_stored<L: Display>(&self, labels: impl IntoIterator<Item = L>) {
        let expected: Vec<String> = labels.into_iter().map(|label| label.to_string()).collect();
        let found: Vec<String> = self.store.messages().map(label).collect();
        self.expect_equal("stored", &found, &expected);
    }

    /// These consumers ended with the queue.
    #[track_caller]
    pub(crate) fn expect_cancelled(&mut self, consumers: impl IntoIterator<Item = ConsumerId>) {
        let found = std::mem::take(&mut self.cancelled);
        self.expect_equal("cancelled", &found, &consumers.into_iter().collect());
    }

    /// Whoever had messages for too long since the last look.
    pub(crate) fn take_overdue(&mut self) -> Vec<Overdue> {
        std::mem::take(&mut self.overdue)
    }

    /// The headers with which this message was handed out last.
    pub(crate) fn headers_of(&self, label: &str) -> FieldTable {
        self.headers.get(label).cloned().unwrap_or_default()
    }

    /// What was told of attempts when this message was handed out last: acquired and delivery count.
    #[track_caller]
    pub(crate) fn expect_counts(
        &self,
        label: &str,
        acquired: impl Into<Option<i64>>,
        delivery: impl Into<Option<i64>>,
    ) {
        let found = self.headers.get(label).map(counts_among);
        let expected = Some((acquired.into(), delivery.into()));
        self.expect_equal("counts", &found, &expected);
    }

    /// Whether the last consumer has left since the last look.
    pub(crate) fn take_unused(&mut self) -> bool {
        std::mem::take(&mut self.effects.unused)
    }

    /// Messages reported missing since the last look.
    pub(crate) fn take_missing(&mut self) -> u64 {
        std::mem::take(&mut self.effects.missing)
    }

    /// Messages that died since the last look, by their reasons.
    pub(crate) fn take_deaths(&mut self) -> Deaths {
        std::mem::take(&mut self.effects.deaths)
    }

    /// A policy has changed.
    pub(crate) fn set_settings(&mut self, settings: QueueSettings) {
        self.queue.set_settings(settings.clone());
        self.settings = settings;
    }

    pub(crate) const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Messages handed to consumers and gets so far.
    pub(crate) const fn handed_out(&self) -> u64 {
        self.handed_out
    }

    #[track_caller]
    pub(super) fn expect_equal<T: PartialEq + Debug>(&self, what: &str, found: &T, expected: &T) {
        assert!(
            found == expected,
            "{what} should be {expected:?}\nand are {found:?}\nin {self:#?}"
        );
    }
}
