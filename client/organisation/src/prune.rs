//! Removes revocations of keys whose tokens have all expired.

use std::collections::HashMap;

use muster_wire::limits::MAX_NODE_TOKEN_SECONDS;
use muster_wire::token::Seconds;
use muster_wire::token::claims::AccountClaims;

use crate::{CredentialRecord, PrincipalKind};

/// How long a revocation stays after the last token of its key has expired, in seconds. Covers clock differences.
const MARGIN_SECONDS: Seconds = 24 * 60 * 60;

/// Removes the revocations of keys that have no valid token any more and returns their number. Keeps keys that were not issued here,
/// because their expiry is unknown, and keys with a token that never expires.
///
/// Until the key was revoked, a service may have renewed a node's token without a record here. Such a token is valid for at most
/// [`MAX_NODE_TOKEN_SECONDS`].
pub(super) fn remove_expired(
    account: &mut AccountClaims,
    records: &[CredentialRecord],
    now: Seconds,
) -> usize {
    let before = account.revocations.len();
    let mut known_tokens: HashMap<String, (PrincipalKind, Option<Seconds>)> = HashMap::new();
    for record in records {
        let known =
            known_tokens.entry(record.key.to_string()).or_insert((record.kind, record.expires));
        known.1 = match (known.1, record.expires) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
    }
    account.revocations.retain(|key, revoked_at| {
        let Some((kind, Some(expires))) = known_tokens.get(key) else {
            return true;
        };
        let renewed = match kind {
            PrincipalKind::Node => revoked_at.saturating_add(MAX_NODE_TOKEN_SECONDS),
            _ => 0,
        };
        (*expires).max(renewed).saturating_add(MARGIN_SECONDS) > now
    });
    before.saturating_sub(account.revocations.len())
}

#[cfg(test)]
mod tests {
    use muster_wire::token::claims::{AccountClaims, AccountLimits};
    use muster_wire::token::{KeyKind, KeyPair, PublicKey};

    use super::{
        CredentialRecord, MARGIN_SECONDS, MAX_NODE_TOKEN_SECONDS, PrincipalKind, remove_expired,
    };

    fn key(number: u8) -> PublicKey {
        KeyPair::from_raw(KeyKind::User, &[number; 32]).public_key()
    }

    fn record(kind: PrincipalKind, number: u8, expires: Option<u64>) -> CredentialRecord {
        CredentialRecord {
            kind,
            name: "web1".parse().unwrap(),
            key: key(number),
            issued_at: 100,
            expires,
            token: "a.b.c".to_owned(),
        }
    }

    #[test]
    fn revocation_stays_until_all_tokens_of_its_key_are_expired() {
        const REVOKED: u64 = 500;
        let records = [
            record(PrincipalKind::User, 1, Some(1_000)),
            record(PrincipalKind::User, 2, None),
            record(PrincipalKind::User, 3, Some(1_000)),
            record(PrincipalKind::User, 3, Some(9_000)),
            record(PrincipalKind::Node, 4, Some(1_000)),
            record(PrincipalKind::Node, 5, Some(1_000)),
            record(PrincipalKind::Node, 5, None),
        ];
        let mut account = AccountClaims::new(AccountLimits::default(), Vec::new());
        for number in 1..=6 {
            account.revoke_user(&key(number), REVOKED);
        }
        account.revocations.insert("*".to_owned(), REVOKED);
        let mut left = |now: u64| {
            remove_expired(&mut account, &records, now);
            (1..=6)
                .filter(|number| account.revocations.contains_key(&key(*number).to_string()))
                .collect::<Vec<u8>>()
        };
        assert_eq!(left(999 + MARGIN_SECONDS), [1, 2, 3, 4, 5, 6]);
        assert_eq!(left(1_000 + MARGIN_SECONDS), [2, 3, 4, 5, 6]);
        assert_eq!(left(9_000 + MARGIN_SECONDS), [2, 4, 5, 6]);
        let renewed = REVOKED + MAX_NODE_TOKEN_SECONDS + MARGIN_SECONDS;
        assert_eq!(left(renewed - 1), [2, 4, 5, 6]);
        assert_eq!(left(renewed), [2, 5, 6]);
        assert_eq!(left(u64::MAX), [2, 5, 6]);
        assert!(account.revocations.contains_key("*"));
    }
}
