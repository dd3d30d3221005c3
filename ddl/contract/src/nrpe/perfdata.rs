//! Parses performance data of Nagios plugins: `'label'=value[UOM];[warn];[crit];[min];[max]`, separated by spaces.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most values of one output.
const MAX_METRICS: usize = 1000;
/// Longest unit, in bytes.
const MAX_UNIT_BYTES: usize = 16;

/// One value of performance data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PerfMetric {
    /// The label, without quotes.
    pub label: String,
    /// The value; absent if the plugin could not determine it (`U`).
    pub value: Option<f64>,
    /// The unit, such as `s`, `%`, `KB` or `c`; empty for a plain number.
    pub unit: String,
    /// The range beyond which the plugin warns, as the plugin wrote it; absent if it is no range.
    pub warning: Option<String>,
    /// The range beyond which the state is critical, as the plugin wrote it; absent if it is no range.
    pub critical: Option<String>,
    /// The lowest possible value.
    pub min: Option<f64>,
    /// The highest possible value.
    pub max: Option<f64>,
}

/// Parses performance data, at most 1000 values. Parts that do not fit the grammar are left out.
pub fn parse_perfdata(text: &str) -> Vec<PerfMetric> {
    let mut metrics = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && metrics.len() < MAX_METRICS {
        let after_label = split_label(rest);
        let values = after_label.as_ref().map_or(rest, |(_, values)| values);
        let end = values.find(char::is_whitespace).unwrap_or(values.len());
        let (values, after) = values.split_at_checked(end).unwrap_or((values, ""));
        metrics.extend(after_label.and_then(|(label, _)| parse_values(label, values)));
        rest = after.trim_start();
    }
    metrics
}

/// The label at the beginning, and what is after its `=`. A label with spaces, `=` or `'` is quoted; `''` is a quote in it.
fn split_label(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('\'') else {
        let (label, rest) = text.split_once('=')?;
        let is_plain =
            !label.is_empty() && !label.contains(|c: char| c.is_whitespace() || c == '\'');
        return is_plain.then(|| (label.to_owned(), rest));
    };
    let mut label = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('\'')?;
        label.push_str(part);
        match after.strip_prefix('\'') {
            Some(after) => {
                label.push('\'');
                rest = after;
            }
            None => return after.strip_prefix('=').map(|rest| (label, rest)),
        }
    }
}

fn parse_values(label: String, text: &str) -> Option<PerfMetric> {
    let mut fields = text.split(';');
    let (value, unit) = parse_value(fields.next()?)?;
    let mut range = || fields.next().filter(|range| is_range(range)).map(str::to_owned);
    let (warning, critical) = (range(), range());
    let mut limit = || fields.next().and_then(parse_number);
    let (min, max) = (limit(), limit());
    Some(PerfMetric { label, value, unit: unit.to_owned(), warning, critical, min, max })
}

/// A value with its unit; `U` is a value that is not known.
fn parse_value(text: &str) -> Option<(Option<f64>, &str)> {
    if text == "U" {
        return Some((None, ""));
    }
    let (number, unit) = text.split_at_checked(number_length(text))?;
    // A unit that begins with a point would be part of the number when it is written as `1.`.
    let is_unit = unit.len() <= MAX_UNIT_BYTES
        && !unit.starts_with('.')
        && !unit.contains(|c: char| "'=|".contains(c) || c.is_ascii_digit());
    is_unit.then(|| Some((Some(parse_number(number)?), unit)))?
}

/// Length of the decimal number at the beginning, with an exponent.
fn number_length(text: &str) -> usize {
    let count_digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let skip = |from: usize| text.get(from..).unwrap_or_default();
    let mut length = usize::from(text.starts_with(['+', '-']));
    length += count_digits(skip(length));
    if skip(length).starts_with('.') {
        length += 1 + count_digits(skip(length + 1));
    }
    if skip(length).starts_with(['e', 'E']) {
        let sign = usize::from(skip(length + 1).starts_with(['+', '-']));
        let digits = count_digits(skip(length + 1 + sign));
        if digits > 0 {
            length += 1 + sign + digits;
        }
    }
    length
}

/// A finite decimal number; `inf` and `nan` are none.
fn parse_number(text: &str) -> Option<f64> {
    let is_number = !text.is_empty() && number_length(text) == text.len();
    text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
}

/// Whether a text is a range of the plugin guidelines: `10`, `10:`, `~:10`, `10:20`, and `@10:20` for what is inside. The begin is 0 if it is absent, `~` is minus infinity,
/// and an absent end is infinity. The begin is not above the end.
fn is_range(text: &str) -> bool {
    let text = text.strip_prefix('@').unwrap_or(text);
    let Some((begin, end)) = text.split_once(':') else { return parse_number(text).is_some() };
    let begin = match begin {
        "" if end.is_empty() => return false,
        "" => Some(0.0),
        "~" => Some(f64::NEG_INFINITY),
        begin => parse_number(begin),
    };
    let end = if end.is_empty() { Some(f64::INFINITY) } else { parse_number(end) };
    begin.zip(end).is_some_and(|(begin, end)| begin <= end)
}

impl fmt::Display for PerfMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = !self.label.is_empty()
            && !self.label.contains(|c: char| c.is_whitespace() || c == '\'' || c == '=');
        if is_plain {
            write!(f, "{}=", self.label)?;
        } else {
            write!(f, "'{}'=", self.label.replace('\'', "''"))?;
        }
        match self.value {
            Some(value) => write!(f, "{value}{}", self.unit)?,
            None => f.write_str("U")?,
        }
        let number = |number: Option<f64>| number.map(|number| number.to_string());
        let fields =
            [self.warning.clone(), self.critical.clone(), number(self.min), number(self.max)];
        let count = fields.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for field in fields.into_iter().take(count) {
            write!(f, ";{}", field.unwrap_or_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PerfMetric, parse_perfdata};

    fn metric(label: &str, value: impl Into<Option<f64>>, unit: &str) -> PerfMetric {
        PerfMetric {
            label: label.to_owned(),
            value: value.into(),
            unit: unit.to_owned(),
            warning: None,
            critical: None,
            min: None,
            max: None,
        }
    }

    #[test]
    fn parses_values_units_and_limits() {
        let full = PerfMetric {
            warning: Some("5948".to_owned()),
            critical: Some("@10:20".to_owned()),
            min: Some(0.0),
            max: Some(5968.0),
            ..metric("/", 2643.0, "MB")
        };
        for (text, expected) in [
            ("", vec![]),
            ("load1=0.5", vec![metric("load1", 0.5, "")]),
            ("/=2643MB;5948;@10:20;0;5968", vec![full]),
            (
                "a=1s b=-2.5%  c=3c",
                vec![metric("a", 1.0, "s"), metric("b", -2.5, "%"), metric("c", 3.0, "c")],
            ),
            ("'my disk'=1KB", vec![metric("my disk", 1.0, "KB")]),
            ("'it''s = it'=1", vec![metric("it's = it", 1.0, "")]),
            (
                "a=U b=1e3 c=.5",
                vec![metric("a", None, ""), metric("b", 1000.0, ""), metric("c", 0.5, "")],
            ),
            ("a=1;;;0", vec![PerfMetric { min: Some(0.0), ..metric("a", 1.0, "") }]),
            // Parts that do not fit are left out, and those after them are read.
            ("junk a=1", vec![metric("a", 1.0, "")]),
            ("=1 a=1", vec![metric("a", 1.0, "")]),
            ("b=1.0. a=1", vec![metric("a", 1.0, "")]),
            ("a=x b=inf c=nan d=1,5 e=1", vec![metric("e", 1.0, "")]),
            ("'open=1 a=1", vec![metric("a", 1.0, "")]),
            ("a=1;$(x);`y`;z;w", vec![metric("a", 1.0, "")]),
        ] {
            assert_eq!(parse_perfdata(text), expected, "{text}");
        }
    }

    /// The plugin guidelines, and `parse_range_string` of the monitoring plugins. That also reads the begin of `2..3` and ignores the rest.
    #[test]
    fn ranges_are_those_of_the_plugin_guidelines() {
        for range in
            ["10", "-1.5", "1e3", "10:", ":10", "~:", "~:-5", "10:20", "5:5", "@10:20", "@~:3"]
        {
            let metric = parse_perfdata(&format!("a=1;{range};{range}")).remove(0);
            assert_eq!(metric.warning.as_deref(), Some(range));
            assert_eq!(metric.critical.as_deref(), Some(range));
        }
        for text in
            ["2..3", "10:5", "~", "10:~", "@", ":", "@:", "1:2:3", "1-2", "e", "--1", "@@1", "."]
        {
            let metric = parse_perfdata(&format!("a=1;{text};7;0;9")).remove(0);
            assert_eq!(metric.warning, None, "{text}");
            assert_eq!((metric.critical.as_deref(), metric.max), (Some("7"), Some(9.0)), "{text}");
        }
    }

    #[test]
    fn number_of_values_is_limited() {
        assert_eq!(parse_perfdata(&"a=1 ".repeat(5000)).len(), 1000);
    }

    fn metrics() -> impl Strategy<Value = PerfMetric> {
        let range = || {
            prop::option::of(
                "@?([0-9]{1,3}:?|~?:[0-9]{1,3}|[0-9]:[0-9]{2,3})"
                    .prop_filter("a range", |range| super::is_range(range)),
            )
        };
        let number = || prop::option::of(-1.0e6..1.0e6);
        (
            "[a-z '=/é]{1,8}",
            number(),
            "(s|ms|us|%|B|KB|MB|TB|c)?",
            range(),
            range(),
            number(),
            number(),
        )
            .prop_map(|(label, value, unit, warning, critical, min, max)| PerfMetric {
                unit: value.map(|_| unit).unwrap_or_default(),
                label,
                value,
                warning,
                critical,
                min,
                max,
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(metrics in prop::collection::vec(metrics(), 0..8)) {
            let text: Vec<String> = metrics.iter().map(ToString::to_string).collect();
            prop_assert_eq!(parse_perfdata(&text.join(" ")), metrics);
        }

        #[test]
        fn any_text_is_accepted_and_values_are_finite(text in ".{0,200}") {
            for metric in parse_perfdata(&text) {
                prop_assert!(metric.value.is_none_or(f64::is_finite));
                prop_assert!(!metric.label.is_empty() || text.contains("''"));
            }
        }
    }
}
