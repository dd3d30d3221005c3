//! Verifies many envelopes together: about a third of the cost of one after the other.
//!
//! First the signatures of all unknown tokens, then those of all messages (see [`super::judge`]).

use std::collections::HashMap;
use std::sync::Arc;

use super::judge::{Claim, judge};
use super::{Envelope, Kind, Opened, Refusal};
use crate::Millis;
use crate::token::cache::{Digest, digest};
use crate::token::{PublicKey, Role, TokenCache, TokenError, Trust, Verified};

/// Verifies many messages; the results are in their order. See [`Envelope::verify`].
pub fn verify_many<'a, M: AsRef<[u8]>>(
    kind: Kind,
    messages: &'a [M],
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
    roles: &[Role],
) -> Vec<Result<Opened<'a>, Refusal>> {
    let decode = |message: &'a M| Envelope::decode(kind, message.as_ref());
    let envelopes: Vec<_> = messages.iter().map(decode).collect();
    let senders = senders(&envelopes, trust, cache, now);

    let mut claims = Vec::with_capacity(envelopes.len());
    for (envelope, sender) in envelopes.iter().zip(&senders) {
        if let (Ok(envelope), Some(Ok(sender))) = (envelope, sender) {
            claims.push(Claim {
                message: [kind.protocol().as_bytes(), b"\0", envelope.body()],
                signature: envelope.signature(),
                key: sender.verifying,
            });
        }
    }
    let mut verdicts = judge(&claims).into_iter();

    let finish = |(envelope, sender): (Result<Envelope<'a>, Refusal>, Option<Sender>)| {
        let envelope = envelope?;
        // There is a sender for every envelope that was decoded, and a verdict for every sender that was found.
        let sender = sender.ok_or(Refusal::Signature)??;
        if verdicts.next() != Some(true) {
            return Err(Refusal::Signature);
        }
        envelope.opened(sender, roles)
    };
    envelopes.into_iter().zip(senders).map(finish).collect()
}

type Sender = Result<Arc<Verified>, TokenError>;

/// Who sent each message, by its token: remembered, or verified now. `None` where there is no envelope.
fn senders(
    envelopes: &[Result<Envelope<'_>, Refusal>],
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Option<Sender>> {
    let mut unknown = Unknown::default();
    let found: Vec<Option<Lookup>> = envelopes
        .iter()
        .map(|envelope| {
            let token = envelope.as_ref().ok()?.token();
            Some(lookup(token, trust, cache, now, &mut unknown))
        })
        .collect();
    let verdicts = judge(&unknown.claims);
    let mut parties = Vec::with_capacity(unknown.parties.len());
    for ((digest, issuer, party), good) in unknown.parties.into_iter().zip(verdicts) {
        if good {
            cache.insert(trust, digest, Arc::clone(&party));
        }
        parties.push((issuer, good.then_some(party)));
    }
    let settle = |lookup| match lookup {
        Lookup::Settled(sender) => sender,
        Lookup::Unknown(index) => match parties.get(index) {
            Some((_, Some(party))) => Ok(Arc::clone(party)),
            Some((issuer, None)) => Err(TokenError::Signature { issuer: *issuer }),
            None => Err(TokenError::Shape),
        },
    };
    found.into_iter().map(|lookup| lookup.map(settle)).collect()
}

enum Lookup {
    Settled(Sender),
    /// The place among the unknown ones.
    Unknown(usize),
}

/// Tokens that say the right things and whose signatures are still to be judged; each once.
#[derive(Default)]
struct Unknown<'a> {
    places: HashMap<Digest, usize>,
    parties: Vec<(Digest, PublicKey, Arc<Verified>)>,
    claims: Vec<Claim<'a>>,
}

fn lookup<'a>(
    token: &'a str,
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
    unknown: &mut Unknown<'a>,
) -> Lookup {
    let digest = match digest(token) {
        Ok(digest) => digest,
        Err(error) => return Lookup::Settled(Err(error)),
    };
    match cache.get(trust, &digest, now) {
        Ok(Some(party)) => return Lookup::Settled(Ok(party)),
        Ok(None) => {}
        Err(error) => return Lookup::Settled(Err(error)),
    }
    if let Some(place) = unknown.places.get(&digest) {
        return Lookup::Unknown(*place);
    }
    match trust.candidate(token, now) {
        Err(error) => Lookup::Settled(Err(error)),
        Ok(candidate) if cache.is_vouched(trust, &digest) => {
            let party = Arc::new(candidate.verified);
            cache.insert(trust, digest, Arc::clone(&party));
            Lookup::Settled(Ok(party))
        }
        Ok(candidate) => {
            let place = unknown.parties.len();
            unknown.places.insert(digest, place);
            unknown
                .parties
                .push((digest, candidate.issuer, Arc::new(candidate.verified)));
            unknown.claims.push(Claim {
                message: [candidate.signed, b"", b""],
                signature: candidate.signature,
                key: candidate.issuer_key,
            });
            Lookup::Unknown(place)
        }
    }
}
