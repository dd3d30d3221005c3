//! Compares two RPM versions like `rpmvercmp`. Pure.

use std::cmp::Ordering;

/// Compares `epoch:version-release`. The release is ignored if either version lacks it.
pub fn compare_versions(one: &str, other: &str) -> Ordering {
    let (one, other) = (split_version(one), split_version(other));
    let release = match (one.2, other.2) {
        (Some(one), Some(other)) => compare_part(one, other),
        _ => Ordering::Equal,
    };
    one.0.cmp(&other.0).then_with(|| compare_part(one.1, other.1)).then(release)
}

fn split_version(text: &str) -> (u64, &str, Option<&str>) {
    let (epoch, rest) = text.split_once(':').unwrap_or(("0", text));
    let (version, release) = match rest.rsplit_once('-') {
        Some((version, release)) => (version, Some(release)),
        None => (rest, None),
    };
    (epoch.parse().unwrap_or(0), version, release)
}

/// Digit runs compare as numbers, letter runs as text; digits are newer than letters, and `~` is older than the end.
fn compare_part(one: &str, other: &str) -> Ordering {
    let separator = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '~' | '^'));
    let (mut one, mut other) = (one, other);
    loop {
        one = one.trim_start_matches(separator);
        other = other.trim_start_matches(separator);
        for (mark, with, without) in
            [('~', Ordering::Less, Ordering::Greater), ('^', Ordering::Greater, Ordering::Less)]
        {
            match (one.strip_prefix(mark), other.strip_prefix(mark)) {
                (Some(rest), Some(other_rest)) => {
                    return compare_part(rest, other_rest);
                }
                // A caret is newer than the end and older than everything else.
                (Some(_), None) if mark == '^' && !other.is_empty() => return Ordering::Less,
                (None, Some(_)) if mark == '^' && !one.is_empty() => return Ordering::Greater,
                (Some(_), None) => return with,
                (None, Some(_)) => return without,
                (None, None) => {}
            }
        }
        let (Some(first), Some(second)) = (one.chars().next(), other.chars().next()) else {
            return one.len().cmp(&other.len());
        };
        let digits = first.is_ascii_digit();
        if digits != second.is_ascii_digit() {
            return if digits { Ordering::Greater } else { Ordering::Less };
        }
        let (head, rest) = leading_run(one, digits);
        let (other_head, other_rest) = leading_run(other, digits);
        let order = if digits {
            let (head, other_head) =
                (head.trim_start_matches('0'), other_head.trim_start_matches('0'));
            head.len().cmp(&other_head.len()).then_with(|| head.cmp(other_head))
        } else {
            head.cmp(other_head)
        };
        if order != Ordering::Equal {
            return order;
        }
        (one, other) = (rest, other_rest);
    }
}

fn leading_run(text: &str, digits: bool) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() || c.is_ascii_digit() != digits)
        .unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::compare_versions;

    /// From rpm's tests of `rpmvercmp`.
    #[test]
    fn versions_are_ordered_as_in_rpm() {
        for (one, order, other) in [
            ("1.0", '=', "1.0"),
            ("1.0", '<', "2.0"),
            ("2.0.1", '>', "2.0"),
            ("2.0.1a", '>', "2.0.1"),
            ("5.5p1", '<', "5.5p2"),
            ("5.5p10", '>', "5.5p1"),
            ("10xyz", '<', "10.1xyz"),
            ("xyz10", '<', "xyz10.1"),
            ("xyz.4", '<', "8"),
            ("5.5p2", '<', "5.6p1"),
            ("6.0.rc1", '>', "6.0"),
            ("10b2", '>', "10a1"),
            ("7.8", '<', "8.1"),
            ("20101121", '=', "20101121"),
            ("2_0", '=', "2.0"),
            ("1.0~rc1", '<', "1.0"),
            ("1.0~rc1", '>', "1.0~rc1~git123"),
            ("1.0^", '>', "1.0"),
            ("1.0^git1", '<', "1.01"),
            ("1.05", '=', "1.5"),
            ("1:1.0", '>', "2.0"),
            ("1.0-2", '>', "1.0-1"),
            ("1.0", '=', "1.0-1"),
        ] {
            let expected = match order {
                '<' => Ordering::Less,
                '>' => Ordering::Greater,
                _ => Ordering::Equal,
            };
            assert_eq!(compare_versions(one, other), expected, "{one} {order} {other}");
            assert_eq!(compare_versions(other, one), expected.reverse(), "{other} and {one}");
        }
    }

    proptest! {
        #[test]
        fn order_is_antisymmetric(one in "[0-9a-c.~^:-]{0,12}", other in "[0-9a-c.~^:-]{0,12}") {
            prop_assert_eq!(compare_versions(&one, &other), compare_versions(&other, &one).reverse());
            prop_assert_eq!(compare_versions(&one, &one), Ordering::Equal);
        }
    }
}
