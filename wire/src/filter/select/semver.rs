//! Versions (semver.org 2.0.0) and version constraints: `>= 1.2, < 2 || ~3.1`.
//!
//! Commas and white space mean "and", `||` means "or". `~1.2.3` allows later patches, `^1.2.3` allows changes that keep the
//! first non-zero number. Numbers may be omitted: `1.2` in a constraint means any 1.2, in a value it means 1.2.0.
//! A leading `v` is ignored. A pre-release satisfies only constraints that name a pre-release themselves.

use std::ops::{Bound, RangeBounds as _};

use crate::filter::error::FilterFault;
use crate::filter::pattern::MAX_PATTERN_BYTES;

/// A version constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionConstraint {
    text: String,
    /// Alternatives; one must match.
    alternatives: Vec<VersionRangeSet>,
}

/// Ranges; all must match.
#[derive(Debug, Clone, PartialEq, Eq)]
struct VersionRangeSet {
    ranges: Vec<VersionRange>,
    pre_releases: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct VersionRange {
    is_excluded: bool,
    bounds: (Bound<SemanticVersion>, Bound<SemanticVersion>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SemanticVersion {
    numbers: [u64; 3],
    stage: ReleaseStage,
}

/// In release order: pre-releases before the release.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ReleaseStage {
    Pre(Vec<PrereleaseIdentifier>),
    Release,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PrereleaseIdentifier {
    Number(u64),
    Text(String),
}

/// Longer operators precede their prefixes.
const VERSION_OPERATORS: [&str; 12] = [
    "==", "!=", ">=", "=>", "<=", "=<", "~>", "=", ">", "<", "~", "^",
];

impl VersionConstraint {
    /// Parses a constraint. White space around it is ignored.
    pub(super) fn parse_part(text: &str) -> Result<Self, FilterFault> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(FilterFault::new(
                0,
                "a version constraint of at most 1,024 bytes",
            ));
        }
        let mut alternatives = Vec::new();
        let mut at = 0;
        for part in text.split("||") {
            alternatives
                .push(VersionRangeSet::parse_part(part).map_err(|fault| fault.shifted_by(at))?);
            at += part.len() + 2;
        }
        let text = text.trim().to_owned();
        Ok(Self { text, alternatives })
    }

    /// The constraint as written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a text is a version that satisfies the constraint.
    pub(super) fn accepts_version(&self, version: &str) -> bool {
        let Some((version, 1..=3)) = read_version(version) else {
            return false;
        };
        let is_pre = version.stage != ReleaseStage::Release;
        self.alternatives.iter().any(|range_set| {
            (range_set.pre_releases || !is_pre)
                && range_set
                    .ranges
                    .iter()
                    .all(|range| range.bounds.contains(&version) != range.is_excluded)
        })
    }
}

impl VersionRangeSet {
    fn parse_part(text: &str) -> Result<Self, FilterFault> {
        let is_separator = |c: char| c == ',' || c == ' ';
        let mut range_set = Self {
            ranges: Vec::new(),
            pre_releases: false,
        };
        let mut rest = text.trim_start_matches(is_separator);
        while !rest.is_empty() {
            let at = text.len() - rest.len();
            let operator = VERSION_OPERATORS
                .into_iter()
                .find(|spelling| rest.starts_with(spelling));
            let operator = operator.unwrap_or_default();
            let version = rest.get(operator.len()..).unwrap_or_default().trim_start();
            let end = version.find(is_separator).unwrap_or(version.len());
            let (version, after) = version.split_at_checked(end).unwrap_or((version, ""));
            let found = read_version(version).and_then(|(version, given)| {
                Some((
                    VersionRange::from_operator(operator, &version, given)?,
                    version,
                ))
            });
            let Some((range, version)) = found else {
                let expected = "a version constraint, such as >= 1.2, ~1.2.3 or ^2";
                return Err(FilterFault::new(at, expected));
            };
            range_set.ranges.push(range);
            range_set.pre_releases |= version.stage != ReleaseStage::Release;
            rest = after.trim_start_matches(is_separator);
        }
        if range_set.ranges.is_empty() {
            let expected = "a version constraint, such as >= 1.2, ~1.2.3 or ^2";
            return Err(FilterFault::new(0, expected));
        }
        Ok(range_set)
    }
}

impl VersionRange {
    /// The range of an operator and a version of which `given` numbers were written. Without numbers, only equality and
    /// inequality are valid.
    fn from_operator(operator: &str, version: &SemanticVersion, given: usize) -> Option<Self> {
        use Bound::{Excluded, Included, Unbounded};
        let from = || Included(version.clone());
        // The end of all versions that begin with the written numbers.
        let to = || match given {
            3 => Some(Included(version.clone())),
            _ => version.before_next(given.saturating_sub(1)).map(Excluded),
        };
        let bounds = match operator {
            "" | "=" | "==" | "!=" if given == 0 => (Unbounded, Unbounded),
            _ if given == 0 => return None,
            "" | "=" | "==" | "!=" => (from(), to()?),
            ">=" | "=>" => (from(), Unbounded),
            ">" if given == 3 => (Excluded(version.clone()), Unbounded),
            ">" => (Included(version.before_next(given - 1)?), Unbounded),
            "<=" | "=<" => (Unbounded, to()?),
            "<" => (Unbounded, Excluded(version.clone())),
            "^" => {
                let first_nonzero = version.numbers.iter().take(given).position(|n| *n != 0);
                let last = first_nonzero.unwrap_or(given - 1);
                (from(), Excluded(version.before_next(last)?))
            }
            _ => (
                from(),
                Excluded(version.before_next(usize::from(given > 1))?),
            ),
        };
        let is_excluded = operator == "!=";
        Some(Self {
            is_excluded,
            bounds,
        })
    }
}

impl SemanticVersion {
    /// The lower bound, pre-releases included, of versions whose number at this place is one greater.
    /// `None` on overflow.
    fn before_next(&self, index: usize) -> Option<Self> {
        let [major, minor, patch] = self.numbers;
        let numbers = match index {
            0 => [major.checked_add(1)?, 0, 0],
            1 => [major, minor.checked_add(1)?, 0],
            _ => [major, minor, patch.checked_add(1)?],
        };
        let stage = ReleaseStage::Pre(Vec::new());
        Some(Self { numbers, stage })
    }
}

/// A version, and how many of its numbers were written. `x` and `*` count as omitted.
fn read_version(text: &str) -> Option<(SemanticVersion, usize)> {
    let text = text.trim();
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let text = text
        .split_once('+')
        .map_or(text, |(version, _build)| version);
    let (numbers_text, stage) = match text.split_once('-') {
        Some((numbers, pre)) => (numbers, ReleaseStage::Pre(read_identifiers(pre)?)),
        None => (text, ReleaseStage::Release),
    };
    let mut parts = numbers_text.split('.');
    let mut numbers = [0; 3];
    let mut given = 0;
    let mut has_wildcard = false;
    for (number, part) in numbers.iter_mut().zip(parts.by_ref()) {
        has_wildcard |= matches!(part, "x" | "X" | "*");
        if !has_wildcard {
            *number = read_number(part)?;
            given += 1;
        } else if !matches!(part, "x" | "X" | "*") {
            return None;
        }
    }
    if parts.next().is_some() || (given < 3 && stage != ReleaseStage::Release) {
        return None;
    }
    Some((SemanticVersion { numbers, stage }, given))
}

fn read_identifiers(text: &str) -> Option<Vec<PrereleaseIdentifier>> {
    text.split('.')
        .map(|part| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if part.is_empty() || !part.bytes().all(is_allowed) {
                return None;
            }
            let number = read_number(part).map(PrereleaseIdentifier::Number);
            Some(number.unwrap_or_else(|| PrereleaseIdentifier::Text(part.to_owned())))
        })
        .collect()
}

fn read_number(text: &str) -> Option<u64> {
    let is_numeric = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_numeric { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::VersionConstraint;

    fn accepts(demand: &str, version: &str) -> bool {
        let demand = VersionConstraint::parse_part(demand)
            .unwrap_or_else(|fault| panic!("{demand}: {fault:?}"));
        demand.accepts_version(version)
    }

    #[test]
    fn demands_and_what_satisfies_them() {
        for (demand, yes, no) in [
            ("1.2.3", "1.2.3", "1.2.4"),
            ("= 1.2", "1.2.9", "1.3.0"),
            ("!=1.2", "1.3", "1.2.9"),
            (">1.2", "1.3.0", "1.2.9"),
            (">1.2.3", "1.2.4", "1.2.3"),
            (">= 1.2", "v1.2", "1.1.99"),
            ("<1.2", "1.1.9", "1.2.0"),
            ("<=1.2", "1.2.9", "1.3.0"),
            ("=<1.2.3", "1.2.3", "1.2.4"),
            ("~1.2.3", "1.2.9", "1.3.0"),
            ("~>1.2", "1.2.0", "1.3.0"),
            ("~1", "1.9.0", "2.0.0"),
            ("^1.2.3", "1.9.0", "2.0.0"),
            ("^0.2.3", "0.2.9", "0.3.0"),
            ("^0.0.3", "0.0.3", "0.0.4"),
            ("^0.0", "0.0.9", "0.1.0"),
            ("^0", "0.9.0", "1.0.0"),
            ("1.x", "1.9.9", "2.0.0"),
            ("1.*.*", "1.0.0", "0.9.9"),
            ("*", "7", "7.0.0-rc1"),
            (">=1.2, <2", "1.10.0", "2.0.0"),
            (">=1.2 <2", "1.10.0", "1.1.0"),
            ("<1 || >=2 <3", "2.5", "1.5"),
            (">=1.0.0-rc.2", "1.0.0-rc.10", "1.0.0-rc.1"),
            (">=1.0.0-1", "1.0.0-a", "1.0.0-0"),
            ("^1.0.0-a", "1.0.0-a.1", "2.0.0-a"),
            (">=1.0.0", "1.0.1+build.7", "1.1.0-beta"),
            ("<=9", "9.9.9", "nine"),
            (">=0", "0", "1:2.3"),
            (">=0", "0.0.1", "1.2.3.4"),
            (">=0", "1", ""),
        ] {
            assert!(accepts(demand, yes), "{yes} satisfies {demand}");
            assert!(!accepts(demand, no), "{no} does not satisfy {demand}");
        }
    }

    #[test]
    fn what_is_no_demand_is_refused() {
        for text in [
            "",
            " ",
            ",",
            "||",
            ">=1 ||",
            "new",
            ">=",
            "> *",
            "1.2.3.4",
            "1.x.2",
            "1.2-rc",
            ">=1 & <2",
            "18446744073709551616",
            "~18446744073709551615",
            "1..2",
            "=>=1",
            "1.2.3-",
            "1.2.3-é",
        ] {
            assert!(VersionConstraint::parse_part(text).is_err(), "{text:?}");
        }
    }
}
