//! How long a queue holds a message back that was returned to it, and how often.

use leveret_wire::value::{FieldTable, FieldValue};

use crate::{chance, ids::Seq, record::Attempts};

/// Arguments of this broker; any of them switches retries on.
pub(super) const RETRY: [&str; 8] = [
    "x-retry-backoff",
    "x-retry-min",
    "x-retry-max",
    "x-retry-factor",
    "x-retry-jitter",
    "x-retry-delays",
    "x-retry-limit",
    "x-retry-on",
];

/// What `x-retry-backoff` may say.
pub(super) const BACKOFFS: [&[u8]; 3] = [b"exponential", b"linear", b"fixed"];
/// What `x-retry-on` may say.
pub(super) const OCCASIONS: [&[u8]; 3] = [b"all", b"failed", b"returned"];

const MIN_DEFAULT_MILLIS: u64 = 1000;
const MAX_DEFAULT_MILLIS: u64 = 60 * 60 * 1000;
const FACTOR_DEFAULT_PERMILLE: u64 = 2000;
const JITTER_DEFAULT_PERMILLE: u64 = 100;

/// The longest anything waits: ten years.
const WAIT_MAX_MILLIS: u64 = 315_360_000_000;
/// Steps of `x-retry-delays`; the last one repeats.
const STEPS_MAX: usize = 256;

/// What a queue does with messages that come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrySettings {
    backoff: Backoff,
    min_millis: u64,
    max_millis: u64,
    /// How far a wait may be off, in thousandths of it.
    jitter_permille: u64,
    /// Attempts a message has, the first one included.
    pub(crate) limit: Option<u32>,
    on: Occasion,
}

/// How waits grow.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Backoff {
    Fixed,
    Linear,
    Exponential {
        factor_permille: u64,
    },
    /// One wait for each attempt.
    Steps(Vec<u64>),
    /// RabbitMQ's: linear in failed attempts only.
    LinearInFailures,
}

/// Which returns are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    All,
    Failed,
    Returned,
}

impl Occasion {
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"all" => Some(Self::All),
            b"failed" => Some(Self::Failed),
            b"returned" => Some(Self::Returned),
            _ => None,
        }
    }
}

impl RetrySettings {
    /// Reads arguments that were checked; `None` when none of them asks for retries.
    pub(super) fn of(arguments: &FieldTable) -> Option<Self> {
        let get = |key: &str| arguments.get(key.as_bytes());
        if !RETRY.iter().any(|key| get(key).is_some()) {
            return Self::of_rabbitmq(arguments);
        }
        let text = |key: &str| get(key).and_then(FieldValue::as_bytes);
        let factor = get("x-retry-factor").and_then(permille);
        let steps = text("x-retry-delays").and_then(steps);
        let backoff = match (steps, text("x-retry-backoff")) {
            (Some(steps), _) => Backoff::Steps(steps),
            (None, Some(b"fixed")) => Backoff::Fixed,
            (None, Some(b"linear")) => Backoff::Linear,
            (None, Some(_) | None) => Backoff::Exponential {
                factor_permille: factor.unwrap_or(FACTOR_DEFAULT_PERMILLE),
            },
        };
        let limit = get("x-retry-limit").and_then(FieldValue::as_integer);
        Some(Self {
            backoff,
            min_millis: get("x-retry-min")
                .and_then(millis)
                .unwrap_or(MIN_DEFAULT_MILLIS),
            max_millis: get("x-retry-max")
                .and_then(millis)
                .unwrap_or(MAX_DEFAULT_MILLIS),
            jitter_permille: get("x-retry-jitter")
                .and_then(permille)
                .unwrap_or(JITTER_DEFAULT_PERMILLE),
            limit: limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
            on: text("x-retry-on")
                .and_then(Occasion::named)
                .unwrap_or(Occasion::All),
        })
    }

    fn of_rabbitmq(arguments: &FieldTable) -> Option<Self> {
        let on = arguments.get(b"x-delayed-retry-type")?.as_bytes()?;
        Some(Self {
            backoff: Backoff::LinearInFailures,
            min_millis: arguments
                .get(b"x-delayed-retry-min")
                .and_then(millis)
                .unwrap_or(MIN_DEFAULT_MILLIS),
            max_millis: arguments
                .get(b"x-delayed-retry-max")
                .and_then(millis)
                .unwrap_or(WAIT_MAX_MILLIS),
            jitter_permille: 0,
            limit: None,
            on: Occasion::named(on)?,
        })
    }

    /// How long a message waits that has just come back for the last of these attempts.
    pub(crate) fn wait_millis(&self, seq: Seq, attempts: Attempts, failed: bool) -> u64 {
        let is_held = match self.on {
            Occasion::All => true,
            Occasion::Failed => failed,
            Occasion::Returned => !failed,
        };
        if !is_held {
            return 0;
        }
        let count = u64::from(attempts.all.max(1));
        let linear = |count: u64| self.min_millis.saturating_mul(count.max(1));
        let wait = match &self.backoff {
            Backoff::Steps(steps) => {
                let at = usize::try_from(count - 1).unwrap_or(usize::MAX);
                let step = steps.get(at).or_else(|| steps.last());
                return self.jittered(step.copied().unwrap_or_default(), seq, count);
            }
            Backoff::Fixed => self.min_millis,
            Backoff::Linear => linear(count),
            Backoff::LinearInFailures => linear(u64::from(attempts.failed)),
            Backoff::Exponential { factor_permille } => {
                self.exponential(*factor_permille, count - 1)
            }
        };
        let wait = wait.min(self.max_millis);
        self.jittered(wait, seq, count).min(WAIT_MAX_MILLIS)
    }

    fn exponential(&self, factor_permille: u64, times: u64) -> u64 {
        // In thousandths, so that a factor like 1.1 grows from one millisecond too.
        let mut wait = u128::from(self.min_millis) * 1000;
        let max = u128::from(self.max_millis) * 1000;
        for _ in 0..times {
            if wait >= max || factor_permille == 1000 {
                break;
            }
            wait = wait * u128::from(factor_permille) / 1000;
        }
        u64::try_from(wait / 1000).unwrap_or(u64::MAX)
    }

    /// Off by up to the jitter in either direction: by chance, and for one message and attempt always
    /// the same.
    fn jittered(&self, wait: u64, seq: Seq, count: u64) -> u64 {
        let most = u128::from(wait) * u128::from(self.jitter_permille) / 1000;
        let most = u64::try_from(most).unwrap_or(u64::MAX).min(WAIT_MAX_MILLIS);
        let random = chance::mixed(chance::mixed(seq.get()) ^ count);
        (wait - most.min(wait)).saturating_add(chance::below(random, 2 * most + 1))
    }
}

/// A time: an integer in milliseconds, or text such as `250ms`, `30s`, `5m`, `2h`, `7d`.
pub(super) fn millis(value: &FieldValue) -> Option<u64> {
    let millis = match value.as_bytes() {
        Some(text) => span(std::str::from_utf8(text).ok()?)?,
        None => u64::try_from(value.as_integer()?).ok()?,
    };
    (millis <= WAIT_MAX_MILLIS).then_some(millis)
}

fn span(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_at);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Times one behind the other, with commas between them.
pub(super) fn steps(text: &[u8]) -> Option<Vec<u64>> {
    let text = std::str::from_utf8(text).ok()?;
    let steps = text.split(',').map(|step| millis(&FieldValue::text(step)));
    let steps: Vec<u64> = steps.collect::<Option<_>>()?;
    (steps.len() <= STEPS_MAX).then_some(steps)
}

/// A number between 0 and 1000 in thousandths, from any number there is.
pub(super) fn permille(value: &FieldValue) -> Option<u64> {
    const MAX: u64 = 1000 * 1000;
    if let Some(number) = value.as_integer() {
        let number = u64::try_from(number).ok()?.checked_mul(1000)?;
        return (number <= MAX).then_some(number);
    }
    let number = value.as_float()? * 1000.0;
    if !(0.0..=1_000_000.0).contains(&number) {
        return None;
    }
    // Read once, at the declare: nothing later depends on how floats are rounded.
    format!("{number:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(arguments: FieldTable, failed: bool) -> Vec<u64> {
        let settings = RetrySettings::of(&arguments).unwrap();
        let attempts = |all| Attempts {
            all,
            failed: if failed { all } else { 0 },
            ..Attempts::default()
        };
        (1..=5)
            .map(|all| settings.wait_millis(Seq::new(9), attempts(all), failed))
            .collect()
    }

    fn exact() -> FieldTable {
        FieldTable::new().with("x-retry-jitter", FieldValue::Int(0))
    }

    fn text(text: &str) -> FieldValue {
        FieldValue::text(text)
    }

    #[test]
    fn waits_grow_as_they_are_told() {
        assert_eq!(waits(exact(), true), [1000, 2000, 4000, 8000, 16000]);
        let exponential = exact()
            .with("x-retry-min", FieldValue::Int(100))
            .with("x-retry-factor", FieldValue::Double(1.5))
            .with("x-retry-max", text("300ms"));
        assert_eq!(waits(exponential, true), [100, 150, 225, 300, 300]);
        let linear = exact()
            .with("x-retry-backoff", text("linear"))
            .with("x-retry-min", text("2s"))
            .with("x-retry-max", text("7s"));
        assert_eq!(waits(linear, false), [2000, 4000, 6000, 7000, 7000]);
        let fixed = exact().with("x-retry-backoff", text("fixed"));
        assert_eq!(waits(fixed, true), [1000; 5]);
        let steps = exact().with("x-retry-delays", text("1s, 10s,1m"));
        assert_eq!(waits(steps, true), [1000, 10_000, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn rabbitmqs_own_arguments_are_linear_in_failures() {
        let arguments = |on: &str| {
            FieldTable::new()
                .with("x-delayed-retry-type", text(on))
                .with("x-delayed-retry-min", FieldValue::Int(100))
                .with("x-delayed-retry-max", FieldValue::Int(350))
        };
        assert_eq!(waits(arguments("all"), true), [100, 200, 300, 350, 350]);
        assert_eq!(waits(arguments("all"), false), [100; 5]);
        assert_eq!(waits(arguments("failed"), false), [0; 5]);
        assert_eq!(RetrySettings::of(&arguments("disabled")), None);
        assert_eq!(RetrySettings::of(&FieldTable::new()), None);
    }

    #[test]
    fn only_what_is_asked_for_is_held_back() {
        let on = |on: &str| exact().with("x-retry-on", text(on));
        assert_eq!(waits(on("failed"), true)[0], 1000);
        assert_eq!(waits(on("failed"), false)[0], 0);
        assert_eq!(waits(on("returned"), true)[0], 0);
        assert_eq!(waits(on("returned"), false)[0], 1000);
    }

    #[test]
    fn jitter_is_within_its_bounds_and_the_same_each_time() {
        let arguments = FieldTable::new().with("x-retry-jitter", FieldValue::Double(0.25));
        let settings = RetrySettings::of(&arguments).unwrap();
        let attempts = Attempts {
            all: 1,
            ..Attempts::default()
        };
        let wait = |seq| settings.wait_millis(Seq::new(seq), attempts, true);
        let all: Vec<u64> = (0..1000).map(wait).collect();
        assert!(all.iter().all(|wait| (750..=1250).contains(wait)));
        assert!(all.iter().any(|wait| *wait < 800) && all.iter().any(|wait| *wait > 1200));
        assert!((0..1000).map(wait).eq(all));
    }

    #[test]
    fn times_are_numbers_or_words() {
        for (value, expected) in [
            (FieldValue::Int(5), Some(5)),
            (FieldValue::Int(-5), None),
            (text("250ms"), Some(250)),
            (text(" 2h "), Some(7_200_000)),
            (text("7d"), Some(604_800_000)),
            (text("3650d"), Some(WAIT_MAX_MILLIS)),
            (text("3651d"), None),
            (text("5"), None),
            (text("s"), None),
            (text("5 s"), None),
            (FieldValue::Bool(true), None),
        ] {
            assert_eq!(millis(&value), expected, "{value:?}");
        }
        assert_eq!(steps(b"1s,,2s"), None);
        assert_eq!(steps(b""), None);
    }
}
