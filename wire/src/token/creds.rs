//! The `.creds` format of `nsc` and `nats`: a user's token and its seed.
//!
//! This file handles the text only. The `secret` crate reads the file and refuses one that is readable by other users.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use super::claims::{TokenClaims, UserClaims};
use super::decode::decode_token;
use super::error::TokenError;
use super::nkey::{KeyError, KeyKind, KeyPair, PublicKey};
use crate::limits;

const TOKEN_LABEL: &str = "NATS USER JWT";
const SEED_LABEL: &str = "USER NKEY SEED";

/// Longest text that is parsed, in bytes.
const MAX_CREDENTIALS_BYTES: usize = limits::MAX_USER_TOKEN_BYTES + 8 * 1024;

/// A user's token with its key.
#[derive(Debug, Clone)]
pub struct UserCredentials {
    jwt: String,
    claims: TokenClaims<UserClaims>,
    key: KeyPair,
}

/// Parse errors of credentials. They never contain the text.
#[derive(Debug, thiserror::Error)]
pub enum UserCredentialsError {
    /// The text exceeds the size limit.
    #[error("the credentials have {length} bytes; at most {limit} are allowed")]
    Oversized {
        /// Size in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A block is missing, unterminated or duplicated.
    #[error(
        "the credentials must contain exactly one block `-----BEGIN {0}-----` with one line in it"
    )]
    Block(&'static str),
    /// The seed is invalid.
    #[error("the seed in the credentials is invalid")]
    Seed(#[source] KeyError),
    /// The token is invalid.
    #[error("the token in the credentials is invalid")]
    Token(#[source] TokenError),
    /// Token and seed belong to different users.
    #[error(
        "the token in the credentials belongs to the key {token}, but the seed to {seed}; issue new credentials"
    )]
    Mismatch {
        /// The token's subject.
        token: PublicKey,
        /// The seed's public key.
        seed: PublicKey,
    },
}

impl UserCredentials {
    /// Longest credentials file, in bytes.
    pub const MAX_FILE_BYTES: u64 = MAX_CREDENTIALS_BYTES as u64;

    /// Combines a token and its key. The token's signature is not verified here: the broker and every receiver verify it.
    pub fn new(jwt: &str, key: KeyPair) -> Result<Self, UserCredentialsError> {
        let decoded = decode_token::<UserClaims>(jwt).map_err(UserCredentialsError::Token)?;
        let claims = decoded.unverified_claims().clone();
        let (token, seed) = (claims.sub, key.public_key());
        if token != seed {
            return Err(UserCredentialsError::Mismatch { token, seed });
        }
        Ok(Self { jwt: jwt.to_owned(), claims, key })
    }

    /// Parses the text of a `.creds` file.
    pub fn parse(text: &str) -> Result<Self, UserCredentialsError> {
        let (length, limit) = (text.len(), MAX_CREDENTIALS_BYTES);
        if length > limit {
            return Err(UserCredentialsError::Oversized { length, limit });
        }
        let seed = find_block(text, SEED_LABEL)?;
        let key = KeyPair::from_seed(seed).map_err(UserCredentialsError::Seed)?;
        if key.public_key().kind() != KeyKind::User {
            let found = key.public_key().kind();
            let error = KeyError::WrongKind { expected: KeyKind::User, found };
            return Err(UserCredentialsError::Seed(error));
        }
        Self::new(find_block(text, TOKEN_LABEL)?, key)
    }

    /// Formats the text of a `.creds` file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(self.jwt.len() + 512));
        let seed = self.key.seed_text();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "-----BEGIN {TOKEN_LABEL}-----\n{}\n------END {TOKEN_LABEL}------\n\n\
             ************************* IMPORTANT *************************\n\
             The seed below is a secret: whoever has it is this user.\n\n\
             -----BEGIN {SEED_LABEL}-----\n{}\n------END {SEED_LABEL}------\n\n\
             *************************************************************\n",
            self.jwt, *seed,
        );
        text
    }

    /// The token.
    pub fn jwt(&self) -> &str {
        &self.jwt
    }

    /// The token's claims, unverified.
    pub fn claims(&self) -> &TokenClaims<UserClaims> {
        &self.claims
    }

    /// The token, its claims, and the key.
    pub fn into_parts(self) -> (String, TokenClaims<UserClaims>, KeyPair) {
        (self.jwt, self.claims, self.key)
    }

    /// The key.
    pub fn key_pair(&self) -> &KeyPair {
        &self.key
    }
}

/// The single line of the single block with this label. Like NATS, accepts three or more dashes.
fn find_block<'a>(text: &'a str, label: &'static str) -> Result<&'a str, UserCredentialsError> {
    let invalid = || UserCredentialsError::Block(label);
    let mut lines = text.lines().map(str::trim);
    let mut found = None;
    while let Some(line) = lines.next() {
        if !is_block_marker(line, "BEGIN", label) {
            continue;
        }
        let content = lines.find(|line| !line.is_empty()).ok_or_else(invalid)?;
        let end = lines.find(|line| !line.is_empty()).ok_or_else(invalid)?;
        if !is_block_marker(end, "END", label) || found.replace(content).is_some() {
            return Err(invalid());
        }
    }
    found.ok_or_else(invalid)
}

fn is_block_marker(line: &str, word: &str, label: &str) -> bool {
    let inner = line.trim_matches('-');
    let has_dashes = line.starts_with("---") && line.ends_with("---");
    has_dashes && inner.strip_prefix(word).and_then(|rest| rest.strip_prefix(' ')) == Some(label)
}
