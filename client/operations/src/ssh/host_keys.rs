//! Public host keys of sshd from the records of nodes. A node writes its own record, so each key is checked: one spelling for each key, and nothing else in its line.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Longest key in bytes, in base64: 16,384 bits of RSA have 2,740.
const MAX_KEY_BYTES: usize = 8 * 1024;
/// Longest type in bytes.
const MAX_KIND_BYTES: usize = 64;
/// Most characters of a key in a message.
const MAX_SHOWN_CHARS: usize = 60;
/// Types whose keys consist of numbers. OpenSSH ignores zeros before a number, so the same key would have several spellings.
const KINDS_OF_NUMBERS: [&str; 2] = ["ssh-rsa", "ssh-dss"];

/// A public host key: its type and the key in base64, as in a file of host keys. Equal keys have equal texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SshHostKey(String);

/// The text is not a type and a key: the start of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}")]
pub struct SshHostKeyError(String);

impl SshHostKey {
    /// Reads a type and a key, and nothing else: no marker such as `@cert-authority`, no comment, no further line.
    pub fn parse(text: &str) -> Result<Self, SshHostKeyError> {
        if is_host_key(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(SshHostKeyError(text.chars().take(MAX_SHOWN_CHARS).collect()))
    }

    /// The type and the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SshHostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_host_key(text: &str) -> bool {
    let Some((kind, key)) = text.split_once(' ') else { return false };
    let is_kind = (1..=MAX_KIND_BYTES).contains(&kind.len())
        && kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-@.".contains(&b));
    if !is_kind || key.len() > MAX_KEY_BYTES {
        return false;
    }
    // The engine accepts only one encoding of the same bytes.
    let Some(fields) = STANDARD.decode(key).ok().and_then(|bytes| split_fields(&bytes)) else {
        return false;
    };
    let Some((first, values)) = fields.split_first() else { return false };
    let has_one_spelling = !KINDS_OF_NUMBERS.contains(&kind)
        || values.iter().all(|value| !matches!(value.as_slice(), [0] | [0, 0..=0x7f, ..]));
    first == kind.as_bytes() && !values.is_empty() && has_one_spelling
}

/// The fields of a key, each behind its length.
fn split_fields(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (field, rest) = rest.split_at_checked(u32::from_be_bytes(*length).try_into().ok()?)?;
        fields.push(field.to_vec());
        bytes = rest;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key with these fields.
    fn key(kind: &str, fields: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        for field in [&[kind.as_bytes()], fields].concat() {
            bytes.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            bytes.extend(field);
        }
        format!("{kind} {}", STANDARD.encode(bytes))
    }

    #[test]
    fn keys_of_openssh_are_accepted() {
        let keys = [
            key("ssh-ed25519", &[&[0; 32]]),
            key("ecdsa-sha2-nistp256", &[b"nistp256", &[4; 65]]),
            key("ssh-rsa", &[&[1, 0, 1], &[0, 0x80, 7]]),
            key("sk-ssh-ed25519@openssh.com", &[&[7; 32], b"ssh:"]),
        ];
        for text in keys {
            assert_eq!(SshHostKey::parse(&text).unwrap().as_str(), text);
        }
    }

    /// A node signs its own keys; it must not add keys for other hosts.
    #[test]
    fn keys_that_would_be_other_lines_are_refused() {
        let valid = key("ssh-ed25519", &[&[7; 32]]);
        for text in [
            format!("{valid}\nweb1.acme.net {valid}"),
            format!("{valid} comment"),
            format!("{valid}\n"),
            format!("@cert-authority {valid}"),
            format!("* {valid}"),
            valid.replace(' ', "\t"),
            valid.replace(' ', "  "),
            "ssh-ed25519".to_owned(),
            "ssh-ed25519 ".to_owned(),
            String::new(),
            format!("ssh-ed25519 {}", "A".repeat(MAX_KEY_BYTES + 4)),
        ] {
            assert!(SshHostKey::parse(&text).is_err(), "{text:?}");
        }
    }

    /// A copy of another node's key is found by its text, so the same key has no second text.
    #[test]
    fn other_spellings_of_a_key_are_refused() {
        let ed25519 = key("ssh-ed25519", &[&[7; 32]]);
        let base64 = ed25519.split_once(' ').unwrap().1.to_owned();
        for text in [
            format!("ed25519 {base64}"),
            format!("ssh-rsa {base64}"),
            format!("{ed25519}===="),
            key("ssh-rsa", &[&[0, 1, 0, 1], &[7; 256]]),
            key("ssh-rsa", &[&[1, 0, 1], &[0, 7]]),
            // The bits behind the last byte.
            key("ssh-rsa", &[&[1, 0, 1], &[7; 3]]).replace("Bw==", "Bx=="),
            "ssh-x AAAABXNzaC14AAAAAQd=".to_owned(),
            "ssh-x AAAABXNzaC14AAAAAQ==".to_owned(),
        ] {
            assert!(SshHostKey::parse(&text).is_err(), "{text}");
        }
    }
}
