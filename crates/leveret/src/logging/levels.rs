//! How much is logged: a level, and levels of categories.

use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::config::{LogLevel, Range, Value};

/// What a line is about, in RabbitMQ's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    /// Connections from accept to end.
    Connection,
    /// Channels.
    Channel,
    /// Queues.
    Queue,
    /// Everything else.
    Default,
    /// One that RabbitMQ has and nothing here belongs to.
    Other,
}

/// RabbitMQ's names of those that nothing here belongs to.
const OTHERS: [&str; 14] = [
    "mirroring",
    "federation",
    "upgrade",
    "prelaunch",
    "ra",
    "ranch",
    "osiris",
    "shovel",
    "user",
    "stream",
    "ldap",
    "geo_replication",
    "discovery",
    "feature_flags",
];

impl Category {
    fn named(name: &str) -> Option<Self> {
        match name {
            "connection" => Some(Self::Connection),
            "channel" => Some(Self::Channel),
            "queue" => Some(Self::Queue),
            "default" => Some(Self::Default),
            other => OTHERS.contains(&other).then_some(Self::Other),
        }
    }

    /// Where lines of it are written.
    pub(super) fn targets(self) -> &'static [&'static str] {
        match self {
            Self::Connection => &["leveret_server"],
            Self::Channel => &["leveret_session"],
            Self::Queue => &[
                "leveret_core",
                "leveret_runtime::queue_handle",
                "leveret_runtime::delay_handle",
                "leveret_runtime::promise",
            ],
            Self::Default | Self::Other => &[],
        }
    }

    /// RabbitMQ's name for what is written at this target.
    pub(super) fn of(target: &str) -> &'static str {
        let belongs = |category: Self| {
            let mut targets = category.targets().iter();
            targets.any(|prefix| target.starts_with(prefix))
        };
        match () {
            () if belongs(Self::Connection) => "rabbitmq.connection",
            () if belongs(Self::Channel) => "rabbitmq.channel",
            () if belongs(Self::Queue) => "rabbitmq.queue",
            () => "rabbitmq",
        }
    }
}

/// `connection=debug`, of which several stand with commas between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CategoryLevel(Category, LogLevel);

impl CategoryLevel {
    /// What a text says, if it says anything.
    pub(crate) fn read(text: &str, range: Range) -> Option<Self> {
        let (category, level) = text.split_once('=')?;
        let category = Category::named(category.trim())?;
        Some(Self(category, LogLevel::read(level.trim(), range)?))
    }
}

/// What one output gets.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    default: LogLevel,
    of_output: Option<LogLevel>,
    categories: Vec<CategoryLevel>,
}

impl Levels {
    /// `of_output` is what the output takes at most, whatever a category says.
    pub(crate) fn new(
        default: LogLevel,
        of_output: Option<LogLevel>,
        categories: &[CategoryLevel],
    ) -> Self {
        Self {
            default,
            of_output,
            categories: categories.to_vec(),
        }
    }

    pub(super) fn targets(&self) -> Targets {
        let at_most = |level: LogLevel| {
            let filter = filter_of(level);
            self.of_output
                .map_or(filter, |of_output| filter.min(filter_of(of_output)))
        };
        let of_default = self.categories.iter().rev();
        let mut of_default = of_default.filter(|one| one.0 == Category::Default);
        let default = of_default.next().map(|one| at_most(one.1));
        let default = default
            .or_else(|| self.of_output.map(filter_of))
            .unwrap_or_else(|| filter_of(self.default));
        let mut targets = Targets::new().with_default(default);
        for &CategoryLevel(category, level) in &self.categories {
            for target in category.targets() {
                targets = targets.with_target(*target, at_most(level));
            }
        }
        targets
    }
}

fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;
    use crate::config::ANY;

    fn levels(default: LogLevel, of_output: Option<LogLevel>, categories: &str) -> Targets {
        let categories: Vec<_> = categories
            .split_terminator(',')
            .map(|text| CategoryLevel::read(text, ANY).expect("allowed"))
            .collect();
        Levels::new(default, of_output, &categories).targets()
    }

    const CONNECTION: &str = "leveret_server::calls";
    const STORE: &str = "leveret_store::recovery";

    #[test]
    fn a_category_has_its_own_level() {
        let targets = levels(LogLevel::Info, None, "connection=debug,queue=none");
        assert!(targets.would_enable(CONNECTION, &Level::DEBUG));
        assert!(!targets.would_enable("leveret_runtime::queue_handle", &Level::ERROR));
        assert!(targets.would_enable(STORE, &Level::INFO));
        assert!(!targets.would_enable(STORE, &Level::DEBUG));
    }

    #[test]
    fn an_output_takes_no_more_than_it_is_set_to() {
        let targets = levels(LogLevel::Info, Some(LogLevel::Warn), "connection=debug");
        assert!(targets.would_enable(CONNECTION, &Level::WARN));
        assert!(!targets.would_enable(CONNECTION, &Level::INFO));
        assert!(!targets.would_enable(STORE, &Level::INFO));
    }

    #[test]
    fn an_output_that_takes_more_gets_more() {
        let targets = levels(LogLevel::Info, Some(LogLevel::Debug), "");
        assert!(targets.would_enable(STORE, &Level::DEBUG));
        let targets = levels(LogLevel::Info, Some(LogLevel::Debug), "default=warning");
        assert!(!targets.would_enable(STORE, &Level::INFO));
    }

    #[test]
    fn what_is_no_category_is_none() {
        for text in ["connection", "nothing=debug", "connection=loud", "=debug"] {
            assert_eq!(CategoryLevel::read(text, ANY), None, "{text}");
        }
        assert!(CategoryLevel::read("upgrade=none", ANY).is_some());
    }
}
