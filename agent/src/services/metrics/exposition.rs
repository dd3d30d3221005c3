//! Prometheus text format, version 0.0.4. Pure; independent of the metrics.

use std::fmt::{self, Display, Write as _};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const METRIC_PREFIX: &str = "muster";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// Only increases, until the daemon restarts.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// A count and a sum.
    Summary,
}

#[derive(Debug, Default)]
pub(super) struct MetricsPage(String);

/// A metric on a page that is being written; its samples follow.
#[derive(Debug)]
pub(super) struct MetricFamily<'p> {
    page: &'p mut String,
    name: &'static str,
}

impl MetricsPage {
    pub(super) fn begin_metric(
        &mut self,
        name: &'static str,
        kind: MetricKind,
        help: &str,
    ) -> MetricFamily<'_> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Summary => "summary",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let text =
            format!("# HELP {METRIC_PREFIX}_{name} {help}\n# TYPE {METRIC_PREFIX}_{name} {kind}\n");
        self.0.push_str(&text);
        MetricFamily { page: &mut self.0, name }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl MetricFamily<'_> {
    /// Label names are constants of the program.
    pub(super) fn add_sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.add_part("", labels, value)
    }

    /// Adds one value of a summary: its `_sum` or `_count`.
    pub(super) fn add_part(
        &mut self,
        part: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> &mut Self {
        let name = self.name;
        // Writing to a `String` cannot fail.
        let _ = write!(self.page, "{METRIC_PREFIX}_{name}{part}");
        for (position, (label, given)) in labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            let _ = write!(self.page, "{before}{label}=\"{}\"", EscapedLabel(given));
        }
        if !labels.is_empty() {
            self.page.push('}');
        }
        let _ = writeln!(self.page, " {value}");
        self
    }
}

/// A label value, escaped for quotes.
struct EscapedLabel<'a>(&'a str);

impl Display for EscapedLabel<'_> {
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

    use super::{MetricKind, MetricsPage};

    #[test]
    fn metrics_have_help_type_and_samples() {
        let mut page = MetricsPage::default();
        page.begin_metric("up", MetricKind::Gauge, "A\nline \\ two").add_sample(&[], 1);
        page.begin_metric("requests_total", MetricKind::Counter, "Requests")
            .add_sample(&[("agent", "a\"b"), ("reason", "")], 3_u64);
        page.begin_metric("took_seconds", MetricKind::Summary, "Time")
            .add_part("_sum", &[], 0.25)
            .add_part("_count", &[], 2);
        let expected = "# HELP muster_up A\\nline \\\\ two\n# TYPE muster_up gauge\nmuster_up 1\n\
            # HELP muster_requests_total Requests\n# TYPE muster_requests_total counter\n\
            muster_requests_total{agent=\"a\\\"b\",reason=\"\"} 3\n\
            # HELP muster_took_seconds Time\n# TYPE muster_took_seconds summary\n\
            muster_took_seconds_sum 0.25\nmuster_took_seconds_count 2\n";
        assert_eq!(page.into_text(), expected);
    }

    proptest! {
        #[test]
        fn label_values_are_escaped(value in ".*") {
            let mut page = MetricsPage::default();
            page.begin_metric("x", MetricKind::Gauge, "").add_sample(&[("l", &value)], 1);
            let text = page.into_text();
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
