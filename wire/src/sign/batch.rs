//! Batch verification of envelopes, at about half of the cost of individual verification.
//!
//! Verifies the signatures of all unknown tokens first, then those of all messages (see [`super::batch_verification`]).

use std::collections::HashMap;
use std::sync::Arc;

use super::batch_verification::{SignatureClaim, verify_batch};
use super::envelope::{Envelope, OpenEnvelope};
use super::kind::EnvelopeKind;
use super::refusal::MessageRefusal;
use crate::Millis;
use crate::token::cache::{TokenDigest, token_digest};
use crate::token::{AccountTrust, PublicKey, TokenCache, TokenError, UserRole, VerifiedUser};

/// Verifies many messages; returns the results in input order. See [`Envelope::verify`].
pub fn verify_envelopes<'a, M: AsRef<[u8]>>(
    kind: EnvelopeKind,
    messages: &'a [M],
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
    roles: &[UserRole],
) -> Vec<Result<OpenEnvelope<'a>, MessageRefusal>> {
    let decode = |message: &'a M| Envelope::decode(kind, message.as_ref());
    let envelopes: Vec<_> = messages.iter().map(decode).collect();
    let senders = resolve_senders(&envelopes, trust, cache, now);

    let mut claims = Vec::with_capacity(envelopes.len());
    for (envelope, sender) in envelopes.iter().zip(&senders) {
        if let (Ok(envelope), Some(Ok(sender))) = (envelope, sender) {
            claims.push(SignatureClaim {
                message: envelope.signed_bytes(),
                signature: envelope.signature(),
                key: sender.verifying_key,
            });
        }
    }
    let mut verdicts = verify_batch(&claims).into_iter();

    let open =
        |(envelope, sender): (Result<Envelope<'a>, MessageRefusal>, Option<SenderResult>)| {
            let envelope = envelope?;
            // Every decoded envelope has a sender entry, and every found sender has a verification result.
            let sender = sender.ok_or(MessageRefusal::Signature)??;
            if verdicts.next() != Some(true) {
                return Err(MessageRefusal::Signature);
            }
            envelope.open_for_roles(sender, roles)
        };
    envelopes.into_iter().zip(senders).map(open).collect()
}

type SenderResult = Result<Arc<VerifiedUser>, TokenError>;

/// The verified sender of each message, from the cache or verified now. `None` if the message is not an envelope.
fn resolve_senders(
    envelopes: &[Result<Envelope<'_>, MessageRefusal>],
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Option<SenderResult>> {
    let mut pending = PendingTokens::default();
    let found: Vec<Option<Result<SenderLookup, TokenError>>> = envelopes
        .iter()
        .map(|envelope| {
            let token = envelope.as_ref().ok()?.token();
            Some(resolve_sender(token, trust, cache, now, &mut pending))
        })
        .collect();
    let verdicts = verify_batch(&pending.claims);
    let mut users = Vec::with_capacity(pending.users.len());
    for ((digest, issuer, user), is_valid) in pending.users.into_iter().zip(verdicts) {
        if is_valid {
            cache.insert_verified(trust, digest, Arc::clone(&user));
        }
        users.push((issuer, is_valid.then_some(user)));
    }
    let resolve = |lookup: Result<SenderLookup, TokenError>| match lookup? {
        SenderLookup::Known(user) => Ok(user),
        SenderLookup::Pending(index) => match users.get(index) {
            Some((_, Some(user))) => Ok(Arc::clone(user)),
            Some((issuer, None)) => Err(TokenError::Signature(*issuer)),
            None => Err(TokenError::Shape),
        },
    };
    found.into_iter().map(|lookup| lookup.map(resolve)).collect()
}

enum SenderLookup {
    Known(Arc<VerifiedUser>),
    /// Index into the unknown tokens.
    Pending(usize),
}

/// Tokens with valid claims and an unverified signature, without duplicates.
#[derive(Default)]
struct PendingTokens {
    indexes: HashMap<TokenDigest, usize>,
    users: Vec<(TokenDigest, PublicKey, Arc<VerifiedUser>)>,
    claims: Vec<SignatureClaim>,
}

fn resolve_sender(
    token: &str,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
    pending: &mut PendingTokens,
) -> Result<SenderLookup, TokenError> {
    let digest = token_digest(token)?;
    if let Some(user) = cache.get_verified(trust, &digest, now)? {
        return Ok(SenderLookup::Known(user));
    }
    if let Some(index) = pending.indexes.get(&digest) {
        return Ok(SenderLookup::Pending(*index));
    }
    let candidate = trust.check_claims(token, now)?;
    let user = Arc::new(candidate.verified);
    if cache.has_imported_token(trust, &digest) {
        cache.insert_verified(trust, digest, Arc::clone(&user));
        return Ok(SenderLookup::Known(user));
    }
    let index = pending.users.len();
    pending.indexes.insert(digest, index);
    pending.users.push((digest, candidate.issuer, user));
    pending.claims.push(SignatureClaim {
        message: candidate.signed.to_vec(),
        signature: candidate.signature,
        key: candidate.issuer_key,
    });
    Ok(SenderLookup::Pending(index))
}
