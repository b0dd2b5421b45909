//! Random commands, with commits and reads that come late, in any order, or never: what each reader
//! gets is a run of the committed log, and nothing is forgotten.

use leveret_core::{
    ids::{ConsumerId, Timestamp},
    queue::{Command, Outcome},
    stream::{StreamSettings, StreamStart},
};

use crate::scenario::StreamScenario;

/// A small generator with a state that is printed when a run fails.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Where a reader must be next, and whether it may jump ahead to the beginning of the log.
#[derive(Debug, Default)]
struct Expected {
    next: Option<i64>,
}

struct Run {
    scenario: StreamScenario,
    random: Random,
    /// Body by offset, as the publisher sent it; what is lost in a crash is taken out again.
    log: Vec<String>,
    readers: Vec<(ConsumerId, Expected)>,
    sent: u64,
    numbers: u16,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let max_length_bytes = (random.below(2) == 0).then(|| random.below(20_000));
        let max_age_millis = (random.below(3) == 0).then(|| 1 + random.below(500));
        let settings = StreamSettings {
            max_age_millis,
            max_length_bytes,
            segment_bytes: random.below(3000),
        };
        let mut scenario = StreamScenario::with(settings);
        scenario.commits_late = true;
        scenario.reads_late = true;
        Self {
            scenario,
            random,
            log: Vec::new(),
            readers: Vec::new(),
            sent: 0,
            numbers: 0,
        }
    }

    fn step(&mut self) {
        self.scenario.now += self.random.below(20);
        match self.random.below(100) {
            0..30 => {
                let bodies: Vec<String> = (0..=self.random.below(20))
                    .map(|_| {
                        self.sent += 1;
                        self.sent.to_string()
                    })
                    .collect();
                self.log.extend(bodies.iter().cloned());
                self.scenario.publish(bodies.iter().map(String::as_str));
            }
            30..45 => self.scenario.commit(),
            45..70 => {
                let count = self.scenario.asks.len() as u64;
                if count > 0 {
                    let which = usize::try_from(self.random.below(count)).unwrap();
                    let ask = self.scenario.asks.remove(which).unwrap();
                    self.scenario.answer(ask);
                }
            }
            70..74 => self.subscribe(),
            74..92 => self.with_reader(|run, reader| {
                let count = usize::try_from(run.random.below(8)).unwrap();
                run.scenario.settle(reader, count, Outcome::Acked);
            }),
            92..94 => self.with_reader(|run, consumer| {
                run.scenario.submit(vec![Command::Pause { consumer }]);
            }),
            94..97 => self.with_reader(|run, consumer| {
                run.scenario.submit(vec![Command::Resume { consumer }]);
            }),
            97 => self.with_reader(|run, consumer| {
                run.scenario.submit(vec![Command::Unsubscribe { consumer }]);
                run.readers.retain(|(id, _)| *id != consumer);
            }),
            98 => self.scenario.submit(vec![Command::Tick]),
            _ => self.crash(),
        }
        self.look();
    }

    fn subscribe(&mut self) {
        self.numbers += 1;
        let prefetch = u16::try_from(self.random.below(30)).unwrap();
        let end = self.log.len() as u64;
        let start = match self.random.below(5) {
            0 => StreamStart::First,
            1 => StreamStart::Last,
            2 => StreamStart::Next,
            3 => StreamStart::Offset(self.random.below(end + 10)),
            _ => StreamStart::Since(Timestamp::new(self.scenario.now - self.random.below(300))),
        };
        let next = match start {
            StreamStart::Next => Some(end.cast_signed()),
            _ => None,
        };
        let reader = self.scenario.subscribe(self.numbers, prefetch, start);
        self.readers.push((reader, Expected { next }));
    }

    fn with_reader(&mut self, act: impl FnOnce(&mut Self, ConsumerId)) {
        let count = self.readers.len() as u64;
        if count > 0 {
            let which = usize::try_from(self.random.below(count)).unwrap();
            let reader = self.readers[which].0;
            act(self, reader);
        }
    }

    fn crash(&mut self) {
        self.scenario.crash();
        self.readers.clear();
        // What is not stored is lost, and its offsets are given again.
        let stored = self.scenario.depth().ready;
        let next = self
            .scenario
            .store
            .messages()
            .last()
            .map(|row| row.seq.next());
        if stored > 0 {
            let next = usize::try_from(next.unwrap().get()).unwrap();
            self.log.truncate(next);
        } else {
            self.log.clear();
            assert!(next.is_none());
        }
    }

    /// What has come is what was sent, in order and without gaps except where the log has begun anew.
    fn look(&mut self) {
        let first = self.log.len() as u64 - self.scenario.depth().ready;
        let first = first.cast_signed();
        for (reader, expected) in &mut self.readers {
            for (offset, body) in self.scenario.got.remove(reader).unwrap_or_default() {
                let place = usize::try_from(offset).unwrap();
                assert_eq!(self.log[place], body, "offset {offset} of {reader:?}");
                if let Some(next) = expected.next {
                    let is_next = offset == next || (offset > next && offset <= first);
                    assert!(is_next, "{reader:?} got {offset} instead of {next}");
                }
                expected.next = Some(offset + 1);
            }
        }
        assert_eq!(self.scenario.missing, 0);
    }

    /// Everything is stored and read, and every reader settles until nothing comes any more: then each
    /// has got the last message.
    fn finish(&mut self) {
        self.scenario.commits_late = false;
        self.scenario.reads_late = false;
        self.scenario.commit();
        self.scenario.answer_all();
        let readers: Vec<ConsumerId> = self.readers.iter().map(|(id, _)| *id).collect();
        for &consumer in &readers {
            self.scenario.submit(vec![Command::Resume { consumer }]);
        }
        self.scenario.publish(["end"]);
        self.log.push("end".to_owned());
        for reader in readers {
            while self
                .scenario
                .held
                .get(&reader)
                .is_some_and(|held| !held.is_empty())
            {
                self.scenario.settle(reader, 7, Outcome::Acked);
            }
        }
        self.look();
        let end = self.log.len() as i64;
        for (reader, expected) in &self.readers {
            // One that was to start behind the end still waits for its offset.
            let has_all = expected.next == Some(end) || expected.next.is_none();
            assert!(has_all, "{reader:?} stopped at {expected:?} of {end}");
        }
    }
}

#[test]
fn readers_get_runs_of_the_log() {
    for seed in 1..=40 {
        let result = std::panic::catch_unwind(|| {
            let mut run = Run::new(seed);
            for _ in 0..300 {
                run.step();
            }
            run.finish();
        });
        assert!(result.is_ok(), "seed {seed}");
    }
}
