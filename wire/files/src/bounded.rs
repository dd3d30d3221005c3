//! Reads files and streams up to a limit. What is said about a size before may be out of date, and files in /proc say nothing.

use std::io::{self, Read};

/// Reads a source of at most `limit` bytes to its end.
///
/// # Errors
/// Those of the source; [`io::ErrorKind::FileTooLarge`] if it has more.
pub fn read_limited(source: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = read_prefix(source, limit.saturating_add(1))?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Reads a text of at most `limit` bytes to its end.
///
/// # Errors
/// As [`read_limited`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_limited_text(source: impl Read, limit: u64) -> io::Result<String> {
    let bytes = read_limited(source, limit)?;
    let not_text =
        |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(bytes).map_err(not_text)
}

/// Reads the first `limit` bytes of a source, or all if it has fewer.
///
/// # Errors
/// Those of the source.
pub fn read_prefix(source: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::{read_limited, read_limited_text, read_prefix};

    #[test]
    fn more_than_the_limit_is_refused_and_the_limit_is_not() {
        assert_eq!(read_limited(&b"four"[..], 4).unwrap(), b"four");
        assert_eq!(read_limited(&b"fives"[..], 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_prefix(&b"fives"[..], 4).unwrap(), b"five");
        assert_eq!(read_limited_text(&b"\xff"[..], 4).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(
            read_limited(std::io::repeat(0), 4).unwrap_err().kind(),
            ErrorKind::FileTooLarge
        );
        assert_eq!(read_limited(&b"all"[..], u64::MAX).unwrap(), b"all");
    }
}
