//! Versions (semver.org 2.0.0) and version constraints: `>= 1.2, < 2 || ~3.1`.
//!
//! Commas and white space mean "and", `||` means "or". `~1.2.3` allows later patches, `^1.2.3` allows changes that keep the
//! first non-zero number. Numbers may be omitted: `1.2` in a constraint means any 1.2, in a value it means 1.2.0.
//! A leading `v` is ignored. A pre-release satisfies only constraints that name a pre-release themselves.

use std::ops::{Bound, RangeBounds as _};

use semver::{BuildMetadata, Prerelease, Version};

use crate::error::{FaultContext as _, Result, expected_at};
use crate::pattern::MAX_PATTERN_BYTES;

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
    bounds: (Bound<Version>, Bound<Version>),
}

/// Longer operators precede their prefixes.
const VERSION_OPERATORS: [&str; 12] =
    ["==", "!=", ">=", "=>", "<=", "=<", "~>", "=", ">", "<", "~", "^"];

impl VersionConstraint {
    /// Parses a constraint. White space around it is ignored.
    pub(super) fn parse_part(text: &str) -> Result<Self> {
        if text.len() > MAX_PATTERN_BYTES {
            return expected_at(0, "a version constraint of at most 1,024 bytes");
        }
        let mut alternatives = Vec::new();
        let mut at = 0;
        for part in text.split("||") {
            alternatives.push(VersionRangeSet::parse_part(part).shifted_by(at)?);
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
        let Some((version, 1..=3)) = read_version(version) else { return false };
        let is_pre = !version.pre.is_empty();
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
    fn parse_part(text: &str) -> Result<Self> {
        let is_separator = |c: char| c == ',' || c == ' ';
        let mut range_set = Self { ranges: Vec::new(), pre_releases: false };
        let mut rest = text.trim_start_matches(is_separator);
        while !rest.is_empty() {
            let at = text.len() - rest.len();
            let operator =
                VERSION_OPERATORS.into_iter().find(|spelling| rest.starts_with(spelling));
            let operator = operator.unwrap_or_default();
            let version = rest.get(operator.len()..).unwrap_or_default().trim_start();
            let end = version.find(is_separator).unwrap_or(version.len());
            let (version, after) = version.split_at_checked(end).unwrap_or((version, ""));
            let found = read_version(version).and_then(|(version, given)| {
                Some((VersionRange::from_operator(operator, &version, given)?, version))
            });
            let Some((range, version)) = found else {
                return expected_at(at, "a version constraint, such as >= 1.2, ~1.2.3 or ^2");
            };
            range_set.ranges.push(range);
            range_set.pre_releases |= !version.pre.is_empty();
            rest = after.trim_start_matches(is_separator);
        }
        if range_set.ranges.is_empty() {
            return expected_at(0, "a version constraint, such as >= 1.2, ~1.2.3 or ^2");
        }
        Ok(range_set)
    }
}

impl VersionRange {
    /// The range of an operator and a version of which `given` numbers were written. Without numbers, only equality and
    /// inequality are valid.
    fn from_operator(operator: &str, version: &Version, given: usize) -> Option<Self> {
        use Bound::{Excluded, Included, Unbounded};
        let from = || Included(version.clone());
        // The end of all versions that begin with the written numbers.
        let to = || match given {
            3 => Some(Included(version.clone())),
            _ => before_next(version, given.saturating_sub(1)).map(Excluded),
        };
        let bounds = match operator {
            "" | "=" | "==" | "!=" if given == 0 => (Unbounded, Unbounded),
            _ if given == 0 => return None,
            "" | "=" | "==" | "!=" => (from(), to()?),
            ">=" | "=>" => (from(), Unbounded),
            ">" if given == 3 => (Excluded(version.clone()), Unbounded),
            ">" => (Included(before_next(version, given - 1)?), Unbounded),
            "<=" | "=<" => (Unbounded, to()?),
            "<" => (Unbounded, Excluded(version.clone())),
            "^" => {
                let numbers = [version.major, version.minor, version.patch];
                let first_nonzero = numbers.iter().take(given).position(|n| *n != 0);
                let last = first_nonzero.unwrap_or(given - 1);
                (from(), Excluded(before_next(version, last)?))
            }
            _ => (from(), Excluded(before_next(version, usize::from(given > 1))?)),
        };
        let is_excluded = operator == "!=";
        Some(Self { is_excluded, bounds })
    }
}

/// The lowest version, pre-releases included, whose number at this place is one greater. `None` on overflow.
fn before_next(version: &Version, index: usize) -> Option<Version> {
    let mut next = match index {
        0 => Version::new(version.major.checked_add(1)?, 0, 0),
        1 => Version::new(version.major, version.minor.checked_add(1)?, 0),
        _ => Version::new(version.major, version.minor, version.patch.checked_add(1)?),
    };
    // Numbers precede words, and 0 is the lowest number.
    next.pre = Prerelease::new("0").ok()?;
    Some(next)
}

/// A version, and how many of its numbers were written. `x` and `*` count as omitted.
fn read_version(text: &str) -> Option<(Version, usize)> {
    let trimmed = text.trim();
    let without_prefix = trimmed.strip_prefix(['v', 'V']).unwrap_or(trimmed);
    let without_build = without_prefix.split('+').next().unwrap_or_default();
    let (numbers_text, pre) = match without_build.split_once('-') {
        Some((_, "")) => return None,
        Some((numbers, pre)) => (numbers, Prerelease::new(pre).ok()?),
        None => (without_build, Prerelease::EMPTY),
    };
    let is_wildcard = |part: &str| matches!(part, "x" | "X" | "*");
    let written: Vec<&str> = numbers_text.split('.').collect();
    let given = written.iter().take_while(|part| !is_wildcard(part)).count();
    let (numbers, wildcards) = written.split_at_checked(given)?;
    if written.len() > 3 || !wildcards.iter().all(|part| is_wildcard(part)) {
        return None;
    }
    if given < 3 && !pre.is_empty() {
        return None;
    }
    let number = |index: usize| numbers.get(index).map_or(Some(0), |part| read_number(part));
    let version = Version {
        major: number(0)?,
        minor: number(1)?,
        patch: number(2)?,
        pre,
        build: BuildMetadata::EMPTY,
    };
    Some((version, given))
}

/// Unlike [`Version::parse`], accepts leading zeros: `5.04` is a version of many programs.
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
    fn constraints_accept_and_refuse_versions() {
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
    fn invalid_constraints_are_refused() {
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
