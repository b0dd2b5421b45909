//! The text format of Prometheus.

use std::fmt::{Display, Write};

/// What kind of number a family is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Untyped,
}

/// A page of metrics.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
}

impl Page {
    /// Begins a family.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Untyped => "untyped",
        };
        // Writing into a string does not fail.
        let _ = write!(self.text, "# TYPE {name} {kind}\n# HELP {name} {help}\n");
    }

    /// A series of the family at hand.
    pub(crate) fn series(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.put(name, labels, &value);
    }

    /// The same, where there may be no number.
    pub(crate) fn series_or_nan(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: Option<u64>,
    ) {
        match value {
            Some(value) => self.put(name, labels, &value),
            None => self.put(name, labels, &"NaN"),
        }
    }

    fn put(&mut self, name: &str, labels: &[(&str, &str)], value: &dyn Display) {
        self.text.push_str(name);
        if !labels.is_empty() {
            self.text.push('{');
            for (at, (label, value)) in labels.iter().enumerate() {
                if at > 0 {
                    self.text.push(',');
                }
                let _ = write!(self.text, "{label}=\"{}\"", escaped(value));
            }
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A family of one series without labels.
    pub(crate) fn single(&mut self, name: &str, kind: Kind, help: &str, value: u64) {
        self.family(name, kind, help);
        self.series(name, &[], value);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_families_of_series() {
        let mut page = Page::default();
        page.family("a_total", Kind::Counter, "Some");
        page.series("a_total", &[("queue", "q\"1\\\n"), ("vhost", "/")], 7);
        page.single("b", Kind::Gauge, "Other", 1);
        assert_eq!(
            page.into_text(),
            "# TYPE a_total counter\n# HELP a_total Some\n\
             a_total{queue=\"q\\\"1\\\\\\n\",vhost=\"/\"} 7\n\
             # TYPE b gauge\n# HELP b Other\nb 1\n"
        );
    }
}
