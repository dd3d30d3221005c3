//! The `format` argument of aggregates: the subset of printf in published DDLs.
//!
//! `%s` and `%v` take text, `%d` and `%i` a number rounded to an integer, `%f` one with `.precision` digits; flags `-` and `0`
//! and a width as in C; `%%` is a percent sign. The first directive of a row takes the value and the second its count; a
//! directive without an argument is kept as written. Rendering cannot fail, because a badly formatted summary is better
//! than none.

use serde_json::Number;

/// Limit of width and precision in a format.
const MAX_FORMAT_WIDTH: usize = 200;

enum FormatArgument<'a> {
    Text(&'a str),
    Number(&'a Number),
}

/// Renders `format` with the value's label, if any, and the number.
pub(super) fn render_format(format: &str, label: Option<&str>, number: &Number) -> String {
    let mut arguments =
        label.map(FormatArgument::Text).into_iter().chain([FormatArgument::Number(number)]);
    let mut output = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        output.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            output.push('%');
            rest = after;
            continue;
        }
        let Some((directive, after)) = FormatDirective::parse_leading(after) else {
            output.push('%');
            rest = after;
            continue;
        };
        match arguments.next() {
            Some(argument) => output.push_str(&directive.render_argument(&argument)),
            None => output.push_str(&directive.text),
        }
        rest = after;
    }
    output + rest
}

struct FormatDirective {
    text: String,
    left: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    verb: char,
}

impl FormatDirective {
    /// The directive after a percent sign, and the rest of `text`.
    fn parse_leading(text: &str) -> Option<(Self, &str)> {
        let after_flags = text.trim_start_matches(['-', '0', '+', ' ']);
        let flags = text.strip_suffix(after_flags)?;
        let (width, rest) = leading_number(after_flags);
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(rest) => {
                let (precision, rest) = leading_number(rest);
                (Some(precision), rest)
            }
            None => (None, rest),
        };
        let verb = rest.chars().next().filter(|verb| "svdif".contains(*verb))?;
        let after = rest.strip_prefix(verb)?;
        let directive = Self {
            text: format!("%{}", text.strip_suffix(after)?),
            left: flags.contains('-'),
            zeros: flags.contains('0'),
            width,
            precision,
            verb,
        };
        Some((directive, after))
    }

    fn render_argument(&self, argument: &FormatArgument<'_>) -> String {
        let text = match (self.verb, argument) {
            ('d' | 'i', FormatArgument::Number(number)) => match number.as_i128() {
                Some(integer) => integer.to_string(),
                None => format!("{:.0}", to_float(number)),
            },
            ('f', FormatArgument::Number(number)) => {
                format!("{:.*}", self.precision.unwrap_or(6), to_float(number))
            }
            (_, FormatArgument::Number(number)) => number.to_string(),
            (_, FormatArgument::Text(text)) => (*text).to_owned(),
        };
        let width = self.width;
        match argument {
            _ if self.left => format!("{text:<width$}"),
            FormatArgument::Number(_) if self.zeros => match text.strip_prefix('-') {
                Some(digits) => format!("-{digits:0>width$}", width = width.saturating_sub(1)),
                None => format!("{text:0>width$}"),
            },
            _ => format!("{text:>width$}"),
        }
    }
}

fn to_float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

fn leading_number(text: &str) -> (usize, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.strip_suffix(rest).unwrap_or_default();
    let number = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(MAX_FORMAT_WIDTH) };
    (number.min(MAX_FORMAT_WIDTH), rest)
}

#[cfg(test)]
mod tests {
    use super::render_format;

    #[test]
    fn row_formats_take_value_and_count() {
        assert_eq!(
            render_format("%s Tests on %d node(s)", Some("7"), &3.into()),
            "7 Tests on 3 node(s)"
        );
        assert_eq!(render_format("%-5s|%03d|", Some("ok"), &7.into()), "ok   |007|");
        assert_eq!(render_format("%5s", Some("é"), &7.into()), "    é");
    }

    #[test]
    fn numbers_are_rounded_to_the_precision() {
        let number = serde_json::Number::from_f64(2.625).unwrap();
        assert_eq!(render_format("Average: %0.2f", None, &number), "Average: 2.62");
        assert_eq!(render_format("Average: %d", None, &number), "Average: 3");
        assert_eq!(
            render_format("%06.1f", None, &serde_json::Number::from_f64(-2.5).unwrap()),
            "-002.5"
        );
    }

    #[test]
    fn unknown_directives_are_kept_as_text() {
        assert_eq!(render_format("100%% %s %s %d %q %", Some("a"), &1.into()), "100% a 1 %d %q %");
        assert_eq!(render_format("%999999999999d", None, &1.into()).len(), super::MAX_FORMAT_WIDTH);
    }
}
