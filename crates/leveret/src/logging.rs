//! Where log lines go, how much of what, and how they look.
//!
//! ```text
//!   event ─┬─ filter of the console ─▶ line or JSON ─▶ standard output or error
//!          └─ filter of the file ────▶ line or JSON ─▶ a file that is rotated
//! ```
//!
//! A filter is a level and the levels of categories; both filters can be changed while the broker runs.

mod file;
mod levels;
mod line;

use std::{
    fmt,
    io::{self, IsTerminal, stderr, stdout},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use leveret_management::LogControl;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt::writer::BoxMakeWriter, layer::SubscriberExt, registry,
    reload, util::SubscriberInitExt,
};

pub(crate) use self::levels::CategoryLevel;
use self::{
    file::{LogFile, Rotation},
    levels::Levels,
    line::{Json, Line},
};
use crate::config::{Bytes, LogFileName, LogFormat, LogLevel, LogTo, Settings};

/// What the log goes to.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    console: Option<(LogTo, LogFormat, Levels)>,
    file: Option<(PathBuf, Rotation, LogFormat, Levels)>,
}

impl Plan {
    /// As an operator wants it; `to` is where the console is when nobody says.
    pub(crate) fn of(settings: &Settings, to: LogTo) -> Self {
        let levels = |of_output: Option<LogLevel>| {
            Levels::new(settings.log_level, of_output, &settings.log_categories.0)
        };
        let (path, console_only) = match &settings.log_file {
            LogFileName::None => (None, false),
            LogFileName::ConsoleOnly => (None, true),
            LogFileName::At(path) => (Some(path), false),
        };
        let path = path.map(|path| match &settings.log_dir {
            Some(dir) if path.is_relative() => dir.join(path),
            _ => path.clone(),
        });
        let rotation = Rotation {
            bytes_max: settings.log_file_rotation_size.map(|Bytes(size)| size),
            kept: settings.log_file_rotation_count,
        };
        let console = settings.log_console || console_only || path.is_none();
        let to = settings.log_to.unwrap_or(to);
        let (format, level) = (settings.log_format, settings.log_console_level);
        Self {
            console: console.then(|| (to, format, levels(level))),
            file: path.map(|path| {
                let level = settings.log_file_level;
                (path, rotation, settings.log_file_format, levels(level))
            }),
        }
    }

    /// Lines for whoever sits before it.
    pub(crate) fn on_stderr() -> Self {
        let levels = Levels::new(LogLevel::Info, None, &[]);
        Self {
            console: Some((LogTo::Stderr, LogFormat::Text, levels)),
            file: None,
        }
    }

    /// Where it goes, as RabbitMQ names it.
    pub(crate) fn names(&self) -> Vec<String> {
        let file = self
            .file
            .iter()
            .map(|(path, ..)| path.display().to_string());
        let console = self.console.iter().map(|(to, ..)| {
            let name = match to {
                LogTo::Stderr => "<stderr>",
                LogTo::Stdout => "<stdout>",
            };
            name.to_owned()
        });
        file.chain(console).collect()
    }

    /// Starts logging; once per process.
    pub(crate) fn start(self) -> io::Result<Arc<Logging>> {
        let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = Vec::new();
        let mut outputs = Vec::new();
        let mut add = |writer: BoxMakeWriter, format, levels: Levels, has_colours| {
            let (filter, handle) = reload::Layer::new(levels.targets());
            outputs.push(Output {
                levels,
                // It fails when the subscriber is gone, which lives as long as the process.
                apply: Box::new(move |targets| drop(handle.reload(targets))),
            });
            let layer = tracing_subscriber::fmt::layer().with_writer(writer);
            layers.push(match format {
                LogFormat::Text => layer
                    .with_ansi(has_colours)
                    .event_format(Line)
                    .with_filter(filter)
                    .boxed(),
                LogFormat::Json => layer.event_format(Json).with_filter(filter).boxed(),
            });
        };
        if let Some((to, format, levels)) = self.console {
            let (writer, is_terminal) = match to {
                LogTo::Stderr => (BoxMakeWriter::new(stderr), stderr().is_terminal()),
                LogTo::Stdout => (BoxMakeWriter::new(stdout), stdout().is_terminal()),
            };
            add(writer, format, levels, is_terminal);
        }
        if let Some((path, rotation, format, levels)) = self.file {
            let file = LogFile::open(path, rotation)?;
            add(BoxMakeWriter::new(file), format, levels, false);
        }
        registry().with(layers).init();
        Ok(Arc::new(Logging(Mutex::new(outputs))))
    }
}

/// What can be changed while lines are written.
pub(crate) struct Logging(Mutex<Vec<Output>>);

struct Output {
    levels: Levels,
    apply: Box<dyn Fn(Targets) + Send>,
}

impl fmt::Debug for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logging").finish_non_exhaustive()
    }
}

impl LogControl for Logging {
    fn set_level(&self, level: &str) -> bool {
        use crate::config::Value;
        let Some(level) = LogLevel::read(level, crate::config::ANY) else {
            return false;
        };
        for output in &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            output.levels = Levels::new(level, None, &[]);
            (output.apply)(output.levels.targets());
        }
        true
    }
}
