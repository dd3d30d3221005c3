//! Parses validity periods of credentials: `90m`, `12h`, `30d`, `2w`, `1y`.

use std::time::Duration;

const DAY_SECONDS: u64 = 24 * 60 * 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialExpiry {
    Never,
    After(Duration),
}

impl CredentialExpiry {
    /// Parses `never`, or a time as [`parse_lifetime`] does.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            time => parse_lifetime(time).map(Self::After),
        }
    }

    pub fn lifetime(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::After(time) => Some(time),
        }
    }
}

/// Parses a number with its unit: s, m, h, d, w or y (365 days).
pub fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let help = || {
        format!(
            "`{text}` is not a duration; use a number and a unit: s, m, h, d, w or y, as in 30d"
        )
    };
    let unit = text.chars().last().ok_or_else(help)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => DAY_SECONDS,
        'w' => 7 * DAY_SECONDS,
        'y' => 365 * DAY_SECONDS,
        _ => return Err(help()),
    };
    let number: u32 = text.strip_suffix(unit).unwrap_or_default().parse().map_err(|_| help())?;
    match u64::from(number) * seconds {
        0 => Err("the duration must be longer than 0".to_owned()),
        total => Ok(Duration::from_secs(total)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{DAY_SECONDS, parse_lifetime};

    #[test]
    fn lifetimes_have_units() {
        assert_eq!(parse_lifetime("30d"), Ok(Duration::from_secs(30 * DAY_SECONDS)));
        assert_eq!(parse_lifetime("90m"), Ok(Duration::from_mins(90)));
        assert_eq!(
            parse_lifetime("4294967295y").unwrap().as_secs(),
            u64::from(u32::MAX) * 365 * DAY_SECONDS
        );
        for bad in ["", "d", "30", "-1d", "1.5h", "3 d", "4294967296s", "30ä", "0d"] {
            assert!(parse_lifetime(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,12}") {
            let _ = parse_lifetime(&text);
        }
    }
}
