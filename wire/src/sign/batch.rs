//! Batch verification of envelopes, at about a third of the cost of individual verification.
//!
//! Verifies the signatures of all unknown tokens first, then those of all messages (see [`super::batch_verification`]).

use std::collections::HashMap;
use std::sync::Arc;

use super::batch_verification::{SignatureClaim, verify_batch};
use super::{Envelope, EnvelopeKind, MessageRefusal, OpenEnvelope};
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
                message: [kind.protocol_name().as_bytes(), b"\0", envelope.body()],
                signature: envelope.signature(),
                key: sender.verifying,
            });
        }
    }
    let mut verdicts = verify_batch(&claims).into_iter();

    let finish =
        |(envelope, sender): (Result<Envelope<'a>, MessageRefusal>, Option<SenderResult>)| {
            let envelope = envelope?;
            // Every decoded envelope has a sender entry, and every found sender has a verification result.
            let sender = sender.ok_or(MessageRefusal::Signature)??;
            if verdicts.next() != Some(true) {
                return Err(MessageRefusal::Signature);
            }
            envelope.open_for_roles(sender, roles)
        };
    envelopes.into_iter().zip(senders).map(finish).collect()
}

type SenderResult = Result<Arc<VerifiedUser>, TokenError>;

/// The verified sender of each message, from the cache or verified now. `None` if the message is not an envelope.
fn resolve_senders(
    envelopes: &[Result<Envelope<'_>, MessageRefusal>],
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Option<SenderResult>> {
    let mut unknown = PendingTokens::default();
    let found: Vec<Option<SenderLookup>> = envelopes
        .iter()
        .map(|envelope| {
            let token = envelope.as_ref().ok()?.token();
            Some(resolve_sender(token, trust, cache, now, &mut unknown))
        })
        .collect();
    let verdicts = verify_batch(&unknown.claims);
    let mut parties = Vec::with_capacity(unknown.parties.len());
    for ((digest, issuer, party), good) in unknown.parties.into_iter().zip(verdicts) {
        if good {
            cache.insert_verified(trust, digest, Arc::clone(&party));
        }
        parties.push((issuer, good.then_some(party)));
    }
    let settle = |lookup| match lookup {
        SenderLookup::Settled(sender) => sender,
        SenderLookup::Unknown(index) => match parties.get(index) {
            Some((_, Some(party))) => Ok(Arc::clone(party)),
            Some((issuer, None)) => Err(TokenError::Signature { issuer: *issuer }),
            None => Err(TokenError::Shape),
        },
    };
    found.into_iter().map(|lookup| lookup.map(settle)).collect()
}

enum SenderLookup {
    Settled(SenderResult),
    /// Index into the unknown tokens.
    Unknown(usize),
}

/// Tokens with valid claims and an unverified signature, without duplicates.
#[derive(Default)]
struct PendingTokens<'a> {
    places: HashMap<TokenDigest, usize>,
    parties: Vec<(TokenDigest, PublicKey, Arc<VerifiedUser>)>,
    claims: Vec<SignatureClaim<'a>>,
}

fn resolve_sender<'a>(
    token: &'a str,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
    unknown: &mut PendingTokens<'a>,
) -> SenderLookup {
    let digest = match token_digest(token) {
        Ok(digest) => digest,
        Err(error) => return SenderLookup::Settled(Err(error)),
    };
    match cache.get_verified(trust, &digest, now) {
        Ok(Some(party)) => return SenderLookup::Settled(Ok(party)),
        Ok(None) => {}
        Err(error) => return SenderLookup::Settled(Err(error)),
    }
    if let Some(place) = unknown.places.get(&digest) {
        return SenderLookup::Unknown(*place);
    }
    match trust.check_claims(token, now) {
        Err(error) => SenderLookup::Settled(Err(error)),
        Ok(candidate) if cache.has_imported_token(trust, &digest) => {
            let party = Arc::new(candidate.verified);
            cache.insert_verified(trust, digest, Arc::clone(&party));
            SenderLookup::Settled(Ok(party))
        }
        Ok(candidate) => {
            let place = unknown.parties.len();
            unknown.places.insert(digest, place);
            unknown
                .parties
                .push((digest, candidate.issuer, Arc::new(candidate.verified)));
            unknown.claims.push(SignatureClaim {
                message: [candidate.signed, b"", b""],
                signature: candidate.signature,
                key: candidate.issuer_key,
            });
            SenderLookup::Unknown(place)
        }
    }
}
