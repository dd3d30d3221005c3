//! The text format in which Prometheus reads metrics, version 0.0.4. Pure; knows nothing of what is measured.

use std::fmt::{self, Display, Write as _};

/// What its readers call the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Begins every name.
const PREFIX: &str = "muster";

/// How values of a metric go on in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows, until the daemon starts anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A count and a sum.
    Summary,
}

/// A page being written.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// A metric of a page being written; its samples follow.
#[derive(Debug)]
pub(super) struct Metric<'p> {
    page: &'p mut String,
    name: &'static str,
}

impl Page {
    /// Begins a metric.
    pub(super) fn metric(&mut self, name: &'static str, kind: Kind, help: &str) -> Metric<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let text = format!("# HELP {PREFIX}_{name} {help}\n# TYPE {PREFIX}_{name} {kind}\n");
        self.0.push_str(&text);
        Metric {
            page: &mut self.0,
            name,
        }
    }

    /// A metric without labels.
    pub(super) fn one(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.metric(name, kind, help).sample(&[], value);
    }

    /// The whole page.
    pub(super) fn text(self) -> String {
        self.0
    }
}

impl Metric<'_> {
    /// One value. The names of labels are the program's own.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.part("", labels, value)
    }

    /// One value of a summary: its `_sum` or `_count`.
    pub(super) fn part(
        &mut self,
        part: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> &mut Self {
        let name = self.name;
        // Writing into a text cannot fail.
        let _ = write!(self.page, "{PREFIX}_{name}{part}");
        for (position, (label, given)) in labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            let _ = write!(self.page, "{before}{label}=\"{}\"", Escaped(given));
        }
        if !labels.is_empty() {
            self.page.push('}');
        }
        let _ = writeln!(self.page, " {value}");
        self
    }
}

/// A label's value as it stands between quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Kind, Page};

    #[test]
    fn metrics_have_help_type_and_samples() {
        let mut page = Page::default();
        page.one("up", Kind::Gauge, "A\nline \\ two", 1);
        page.metric("requests_total", Kind::Counter, "Requests")
            .sample(&[("agent", "a\"b"), ("reason", "")], 3_u64);
        page.metric("took_seconds", Kind::Summary, "Time")
            .part("_sum", &[], 0.25)
            .part("_count", &[], 2);
        let expected = "# HELP muster_up A\\nline \\\\ two\n# TYPE muster_up gauge\nmuster_up 1\n\
            # HELP muster_requests_total Requests\n# TYPE muster_requests_total counter\n\
            muster_requests_total{agent=\"a\\\"b\",reason=\"\"} 3\n\
            # HELP muster_took_seconds Time\n# TYPE muster_took_seconds summary\n\
            muster_took_seconds_sum 0.25\nmuster_took_seconds_count 2\n";
        assert_eq!(page.text(), expected);
    }

    proptest! {
        #[test]
        fn no_value_of_a_label_gets_out_of_its_quotes(value in ".*") {
            let mut page = Page::default();
            page.metric("x", Kind::Gauge, "").sample(&[("l", &value)], 1);
            let text = page.text();
            let sample = text.split_once("gauge\n").unwrap().1;
            let quoted = sample.strip_prefix("muster_x{l=\"").unwrap().strip_suffix("\"} 1\n").unwrap();
            let (mut read, mut characters) = (String::new(), quoted.chars());
            while let Some(character) = characters.next() {
                prop_assert!(character != '"' && character != '\n');
                read.push(match character {
                    '\\' => match characters.next().unwrap() {
                        'n' => '\n',
                        escaped => escaped,
                    },
                    plain => plain,
                });
            }
            prop_assert_eq!(read, value);
        }
    }
}
