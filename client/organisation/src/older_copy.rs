//! Recognises a directory that is an older copy of the organisation, for example a restored backup: the broker has an account token that this directory never
//! had. A token that is signed from an older copy lacks later revocations and keys, so that revoked keys would be valid again.

use std::collections::BTreeSet;

use muster_base::{count_text, format_utc};
use muster_bus::{Bus, Bytes};
use muster_files::files;
use muster_wire::token::claims::{AccountClaims, SigningKeyEntry};
use muster_wire::token::{AccountTrust, PublicKey, Seconds};

use crate::push::PushError;
use crate::{Organisation, OrganisationError};

/// The signatures of the tokens that this directory has had, one per line. Not secret.
const KNOWN_FILE: &str = "known-tokens.txt";
/// Largest list that is read, in bytes: about 700,000 tokens.
const MAX_KNOWN_BYTES: u64 = 64 * 1024 * 1024;

/// The broker has a later account token than the directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing was pushed: this directory is an older copy of the organisation; the broker's account token was signed at {theirs}, and this directory has that of {ours}{missing}; use the newest copy of the directory, or continue as in docs/guides/backup.md"
)]
pub struct OlderCopyError {
    theirs: String,
    ours: String,
    missing: String,
}

/// A token of the account that this directory does not have.
#[derive(Debug)]
pub(crate) struct LaterToken {
    pub(crate) trust: AccountTrust,
    /// Revocations that the directory lacks.
    pub(crate) revocations: usize,
    /// Signing keys that the directory lacks.
    pub(crate) signing_keys: usize,
}

impl Organisation {
    /// Fails if the broker's servers have a later token of this account.
    pub(crate) async fn check_broker_token(
        &self,
        bus: &Bus,
        ours: &AccountTrust,
    ) -> Result<(), PushError> {
        match look_up_token(bus, ours.account_key()).await {
            Some(theirs) => self.check_token(ours, &theirs),
            None => Ok(()),
        }
    }

    /// Fails if this is an authentic token of the account that is later than the directory's.
    pub(crate) fn check_token(&self, ours: &AccountTrust, theirs: &str) -> Result<(), PushError> {
        let Some(later) = self.later_token(ours, theirs)? else { return Ok(()) };
        Err(OlderCopyError {
            theirs: format_utc(later.trust.issued_at()),
            ours: format_utc(ours.issued_at()),
            missing: missing_text(later.revocations, later.signing_keys),
        }
        .into())
    }

    /// The token, if it is an authentic one of the account, and later than the directory's.
    pub(crate) fn later_token(
        &self,
        ours: &AccountTrust,
        theirs: &str,
    ) -> Result<Option<LaterToken>, OrganisationError> {
        let theirs = theirs.trim();
        if theirs == ours.account_token() {
            return Ok(None);
        }
        let operators = [ours.signing_operator(), ours.operator_key()];
        let authentic =
            operators.into_iter().find_map(|operator| AccountTrust::new(operator, theirs).ok());
        // What no operator of ours signed says nothing about this directory.
        let Some(trust) = authentic.filter(|trust| trust.account_key() == ours.account_key())
        else {
            return Ok(None);
        };
        let (theirs_claims, ours_claims) = (&trust.claims().nats, &ours.claims().nats);
        let revocations = count_missing_revocations(theirs_claims, ours_claims);
        let ours_keys = list_keys(ours_claims);
        let signing_keys = list_keys(theirs_claims).difference(&ours_keys).count();
        let is_later = trust.issued_at() > ours.issued_at();
        let is_covered = revocations == 0 && signing_keys == 0;
        if !is_later && (is_covered || self.has_had(trust.account_token())?) {
            return Ok(None);
        }
        Ok(Some(LaterToken { trust, revocations, signing_keys }))
    }

    /// Records that this directory has this token.
    pub(crate) fn record_known(&self, token: &str) -> Result<(), OrganisationError> {
        if !self.has_had(token)? {
            let line = format!("{}\n", token_signature(token));
            files::append_public(&self.layout().directory().join(KNOWN_FILE), line.as_bytes())?;
        }
        Ok(())
    }

    fn has_had(&self, token: &str) -> Result<bool, OrganisationError> {
        let path = self.layout().directory().join(KNOWN_FILE);
        match files::read_text(&path, MAX_KNOWN_BYTES) {
            Ok(text) => Ok(text.lines().any(|line| line == token_signature(token))),
            // Organisations of older versions have no list.
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The token of this account at the broker. `None` if it does not answer: it has lost its tokens, or keeps none.
pub(crate) async fn look_up_token(bus: &Bus, account: PublicKey) -> Option<String> {
    let lookup = format!("$SYS.REQ.ACCOUNT.{account}.CLAIMS.LOOKUP");
    let answer = bus.request(&lookup, Bytes::new()).await.ok()?;
    let token = String::from_utf8_lossy(answer.payload()).into_owned();
    Some(token).filter(|token| !token.trim().is_empty())
}

/// The last part of a token, which identifies it.
fn token_signature(token: &str) -> &str {
    token.trim().rsplit('.').next().unwrap_or_default()
}

/// The number of revocations that `ours` lacks, or has for an earlier time.
fn count_missing_revocations(theirs: &AccountClaims, ours: &AccountClaims) -> usize {
    let is_missing = |(key, until): &(&String, &Seconds)| {
        ours.revocations.get(*key).is_none_or(|ours_until| ours_until < *until)
    };
    theirs.revocations.iter().filter(is_missing).count()
}

/// What the older token lacks, if anything: it can differ in its time only.
fn missing_text(revocations: usize, keys: usize) -> String {
    let missing =
        [(revocations, "revocation", "revocations"), (keys, "signing key", "signing keys")];
    let missing = missing.into_iter().filter(|(count, ..)| *count > 0);
    let missing: Vec<_> =
        missing.map(|(count, singular, plural)| count_text(count, singular, plural)).collect();
    if missing.is_empty() {
        String::new()
    } else {
        format!(", which lacks {}", missing.join(" and "))
    }
}

fn list_keys(claims: &AccountClaims) -> BTreeSet<PublicKey> {
    let key = |entry: &SigningKeyEntry| match entry {
        SigningKeyEntry::Plain(key) => *key,
        SigningKeyEntry::Scoped(scoped) => scoped.key,
    };
    claims.signing_keys.iter().map(key).collect()
}
