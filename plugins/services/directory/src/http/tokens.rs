//! The tokens that clients present: names, and hashes of random texts. The file is read again when it changes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use data_encoding::HEXLOWER_PERMISSIVE;
use muster_files::FileStamp;
use muster_files::{SecretFileError, SecretOwner, read_secret};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

const MAX_FILE_BYTES: u64 = 256 * 1024;
const HASH_BYTES: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read, or others can read it.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// A line has the hash of an empty token, as a command prints it whose variable is not set.
    #[error("{}, line {line}: this is the SHA-256 of an empty text; hash the token, such as with `printf %s TOKEN | sha256sum`", path.display())]
    EmptyToken {
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    #[error("{}, line {line}: expected a name and the SHA-256 of a token in hexadecimal, such as `prometheus 9f86d0...`; `printf %s TOKEN | sha256sum` prints it", path.display())]
    Line {
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
}

#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    known: Mutex<(Option<FileStamp>, Tokens)>,
}

/// Why a line is not valid, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvalidLine {
    Format(usize),
    EmptyToken(usize),
}

/// Hashes of tokens with their names.
#[derive(Debug, Default)]
struct Tokens(Vec<(String, [u8; HASH_BYTES])>);

impl TokenFile {
    pub(super) fn load(path: &Path) -> Result<Self, TokenFileError> {
        let version = FileStamp::read(path);
        let tokens = Tokens::read(path)?;
        Ok(Self { path: path.to_owned(), known: Mutex::new((version, tokens)) })
    }

    /// While the file cannot be read, there are no tokens.
    pub(super) fn name_of(&self, token: &str) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let version = FileStamp::read(&self.path);
        if known.0 != version {
            let tokens = Tokens::read(&self.path).unwrap_or_else(|error| {
                tracing::error!(%error, "cannot read the tokens of the directory's HTTP API; refusing all");
                Tokens::default()
            });
            *known = (version, tokens);
        }
        known.1.name_of(token)
    }
}

impl Tokens {
    fn read(path: &Path) -> Result<Self, TokenFileError> {
        Self::parse(&read_secret(path, SecretOwner::Daemon, MAX_FILE_BYTES)?).map_err(|invalid| {
            match invalid {
                InvalidLine::Format(line) => TokenFileError::Line { path: path.to_owned(), line },
                InvalidLine::EmptyToken(line) => {
                    TokenFileError::EmptyToken { path: path.to_owned(), line }
                }
            }
        })
    }

    fn parse(text: &str) -> Result<Self, InvalidLine> {
        let empty: [u8; HASH_BYTES] = Sha256::digest(b"").into();
        let lines = text.lines().enumerate();
        let lines = lines.map(|(index, line)| (index + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let tokens = lines.map(|(number, line)| {
            let mut words = line.split_whitespace();
            let (Some(name), Some(hash), None) = (words.next(), words.next(), words.next()) else {
                return Err(InvalidLine::Format(number));
            };
            let hash = HEXLOWER_PERMISSIVE.decode(hash.as_bytes()).ok();
            let hash: Option<[u8; HASH_BYTES]> = hash.and_then(|hash| hash.try_into().ok());
            match hash {
                None => Err(InvalidLine::Format(number)),
                Some(hash) if hash == empty => Err(InvalidLine::EmptyToken(number)),
                Some(hash) => Ok((name.to_owned(), hash)),
            }
        });
        tokens.collect::<Result<_, _>>().map(Self)
    }

    /// Compares with every hash, each in constant time.
    fn name_of(&self, token: &str) -> Option<String> {
        let hash: [u8; HASH_BYTES] = Sha256::digest(token.as_bytes()).into();
        let mut found = None;
        for (name, known) in &self.0 {
            let is_equal: Choice = known.ct_eq(&hash);
            if bool::from(is_equal) {
                found = Some(name.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search does not end at the token, and `Choice` of `subtle`, to which every comparison must evaluate, is the result of reading all bytes.
    #[test]
    fn token_is_compared_with_every_hash_in_constant_time() {
        let hash: [u8; HASH_BYTES] = Sha256::digest(b"secret").into();
        let known = ["first", "last"].map(|name| (name.to_owned(), hash));
        assert_eq!(Tokens(known.into()).name_of("secret").as_deref(), Some("last"));
        for byte in 0..HASH_BYTES {
            let mut other = hash;
            other[byte] ^= 1;
            let known = vec![("other".to_owned(), other)];
            assert_eq!(Tokens(known).name_of("secret"), None, "{byte}");
        }
    }

    #[test]
    fn tokens_are_found_by_their_hash() {
        // `printf %s secret | sha256sum`
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let text = format!("# tokens\n\nprometheus {hash}\nother {}\n", "0".repeat(64));
        let tokens = Tokens::parse(&text).unwrap();
        assert_eq!(tokens.name_of("secret").as_deref(), Some("prometheus"));
        for wrong in ["", "secret ", hash] {
            assert_eq!(tokens.name_of(wrong), None, "{wrong}");
        }
        // `printf %s "$UNSET" | sha256sum`
        let empty = "a e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Tokens::parse(empty).err(), Some(InvalidLine::EmptyToken(1)));
        for wrong in ["prometheus", "a b c", "prometheus 00", &format!("a {}z", "0".repeat(63))] {
            assert_eq!(Tokens::parse(wrong).err(), Some(InvalidLine::Format(1)), "{wrong}");
        }
    }
}
