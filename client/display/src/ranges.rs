//! Shortens node names to ranges: `web1`, `web2`, `web3` of one domain become `web[1-3].example.net`. For text output only.

use std::collections::BTreeMap;

use muster_base::compare_natural;
use muster_wire::identity::Identity;

/// The common part of names that differ only in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NumberedNameShape<'a> {
    before: &'a str,
    after: &'a str,
    /// Number of digits to which the number is padded; 0 without padding.
    digits: usize,
}

/// Shortens names that differ only in one number to a range. Every name is in exactly one result.
pub fn shorten_to_ranges<'a>(names: impl IntoIterator<Item = &'a Identity>) -> Vec<String> {
    let mut shapes: BTreeMap<NumberedNameShape<'a>, Vec<u64>> = BTreeMap::new();
    let mut ranges = Vec::new();
    for name in names {
        match split_numbered_name(name.as_str()) {
            Some((shape, number)) => shapes.entry(shape).or_default().push(number),
            None => ranges.push(name.to_string()),
        }
    }
    merge_unpadded(&mut shapes);
    ranges.extend(shapes.into_iter().map(|(shape, numbers)| shape.render_range(numbers)));
    ranges.sort_by(|a, b| compare_natural(a, b));
    ranges
}

/// Splits a name at the last number of its first label, which usually distinguishes the hosts of a domain.
fn split_numbered_name(name: &str) -> Option<(NumberedNameShape<'_>, u64)> {
    let host = name.find('.').unwrap_or(name.len());
    let is_digit = |c: char| c.is_ascii_digit();
    let end = name.get(..host)?.rfind(is_digit)? + 1;
    let start = name.get(..end)?.trim_end_matches(is_digit).len();
    let (before, number, after) = (name.get(..start)?, name.get(start..end)?, name.get(end..)?);
    let digits = if number.starts_with('0') && number.len() > 1 { number.len() } else { 0 };
    Some((NumberedNameShape { before, after, digits }, number.parse().ok()?))
}

/// Merges numbers without padding into padded ones of equal width: `08`, `09` and `10` form one range.
fn merge_unpadded(shapes: &mut BTreeMap<NumberedNameShape<'_>, Vec<u64>>) {
    let padded: Vec<NumberedNameShape<'_>> =
        shapes.keys().filter(|shape| shape.digits > 0).copied().collect();
    for shape in padded {
        let unpadded = NumberedNameShape { digits: 0, ..shape };
        let is_as_wide = |number: &u64| number.to_string().len() == shape.digits;
        let Some(numbers) = shapes.get_mut(&unpadded) else {
            continue;
        };
        let (wide, others) = numbers.iter().partition(|number| is_as_wide(number));
        *numbers = others;
        shapes.entry(shape).or_default().extend::<Vec<u64>>(wide);
    }
    shapes.retain(|_, numbers| !numbers.is_empty());
}

impl NumberedNameShape<'_> {
    fn render_range(&self, mut numbers: Vec<u64>) -> String {
        let Self { before, after, digits } = self;
        numbers.sort_unstable();
        numbers.dedup();
        let spans: Vec<String> = number_spans(&numbers)
            .into_iter()
            .map(|(first, last)| match last - first {
                0 => format!("{first:0digits$}"),
                1 => format!("{first:0digits$},{last:0digits$}"),
                _ => format!("{first:0digits$}-{last:0digits$}"),
            })
            .collect();
        match numbers.as_slice() {
            [number] => format!("{before}{number:0digits$}{after}"),
            _ => format!("{before}[{}]{after}", spans.join(",")),
        }
    }
}

/// Groups sorted numbers into contiguous ranges: first and last of each.
fn number_spans(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *number == *last + 1 => *last = *number,
            _ => spans.push((*number, *number)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_wire::identity::Identity;
    use proptest::prelude::*;

    use super::shorten_to_ranges;

    fn of(names: &[&str]) -> Vec<String> {
        let names: Vec<Identity> = names.iter().map(|name| name.parse().unwrap()).collect();
        shorten_to_ranges(&names)
    }

    #[test]
    fn names_that_differ_in_one_number_are_merged() {
        assert_eq!(
            of(&[
                "web1.a.net",
                "web2.a.net",
                "web3.a.net",
                "web7.a.net",
                "db1.a.net",
                "web1.b.net",
                "gate"
            ]),
            ["db1.a.net", "gate", "web1.b.net", "web[1-3,7].a.net"]
        );
        assert_eq!(of(&["n09", "n10", "n08"]), ["n[08-10]"]);
        assert_eq!(of(&["rack2-n1.x", "rack2-n2.x"]), ["rack2-n[1,2].x"]);
        assert_eq!(of(&["ip-10-0-0-1", "10", "11", "12"]), ["[10-12]", "ip-10-0-0-1"]);
        assert_eq!(of(&["n18446744073709551616", "n18446744073709551615"]).len(), 2);
    }

    /// Expands a range to its names.
    fn expand(word: &str) -> Vec<String> {
        let Some((before, rest)) = word.split_once('[') else {
            return vec![word.to_owned()];
        };
        let (inside, after) = rest.split_once(']').unwrap();
        let numbers = inside.split(',').flat_map(|span| {
            let (first, last) = span.split_once('-').unwrap_or((span, span));
            let digits = if first.starts_with('0') { first.len() } else { 0 };
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            (first..=last).map(move |number| format!("{number:0digits$}"))
        });
        numbers.map(|number| format!("{before}{number}{after}")).collect()
    }

    proptest! {
        #[test]
        fn ranges_expand_to_the_original_names(names in prop::collection::btree_set("[a-c]{0,1}[0-9]{1,3}[a-b]{0,1}(\\.[a-b][0-9]?)?", 0..40)) {
            let nodes: Vec<Identity> = names.iter().map(|name| name.parse().unwrap()).collect();
            let back: BTreeSet<String> = shorten_to_ranges(&nodes).iter().flat_map(|word| expand(word)).collect();
            prop_assert_eq!(back, names);
        }
    }
}
