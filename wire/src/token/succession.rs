//! Succession of operators: statements in an account token by which each operator names the next one for this account.
//!
//! A receiver that pins one of these operators follows the statements to the operator that signed the account token. It does not decide which of two
//! account tokens is in force: see [`super::AccountTrust::update`].

use serde::{Deserialize, Serialize};

use super::claims::{AccountClaims, CLAIMS_VERSION, NatsClaims, TokenClaims};
use super::decode::decode_token;
use super::error::{Result, TokenError};
use super::nkey::{KeyKind, PublicKey};

/// Most statements in an account token. Each adds about 700 bytes to the token.
pub const MAX_SUCCESSIONS: usize = 8;

/// Claims of a succession statement: the issuer, an operator, names the subject as the next operator of one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuccessionClaims {
    /// The account. A statement for one account is not valid for another one of the same operator.
    pub account: PublicKey,
    /// [`NatsClaims::TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`CLAIMS_VERSION`].
    pub version: u8,
}

impl NatsClaims for SuccessionClaims {
    const TYPE: &'static str = "muster_succession";
    const SUBJECT: KeyKind = KeyKind::Operator;
    const ISSUER: KeyKind = KeyKind::Operator;

    fn type_and_version(&self) -> (&str, u8) {
        (&self.kind, self.version)
    }
}

impl SuccessionClaims {
    /// Creates claims for this account.
    pub fn new(account: PublicKey) -> Self {
        Self { account, kind: Self::TYPE.to_owned(), version: CLAIMS_VERSION }
    }
}

/// Why the statements of an account token are refused.
#[derive(Debug, thiserror::Error)]
pub enum SuccessionError {
    /// Too many statements; none was parsed.
    #[error(
        "the account token has {0} succession statements; at most {MAX_SUCCESSIONS} are allowed"
    )]
    TooMany(usize),
    /// A statement is malformed, or its issuer did not sign it.
    #[error("succession statement {number} is not valid")]
    Statement {
        /// Its position, from 1.
        number: usize,
        /// The error.
        #[source]
        source: Box<TokenError>,
    },
    /// The statement is for another account.
    #[error("succession statement {number} is for the account {found}, not for {expected}")]
    OtherAccount {
        /// Its position, from 1.
        number: usize,
        /// The account of the token.
        expected: PublicKey,
        /// The account of the statement.
        found: PublicKey,
    },
    /// The statement does not continue the previous one, or names an operator again.
    #[error(
        "succession statement {number}, from {from} to {to}, does not continue the previous one"
    )]
    Order {
        /// Its position, from 1.
        number: usize,
        /// The operator that signed it.
        from: PublicKey,
        /// The operator that it names.
        to: PublicKey,
    },
    /// The operator named another successor before, or the update lacks the statement.
    #[error("the operator {operator} named {known} as its successor; the account token names {}", found.map_or_else(|| "none".to_owned(), |key| key.to_string()))]
    OtherSuccessor {
        /// The operator.
        operator: PublicKey,
        /// The successor that was accepted first.
        known: PublicKey,
        /// The successor in the update.
        found: Option<PublicKey>,
    },
    /// The issuer of the account token is neither the last operator nor the one before it.
    #[error(
        "the account token is signed by {0}, which is not one of the last two operators of its succession statements"
    )]
    Issuer(PublicKey),
}

/// The operators of an account, oldest first; each one named the next one.
#[derive(Debug, Clone)]
pub(super) struct OperatorChain {
    operators: Vec<PublicKey>,
    issuer: PublicKey,
}

impl OperatorChain {
    /// Verifies the statements of an account token. Its own signature is verified elsewhere.
    pub(super) fn verify(account: &TokenClaims<AccountClaims>) -> Result<Self> {
        let issuer = account.iss;
        let statements = &account.nats.successions;
        if statements.len() > MAX_SUCCESSIONS {
            return Err(SuccessionError::TooMany(statements.len()).into());
        }
        let mut operators = Vec::new();
        for (number, statement) in (1..).zip(statements) {
            let (from, to) = verify_statement(statement, account.sub, number)?;
            if operators.is_empty() {
                operators.push(from);
            }
            if operators.last() != Some(&from) || operators.contains(&to) {
                return Err(SuccessionError::Order { number, from, to }.into());
            }
            operators.push(to);
        }
        if operators.is_empty() {
            operators.push(issuer);
        }
        if !operators.iter().rev().take(2).any(|operator| *operator == issuer) {
            return Err(SuccessionError::Issuer(issuer).into());
        }
        Ok(Self { operators, issuer })
    }

    /// Fails unless this operator is the issuer of the account token or one of the operators before it.
    pub(super) fn require_ancestor(&self, operator: PublicKey) -> Result<()> {
        let until_issuer = self.operators.iter().take_while(|known| **known != self.issuer);
        if operator == self.issuer || until_issuer.into_iter().any(|known| *known == operator) {
            return Ok(());
        }
        Err(TokenError::Foreign { expected: operator, found: self.issuer })
    }

    /// The operator that signed the account token.
    pub(super) fn issuer(&self) -> PublicKey {
        self.issuer
    }

    /// The operator that this one named.
    pub(super) fn successor_of(&self, operator: PublicKey) -> Option<PublicKey> {
        let mut operators = self.operators.iter().skip_while(|known| **known != operator);
        operators.nth(1).copied()
    }
}

/// The old and the new operator of a valid statement.
fn verify_statement(
    statement: &str,
    account: PublicKey,
    number: usize,
) -> Result<(PublicKey, PublicKey)> {
    let verified = decode_token::<SuccessionClaims>(statement)
        .and_then(super::decode::DecodedToken::verify_signature);
    let claims = verified
        .map_err(|source| SuccessionError::Statement { number, source: Box::new(source) })?;
    let found = claims.nats.account;
    if found != account {
        return Err(SuccessionError::OtherAccount { number, expected: account, found }.into());
    }
    Ok((claims.iss, claims.sub))
}

impl AccountClaims {
    /// Adds the statement of the present operator that names the next one. Removes the oldest statement if there would be too many; receivers that
    /// pin the operator before it then refuse the account token.
    pub fn add_succession(&mut self, statement: String) {
        self.successions.push(statement);
        let surplus = self.successions.len().saturating_sub(MAX_SUCCESSIONS);
        self.successions.drain(..surplus);
    }
}
