//! Messages that came back while their bodies are on disk only, each with its place.

use super::{Spot, line::Line, spill::Spilled, stub::Stub};
use crate::ids::Seq;

/// The places that are wanted of what is stored; between them there may be others.
#[derive(Debug)]
pub(super) struct Returned {
    stubs: Line<Spot, Stub>,
    message_bytes: u64,
    spilled: Spilled,
    /// None has a position below.
    lowest: Seq,
}

impl Returned {
    pub(super) const fn new() -> Self {
        Self {
            stubs: Line::new(),
            message_bytes: 0,
            spilled: Spilled {
                messages: 0,
                message_bytes: 0,
            },
            lowest: Seq::new(0),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.stubs.len() as u64
    }

    pub(super) const fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    pub(super) const fn spilled(&self) -> Spilled {
        self.spilled
    }

    pub(super) fn first(&self) -> Option<Spot> {
        self.stubs.first().map(|(spot, _)| spot)
    }

    pub(super) fn first_from(&self, spot: Spot) -> Option<Spot> {
        self.stubs.first_from(spot).map(|(spot, _)| spot)
    }

    pub(super) fn contains(&self, spot: Spot) -> bool {
        self.stubs.contains(spot)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Spot> {
        self.stubs.keys()
    }

    pub(super) fn lowest(&self) -> Option<Seq> {
        (!self.stubs.is_empty()).then_some(self.lowest)
    }

    pub(super) fn insert(&mut self, spot: Spot, stub: Stub) {
        if self.stubs.is_empty() || spot.seq < self.lowest {
            self.lowest = spot.seq;
        }
        self.message_bytes += stub.message_bytes();
        self.spilled.add_all(stub.spilled());
        self.stubs.insert(spot, stub);
    }

    pub(super) fn remove(&mut self, spot: Spot) -> Option<Stub> {
        let is_first = self.first() == Some(spot);
        let stub = self.stubs.remove(spot)?;
        self.message_bytes -= stub.message_bytes();
        self.spilled.remove(stub.spilled());
        // Those of one class that never had a turn stand in the order of their positions.
        if is_first
            && let (Some(first), Some(last)) = (self.first(), self.stubs.last_key())
            && !first.has_turn()
            && first.class() == last.class()
        {
            self.lowest = first.seq;
        }
        Some(stub)
    }

    pub(super) fn take_all(&mut self) -> Vec<(Spot, Stub)> {
        let taken = std::mem::replace(self, Self::new());
        let stubs = taken.stubs.iter();
        stubs.map(|(spot, stub)| (spot, *stub)).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let bytes: u64 = self.stubs.values().map(|stub| stub.message_bytes()).sum();
        let is_below = |spot: &Spot| spot.seq < self.lowest;
        if bytes != self.message_bytes || self.keys().any(|spot| is_below(&spot)) {
            return Err(format!("not what came back: {self:?}"));
        }
        Ok(())
    }
}
