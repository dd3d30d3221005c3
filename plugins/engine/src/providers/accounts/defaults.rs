//! Defaults for new users: `/etc/login.defs` and `/etc/default/useradd`. Pure.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Settings for creating users and groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountDefaults {
    pub uids: IdRanges,
    pub gids: IdRanges,
    /// Whether each user gets a group of the same name.
    pub user_groups: bool,
    /// Primary group otherwise.
    pub group: String,
    /// Parent of home directories.
    pub home: String,
    pub home_mode: u32,
    /// Skeleton directory copied to a new home directory.
    pub skel: String,
    pub shell: String,
    /// Fields 4 to 6 of shadow for ordinary users: minimum, maximum, warning; empty for no limit.
    pub ageing: [String; 3],
}

/// The ids for new accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRanges {
    pub ordinary: RangeInclusive<u32>,
    pub system: RangeInclusive<u32>,
}

impl IdRanges {
    pub fn free_id(&self, taken: &BTreeSet<u32>, system: bool) -> Option<u32> {
        if system { free_system_id(taken, &self.system) } else { free_id(taken, &self.ordinary) }
    }
}

impl AccountDefaults {
    /// Parses the two files; missing settings get the defaults of shadow-utils.
    pub fn parse(login_defs: &str, useradd: &str) -> Self {
        let login =
            |name: &str| find_value(login_defs, name, |byte: char| byte.is_ascii_whitespace());
        let add = |name: &str| find_value(useradd, name, |byte: char| byte == '=');
        let range = |name: &str, low: u32, high: u32| {
            let bound = |suffix: &str, default| {
                login(&format!("{name}_{suffix}")).and_then(parse_number).unwrap_or(default)
            };
            bound("MIN", low)..=bound("MAX", high)
        };
        let ranges = |ordinary, system| IdRanges {
            ordinary: range(ordinary, 1000, 60_000),
            system: range(system, 100, 999),
        };
        let octal = |text: &str| u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
        let umask = login("UMASK").and_then(octal).unwrap_or(0o022);
        let age = |name| {
            let days = login(name).and_then(|text| text.parse::<i64>().ok());
            days.filter(|days| *days >= 0).map_or_else(String::new, |days| days.to_string())
        };
        let text = |found: Option<&str>, default: &str| {
            found.filter(|found| !found.is_empty()).unwrap_or(default).to_owned()
        };
        Self {
            uids: ranges("UID", "SYS_UID"),
            gids: ranges("GID", "SYS_GID"),
            user_groups: login("USERGROUPS_ENAB").is_none_or(|word| word == "yes"),
            group: text(add("GROUP"), "100"),
            home: text(add("HOME"), "/home"),
            home_mode: login("HOME_MODE").and_then(octal).unwrap_or(0o777 & !umask),
            skel: text(add("SKEL"), "/etc/skel"),
            shell: text(add("SHELL"), "/bin/sh"),
            ageing: [age("PASS_MIN_DAYS"), age("PASS_MAX_DAYS"), age("PASS_WARN_AGE")],
        }
    }
}

/// Decimal, `0` octal or `0x` hexadecimal, as in `strtol`.
fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// The last value of a setting.
fn find_value<'a>(text: &'a str, name: &str, separator: fn(char) -> bool) -> Option<&'a str> {
    text.lines().rev().find_map(|line| {
        let rest = line.trim().strip_prefix(name)?;
        let value = rest.strip_prefix(separator)?;
        Some(value.trim().trim_matches('"'))
    })
}

/// A free id: the highest used plus one, as in shadow-utils, or the lowest free one if the range end is used.
pub fn free_id(taken: &BTreeSet<u32>, range: &RangeInclusive<u32>) -> Option<u32> {
    if range.is_empty() {
        return None;
    }
    let next = match taken.range(range.clone()).next_back() {
        Some(highest) => highest.checked_add(1),
        None => Some(*range.start()),
    };
    next.filter(|id| range.contains(id)).or_else(|| range.clone().find(|id| !taken.contains(id)))
}

/// A free system id: the lowest used minus one, or the highest free one.
pub fn free_system_id(taken: &BTreeSet<u32>, range: &RangeInclusive<u32>) -> Option<u32> {
    if range.is_empty() {
        return None;
    }
    let next = match taken.range(range.clone()).next() {
        Some(lowest) => lowest.checked_sub(1),
        None => Some(*range.end()),
    };
    next.filter(|id| range.contains(id))
        .or_else(|| range.clone().rev().find(|id| !taken.contains(id)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_login_defs_and_useradd_defaults() {
        let nothing = AccountDefaults::parse("", "");
        assert_eq!((nothing.uids.ordinary, nothing.home_mode), (1000..=60_000, 0o755));
        assert_eq!(nothing.ageing, ["", "", ""]);
        let defs = "# UID_MIN 5\nUID_MIN\t\t 2000\nUMASK 077\nUSERGROUPS_ENAB no\nPASS_MAX_DAYS 99999\nUID_MINX 7\n";
        let found = AccountDefaults::parse(defs, "#SHELL=/x\nSHELL=/bin/bash\nHOME=/srv/home\n");
        assert_eq!(
            (found.uids.ordinary, found.home_mode, found.user_groups),
            (2000..=60_000, 0o700, false)
        );
        assert_eq!((found.shell.as_str(), found.home.as_str()), ("/bin/bash", "/srv/home"));
        assert_eq!(found.ageing, ["", "99999", ""]);
        assert_eq!(AccountDefaults::parse("UMASK 077\nHOME_MODE 0750\n", "").home_mode, 0o750);
    }

    proptest! {
        #[test]
        fn returned_id_is_free_and_in_range(taken in proptest::collection::btree_set(0_u32..20, 0..20), low in 0_u32..20, high in 0_u32..20) {
            let range = low..=high;
            let any = range.clone().any(|id| !taken.contains(&id));
            for found in [free_id(&taken, &range), free_system_id(&taken, &range)] {
                prop_assert_eq!(found.is_some(), any);
                prop_assert!(found.is_none_or(|id| range.contains(&id) && !taken.contains(&id)));
            }
        }

        #[test]
        fn parsing_never_panics(defs in "\\PC{0,60}", useradd in "\\PC{0,60}") {
            let _ = AccountDefaults::parse(&defs, &useradd);
        }
    }
}
