//! Durations in Go syntax: `10s`, `1h30m`, `1.5h`, `250ms`.
//!
//! In addition to Go's units, `d` (24 hours) and `w` (7 days) are accepted; negative durations are refused.

use std::time::Duration;

/// Nanoseconds per unit; longer names first, so that `m` does not match before `ms`.
const DURATION_UNITS: [(&str, u128); 10] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// Significant digits of a fraction: a nanosecond is more than 10^-15 weeks.
const MAX_FRACTION_DIGITS: usize = 15;

pub(super) fn is_duration(text: &str) -> bool {
    parse_duration(text).is_some()
}

/// Parses a duration; `None` if it is invalid, or exceeds [`Duration`].
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanoseconds: u128 = 0;
    loop {
        let (part, after) = leading_part(rest)?;
        nanoseconds = nanoseconds.checked_add(part)?;
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).ok()?;
    let subsecond_nanos = u32::try_from(nanoseconds % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, subsecond_nanos))
}

/// The first number with its unit, in nanoseconds, and the rest.
fn leading_part(text: &str) -> Option<(u128, &str)> {
    let (whole, rest) = leading_digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, rest) =
        DURATION_UNITS.iter().find_map(|(name, unit)| Some((*unit, rest.strip_prefix(name)?)))?;
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u128>().ok()? };
    let nanoseconds = whole.checked_mul(unit)?.checked_add(fraction_of_unit(unit, fraction)?)?;
    Some((nanoseconds, rest))
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// `unit * 0.fraction`, rounded down to whole nanoseconds.
fn fraction_of_unit(unit: u128, fraction: &str) -> Option<u128> {
    let digits = fraction.get(..fraction.len().min(MAX_FRACTION_DIGITS))?;
    if digits.is_empty() {
        return Some(0);
    }
    let scale = 10_u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    Some(digits.parse::<u128>().ok()?.checked_mul(unit)? / scale)
}
