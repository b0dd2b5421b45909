//! Messages leave an exchange at their time, whatever came before them, is on disk, or happens meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use leveret_core::{
    delay::{Command, Delay, Effects, LEAVING_MAX, Released, SOON_MAX},
    ids::{ChannelKey, ConnectionId, QueueId, Seq, Timestamp},
    message::{Message, MessageParts},
    queue::{Confirm, Refill, Refilled, StoredMessage},
    record::{QueueState, Write},
};
use proptest::{prelude::*, sample::Index};

const ID: QueueId = QueueId::new(7);
const START: u64 = 1_800_000_000_000;
/// Four of these are more than the window takes.
const LARGE: usize = 300_000;

fn message(label: &str, body_bytes: usize) -> Message {
    Message::new(MessageParts {
        exchange: b"x",
        routing_key: label.as_bytes(),
        properties: &[0, 0],
        body: Bytes::from(vec![7; body_bytes]),
        persistent: true,
        priority: None,
    })
}

fn label(message: &Message) -> String {
    String::from_utf8_lossy(message.routing_key()).into_owned()
}

/// A delay with a store and a clock.
struct DelayScenario {
    delay: Delay,
    durable: bool,
    now: u64,
    rows: BTreeMap<Seq, (Timestamp, Message)>,
    state: QueueState,
    effects: Effects,
    read: Option<Refill>,
    /// Position and time of what was released and has not arrived.
    on_the_way: BTreeMap<String, Seq>,
    /// Everything that was released, with the time.
    released: Vec<(String, u64)>,
    confirmed: Vec<u64>,
}

impl DelayScenario {
    fn new(durable: bool) -> Self {
        Self {
            delay: Delay::new(ID, durable),
            durable,
            now: START,
            rows: BTreeMap::new(),
            state: QueueState::default(),
            effects: Effects::default(),
            read: None,
            on_the_way: BTreeMap::new(),
            released: Vec::new(),
            confirmed: Vec::new(),
        }
    }

    #[track_caller]
    fn apply(&mut self, command: Command) {
        self.apply_all([command]);
    }

    #[track_caller]
    fn apply_all(&mut self, commands: impl IntoIterator<Item = Command>) {
        let now = Timestamp::new(self.now);
        for command in commands {
            self.delay.apply(now, command, &mut self.effects);
        }
        self.delay.seal(&mut self.effects);
        self.delay.check().unwrap_or_else(|wrong| panic!("{wrong}"));
        for write in self.effects.writes.drain(..) {
            assert!(self.durable, "stored without need: {write:?}");
            match write {
                Write::Put {
                    queue,
                    seq,
                    enqueued_at,
                    message,
                    ..
                } => {
                    assert_eq!(queue, ID);
                    let before = self.rows.insert(seq, (enqueued_at, message));
                    assert_eq!(before, None, "position {seq} is used twice");
                }
                Write::Forget { seq, .. } => {
                    self.rows.remove(&seq).expect("forgotten once");
                }
                Write::State { state, .. } => self.state = state,
                Write::ForgetRange { .. }
                | Write::Attempts { .. }
                | Write::ForgetAttempts { .. }
                | Write::Meta(_) => panic!("{write:?}"),
            }
        }
        if self.durable {
            assert_eq!(self.state.messages, self.rows.len() as u64);
            let first = self.rows.keys().next();
            assert!(first.is_none_or(|first| self.state.head <= *first));
        }
        for Released { seq, message } in self.effects.released.drain(..) {
            let label = label(&message);
            self.released.push((label.clone(), self.now));
            let twice = self.on_the_way.insert(label, seq);
            assert_eq!(twice, None, "released twice");
        }
        let confirms = self.effects.promises.drain(..);
        let confirms = confirms.chain(self.effects.accepted.drain(..));
        self.confirmed
            .extend(confirms.map(|confirm| confirm.number));
        assert_eq!(self.effects.missing, 0);
        if let Some(refill) = self.effects.refill.take() {
            assert!(self.read.replace(refill).is_none(), "two reads at once");
        }
    }

    fn hold(&mut self, label: &str, millis: u64, body_bytes: usize) {
        let command = self.holding(label, millis, body_bytes);
        self.apply(command);
    }

    fn holding(&self, label: &str, millis: u64, body_bytes: usize) -> Command {
        Command::Hold {
            message: message(label, body_bytes),
            due: Timestamp::new(self.now + millis),
            confirm: None,
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.apply(Command::Tick);
    }

    fn answer_read(&mut self) {
        let Some(Refill {
            from,
            until,
            rows_max,
            bytes_max,
            ..
        }) = self.read.take()
        else {
            return;
        };
        let mut refilled = Refilled::default();
        let mut bytes = 0;
        for (&seq, (due, message)) in self.rows.range(from..until) {
            bytes += message.body().len();
            let is_enough = refilled.rows.len() >= rows_max.max(1) || bytes > bytes_max;
            if is_enough && !refilled.rows.is_empty() {
                refilled.next = Some(seq);
                break;
            }
            refilled.rows.push(StoredMessage {
                seq,
                enqueued_at: *due,
                due: Some(Timestamp::NEVER),
                message: message.clone(),
            });
        }
        self.apply(Command::Refilled(refilled));
    }

    fn arrive(&mut self, label: &str) {
        let seq = self.on_the_way.remove(label).expect("on its way");
        self.apply(Command::Sent { seq });
    }

    /// Until nothing moves at this moment any more.
    fn settle(&mut self) {
        while self.read.is_some() || !self.on_the_way.is_empty() {
            self.answer_read();
            let arriving = std::mem::take(&mut self.on_the_way).into_values();
            self.apply_all(
                arriving
                    .map(|seq| Command::Sent { seq })
                    .collect::<Vec<_>>(),
            );
        }
    }

    fn crash(&mut self) {
        self.delay = Delay::recovered(ID, true, self.state);
        self.effects = Effects::default();
        self.read = None;
        self.on_the_way.clear();
        self.apply(Command::Tick);
    }

    #[track_caller]
    fn expect_released<const N: usize>(&mut self, expected: [&str; N]) {
        let released: Vec<_> = self.released.drain(..).map(|(label, _)| label).collect();
        assert_eq!(released, expected);
    }
}

#[test]
fn each_message_leaves_at_its_own_millisecond() {
    for durable in [true, false] {
        let mut delay = DelayScenario::new(durable);
        delay.hold("late", 1000, 0);
        delay.hold("soon", 10, 0);
        delay.hold("sooner", 9, 0);
        assert_eq!(delay.delay.next_due(), Some(Timestamp::new(START + 9)));
        delay.pass(8);
        delay.expect_released([]);
        delay.pass(1);
        delay.expect_released(["sooner"]);
        delay.pass(1);
        delay.expect_released(["soon"]);
        delay.pass(989);
        delay.expect_released([]);
        delay.pass(1);
        delay.expect_released(["late"]);
        assert_eq!(delay.delay.pending(), 3);
        delay.settle();
        assert_eq!(delay.delay.pending(), 0);
        assert_eq!(delay.delay.next_due(), None);
    }
}

#[test]
fn what_is_due_at_once_leaves_in_the_order_in_which_it_came() {
    let mut delay = DelayScenario::new(true);
    for label in ["a", "b", "c"] {
        delay.hold(label, 5, 0);
    }
    delay.pass(1000);
    delay.expect_released(["a", "b", "c"]);
}

#[test]
fn a_confirm_waits_for_the_store_only_where_there_is_one() {
    for durable in [true, false] {
        let mut delay = Delay::new(ID, durable);
        let channel = ChannelKey {
            connection: ConnectionId::new(1),
            channel: 1,
            opening: 1,
        };
        let confirm = Confirm { channel, number: 3 };
        let mut effects = Effects::default();
        let hold = Command::Hold {
            message: message("a", 0),
            due: Timestamp::new(START),
            confirm: Some(confirm),
        };
        delay.apply(Timestamp::new(0), hold, &mut effects);
        delay.seal(&mut effects);
        let (promised, accepted) = (&effects.promises, &effects.accepted);
        let (stored, other) = if durable {
            (promised, accepted)
        } else {
            (accepted, promised)
        };
        assert_eq!(stored.as_slice(), [confirm]);
        assert_eq!(other.as_slice(), []);
    }
}

#[test]
fn what_is_due_later_than_the_window_costs_no_memory_and_comes_in_time() {
    let mut delay = DelayScenario::new(true);
    let count = 3 * SOON_MAX as u64;
    let all: Vec<_> = (0..count)
        .map(|number| delay.holding(&format!("{number:05}"), 1 + (number * 7919) % count, 0))
        .collect();
    delay.apply_all(all);
    let mut seen = BTreeSet::new();
    const STEP: u64 = 100;
    for _ in 0..=count / STEP {
        delay.pass(STEP);
        delay.settle();
        for (label, at) in delay.released.drain(..) {
            let number: u64 = label.parse().expect("a number");
            let due = START + 1 + (number * 7919) % count;
            assert!((due..due + STEP).contains(&at), "{number} at {at}");
            seen.insert(number);
        }
    }
    assert_eq!(seen.len() as u64, count);
    assert!(delay.rows.is_empty());
}

#[test]
fn what_comes_while_others_are_read_costs_no_memory_either() {
    let mut delay = DelayScenario::new(true);
    let (first, later) = (SOON_MAX as u64 + 100, 4 * SOON_MAX as u64);
    let holding = (1..=first).map(|millis| delay.holding(&format!("{millis:05}"), millis, 0));
    let holding: Vec<_> = holding.collect();
    delay.apply_all(holding);
    delay.pass(1500);
    let arriving = std::mem::take(&mut delay.on_the_way).into_values();
    let arriving: Vec<_> = arriving.map(|seq| Command::Sent { seq }).collect();
    delay.apply_all(arriving);
    assert!(delay.read.is_some(), "the rest is to be read");
    let holding = (0..later).map(|millis| {
        let millis = 10_000 + (millis * 7919) % later;
        delay.holding(&format!("{millis:05}"), millis, 0)
    });
    let holding: Vec<_> = holding.collect();
    delay.apply_all(holding);
    assert!(delay.delay.in_memory() <= 2 * SOON_MAX);
    while delay.delay.pending() > 0 {
        delay.settle();
        delay.pass(100);
    }
    assert_eq!(delay.released.len() as u64, first + later);
    // Those that are due within 16 ms may change places where what is in memory ended.
    let slot = |(label, _): &(String, u64)| {
        let millis: u64 = label.parse().expect("a number");
        let held_at = if millis < 10_000 { START } else { START + 1500 };
        (held_at + millis) >> 4
    };
    assert!(delay.released.is_sorted_by_key(slot));
    assert!(delay.rows.is_empty());
}

#[test]
fn many_that_are_due_at_once_leave_as_others_arrive() {
    for durable in [true, false] {
        let mut delay = DelayScenario::new(durable);
        let count = 2 * LEAVING_MAX + 10;
        let all: Vec<_> = (0..count)
            .map(|number| delay.holding(&number.to_string(), 5, 0))
            .collect();
        delay.apply_all(all);
        delay.pass(5);
        delay.answer_read();
        assert_eq!(delay.on_the_way.len(), LEAVING_MAX.min(SOON_MAX));
        delay.settle();
        assert_eq!(delay.released.len(), count);
        assert_eq!(delay.delay.pending(), 0);
    }
}

#[test]
fn a_deleted_exchange_keeps_and_releases_nothing() {
    let mut delay = DelayScenario::new(true);
    delay.hold("gone", 5, 0);
    delay.pass(1);
    delay.delay.apply(
        Timestamp::new(delay.now),
        Command::Delete,
        &mut delay.effects,
    );
    let mut effects = Effects::default();
    let hold = delay.holding("too late", 5, 0);
    let now = Timestamp::new(delay.now + 100);
    for command in [hold, Command::Tick, Command::Sent { seq: Seq::new(1) }] {
        delay.delay.apply(now, command, &mut effects);
    }
    delay.delay.seal(&mut effects);
    assert!(effects.writes.is_empty() && effects.released.is_empty());
    assert_eq!(delay.delay.next_due(), None);
}

#[derive(Debug, Clone)]
enum Step {
    Hold { millis: u64, body_bytes: usize },
    Pass(u64),
    AnswerRead,
    Arrive(Index),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let body_bytes = prop_oneof![Just(0_usize), Just(LARGE)];
    let millis = prop_oneof![1..40_u64, 1..4000_u64];
    prop_oneof![
        6 => (millis, body_bytes).prop_map(|(millis, body_bytes)| Step::Hold { millis, body_bytes }),
        3 => (1..500_u64).prop_map(Step::Pass),
        3 => Just(Step::AnswerRead),
        3 => any::<Index>().prop_map(Step::Arrive),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_early_or_sent_after_it_arrived(steps in prop::collection::vec(step(), 1..120)) {
        let mut delay = DelayScenario::new(true);
        let mut due = BTreeMap::new();
        let mut arrived = BTreeSet::new();
        let mut checked = 0;
        let mut check = |delay: &DelayScenario, due: &BTreeMap<String, u64>, arrived: &BTreeSet<String>| {
            for (label, at) in &delay.released[checked..] {
                assert!(due[label] <= *at, "{label} left early");
                assert!(!arrived.contains(label), "{label} came back");
            }
            checked = delay.released.len();
        };
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Hold { millis, body_bytes } => {
                    let label = format!("{number:03}");
                    due.insert(label.clone(), delay.now + millis);
                    delay.hold(&label, millis, body_bytes);
                }
                Step::Pass(millis) => delay.pass(millis),
                Step::AnswerRead => delay.answer_read(),
                Step::Arrive(index) => {
                    let labels: Vec<_> = delay.on_the_way.keys().cloned().collect();
                    if !labels.is_empty() {
                        let label = index.get(&labels);
                        delay.arrive(label);
                        arrived.insert(label.clone());
                    }
                }
                Step::Crash => delay.crash(),
            }
            check(&delay, &due, &arrived);
        }
        // Whatever is due is not kept back by anything but a read under way.
        delay.answer_read();
        delay.settle();
        check(&delay, &due, &arrived);
        let released: BTreeSet<_> = delay.released.iter().map(|(label, _)| label.clone()).collect();
        let now = delay.now;
        for (label, at) in &due {
            prop_assert_eq!(released.contains(label), *at <= now, "{}", label);
        }
        delay.pass(10_000);
        delay.settle();
        let released: BTreeSet<_> = delay.released.iter().map(|(label, _)| label.clone()).collect();
        prop_assert_eq!(released.len(), due.len());
        prop_assert!(delay.rows.is_empty());
        prop_assert_eq!(delay.delay.pending(), 0);
    }
}
