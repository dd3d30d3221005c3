//! The lines of a journal: one record with a checksum each.
//!
//! ```text
//! 8 hexadecimal digits, CRC-32 of the rest | a space | JSON | newline
//! ```
//!
//! A crash may leave an incomplete last line, and a disk error may damage a line: both are skipped and reported.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Fails for a record that JSON cannot express.
pub fn encode_checked_line(record: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let json = serde_json::to_vec(record)?;
    let mut line = format!("{:08x} ", crc32fast::hash(&json)).into_bytes();
    line.extend(json);
    line.push(b'\n');
    Ok(line)
}

/// Parses one line without its newline; `None` if it is damaged.
pub fn parse_checked_line<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let (sum, json) = line.split_at_checked(8)?;
    let json = json.strip_prefix(b" ")?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    if sum != crc32fast::hash(json) {
        return None;
    }
    serde_json::from_slice(json).ok()
}

/// Returns all valid records of a journal, and the errors of the other lines. `name` names the journal in them.
pub fn parse_checked_lines<T: DeserializeOwned>(
    content: &[u8],
    name: &str,
) -> (Vec<T>, Vec<String>) {
    let mut records = Vec::new();
    let mut warnings = Vec::new();
    for (number, line) in (1..).zip(content.split_inclusive(|byte| *byte == b'\n')) {
        let whole = line.strip_suffix(b"\n");
        match whole.and_then(parse_checked_line) {
            Some(record) => records.push(record),
            None if whole.is_none() => {
                warnings.push(format!("line {number} of the {name} was cut off by a crash"));
            }
            None => {
                warnings.push(format!("line {number} of the {name} is damaged and was ignored"));
            }
        }
    }
    (records, warnings)
}
