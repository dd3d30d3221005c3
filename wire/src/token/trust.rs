//! Token verification: one pinned operator, one account that it or its successor signed, and the roles of the account's signing keys.
//!
//! Pure: account tokens are arguments. The daemon fetches newer ones.

use std::collections::HashMap;

use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha256};

use super::broker_record::BrokerRecord;
use super::claims::{AccountClaims, PermissionTemplate, SigningKeyEntry, TokenClaims, UserClaims};
use super::decode::{DecodedToken, decode_token};
use super::error::{Result, TokenError};
use super::nkey::{KeyKind, PublicKey};
use super::permission::pattern_covers_subject;
use super::program::ApprovedProgram;
use super::scope::UserRole;
use super::service_right::ServiceRight;
use super::succession::{OperatorChain, SuccessionError};
use crate::fresh::CLOCK_SKEW_MILLIS;
use crate::identity::{Identity, SubjectName};
use crate::{Millis, Seconds};

/// A pinned operator and the current account token.
#[derive(Debug, Clone)]
pub struct AccountTrust {
    operator: PublicKey,
    chain: OperatorChain,
    text: String,
    claims: TokenClaims<AccountClaims>,
    keys: HashMap<PublicKey, (UserRole, VerifyingKey)>,
    revoked: HashMap<PublicKey, Seconds>,
    all_revoked_until: Option<Seconds>,
    fingerprint: [u8; 32],
}

/// A user whose token was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedUser {
    /// Its name.
    pub identity: Identity,
    /// The key with which it signs messages.
    pub key: PublicKey,
    /// The role whose key signed its token.
    pub role: UserRole,
    /// `key:value` pairs from its token.
    pub tags: Vec<String>,
    /// Issue time of its token.
    pub issued_at: Millis,
    /// Start of its token's validity; 0 for always.
    pub not_before: Millis,
    /// Expiry of its token; `None` never expires.
    pub expires: Option<Millis>,
    /// The key as a decoded curve point, cached.
    pub(crate) verifying_key: VerifyingKey,
}

impl VerifiedUser {
    /// The services for which this user may answer. Empty unless a key of the role service signed its token.
    pub fn rights(&self) -> Vec<ServiceRight> {
        let is_service = self.role == UserRole::Service;
        let rights = ServiceRight::ALL.into_iter();
        rights.filter(|right| is_service && right.is_in(&self.tags)).collect()
    }

    /// Whether the tags of the token permit requests to this action. For a user's own requests the broker checks it; it cannot see whose request a service sends
    /// or stores.
    pub fn may_request(&self, agent: &SubjectName, action: &SubjectName) -> bool {
        let subject = format!("{agent}.{action}.node");
        let mut values = self.tags.iter().filter_map(|tag| tag.strip_prefix("agent:"));
        values.any(|value| pattern_covers_subject(&format!("{value}.>"), &subject))
    }
}

/// A user token with valid claims and an unverified signature.
pub(crate) struct UnverifiedToken<'a> {
    pub(crate) verified: VerifiedUser,
    pub(crate) issuer: PublicKey,
    pub(crate) issuer_key: VerifyingKey,
    pub(crate) signed: &'a [u8],
    pub(crate) signature: Signature,
}

impl UnverifiedToken<'_> {
    /// Verifies the issuer's signature.
    pub(crate) fn verify_signature(&self) -> Result<()> {
        let issuer = self.issuer;
        self.issuer_key
            .verify_strict(self.signed, &self.signature)
            .map_err(|_| TokenError::Signature(issuer))
    }
}

impl AccountTrust {
    /// Creates the trust in this operator and in the account whose token it, or an operator that succeeded it, signed.
    pub fn new(operator: PublicKey, account_token: &str) -> Result<Self> {
        let operator = operator.expect_kind(KeyKind::Operator)?;
        Self::verify(operator, operator, account_token)
    }

    /// Verifies an account token that `known`, or an operator that succeeded it, signed. `operator` is the pinned one.
    fn verify(operator: PublicKey, known: PublicKey, account_token: &str) -> Result<Self> {
        let decoded = decode_token::<AccountClaims>(account_token)?;
        let chain = OperatorChain::verify(decoded.unverified_claims())?;
        chain.require_ancestor(known)?;
        let claims = decoded.verify_signature()?;
        let keys = role_keys(&claims.nats)?;
        let all_revoked_until = claims.nats.revocations.get("*").copied();
        let parse_revocation =
            |(key, until): (&String, &Seconds)| Some((PublicKey::parse(key).ok()?, *until));
        let revoked = claims.nats.revocations.iter().filter_map(parse_revocation).collect();
        let mut hash = Sha256::new();
        hash.update(operator.as_bytes());
        hash.update(account_token);
        let fingerprint = hash.finalize().into();
        let text = account_token.to_owned();
        Ok(Self { operator, chain, text, claims, keys, revoked, all_revoked_until, fingerprint })
    }

    /// Replaces the account token. The new one must be of the same account and issued later than the current one, so that replaying an old token
    /// cannot undo a revocation. The operator that signed the current token, or its successor, must have signed it: once a successor's token is
    /// accepted, its predecessor's tokens are refused. An operator names one successor; the one that is accepted first stays.
    pub fn update(&self, account_token: &str) -> Result<Self> {
        let signer = self.chain.issuer();
        let new = Self::verify(self.operator, signer, account_token)?;
        if new.account_key() != self.account_key() {
            return Err(TokenError::Foreign {
                expected: self.account_key(),
                found: new.account_key(),
            });
        }
        let found = new.chain.successor_of(signer);
        if let Some(known) = self.chain.successor_of(signer)
            && found != Some(known)
        {
            return Err(SuccessionError::OtherSuccessor { operator: signer, known, found }.into());
        }
        let (known, found) = (self.issued_at(), new.issued_at());
        if found <= known {
            return Err(TokenError::NotNewer { known, found });
        }
        Ok(new)
    }

    /// The one of two tokens of the account that is in force, by the rules of [`Self::update`].
    #[must_use]
    pub fn newest(self, other: &Self) -> Self {
        self.update(&other.text).unwrap_or(self)
    }

    /// The pinned operator.
    pub fn operator_key(&self) -> PublicKey {
        self.operator
    }

    /// The operator that signed the account token: the pinned one, or one that succeeded it.
    pub fn signing_operator(&self) -> PublicKey {
        self.chain.issuer()
    }

    /// The operator that will sign later account tokens, if the present one named it.
    pub fn next_operator(&self) -> Option<PublicKey> {
        self.chain.successor_of(self.chain.issuer())
    }

    /// The trusted account.
    pub fn account_key(&self) -> PublicKey {
        self.claims.sub
    }

    /// The account's claims, for issuing a changed token.
    pub fn claims(&self) -> &TokenClaims<AccountClaims> {
        &self.claims
    }

    /// The permissions that the broker applies to users whose tokens this key signed.
    pub fn template_of_key(&self, issuer: &PublicKey) -> Option<&PermissionTemplate> {
        self.claims.nats.signing_keys.iter().find_map(|entry| match entry {
            SigningKeyEntry::Scoped(scope) if scope.key == *issuer => Some(&scope.template),
            _ => None,
        })
    }

    /// The role whose users this key signs; `None` if the account lists no role for it.
    pub fn role_of_key(&self, issuer: &PublicKey) -> Option<UserRole> {
        self.keys.get(issuer).map(|(role, _)| *role)
    }

    /// Whether the account lists another key for the role of this one, or does not list this one.
    pub fn has_other_key(&self, issuer: &PublicKey) -> bool {
        let role = self.role_of_key(issuer);
        role.is_none()
            || self.keys.iter().any(|(key, (other, _))| key != issuer && Some(*other) == role)
    }

    /// Whether the account token has a revocation of this key, of any time. Tokens issued after the revocation are valid.
    pub fn has_revocation(&self, key: &PublicKey) -> bool {
        self.revoked.contains_key(key)
    }

    /// Whether a token of this user that was issued at this time is revoked.
    pub fn is_revoked(&self, user: &PublicKey, issued_at: Seconds) -> bool {
        let until = self.revoked.get(user).copied().max(self.all_revoked_until);
        until.is_some_and(|until| issued_at <= until)
    }

    /// The keys that sign SSH user certificates for this account, the present one first.
    pub fn ssh_authorities(&self) -> &[PublicKey] {
        &self.claims.nats.ssh_authorities
    }

    /// The services that may answer for this agent, according to the account token. Tokens of earlier versions list none.
    pub fn services_for(&self, agent: &str) -> impl Iterator<Item = &Identity> {
        self.claims.nats.services.get(agent).into_iter().flatten()
    }

    /// Where the organisation's brokers are. Tokens of earlier versions do not say it.
    pub fn broker_record(&self) -> Option<&BrokerRecord> {
        self.claims.nats.broker.as_ref()
    }

    /// The programs to which daemons may be upgraded.
    pub fn programs(&self) -> &[ApprovedProgram] {
        &self.claims.nats.programs
    }

    /// The account token as given.
    pub fn account_token(&self) -> &str {
        &self.text
    }

    /// Issue time of the account token.
    pub fn issued_at(&self) -> Seconds {
        self.claims.iat
    }

    /// Identifies this trust state.
    pub(crate) fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Verifies a user's token: its form, issuer, account, name, time, revocation and signature.
    ///
    /// Its times are checked with a tolerance of [`CLOCK_SKEW_MILLIS`] for clock differences.
    pub fn verify_user(&self, jwt: &str, now: Millis) -> Result<VerifiedUser> {
        let candidate = self.check_claims(jwt, now)?;
        candidate.verify_signature()?;
        Ok(candidate.verified)
    }

    /// All checks of [`Self::verify_user`] except the signature.
    pub(crate) fn check_claims<'a>(
        &self,
        jwt: &'a str,
        now: Millis,
    ) -> Result<UnverifiedToken<'a>> {
        let (claims, signed, signature) =
            DecodedToken::into_parts(decode_token::<UserClaims>(jwt)?);
        let issuer = claims.iss;
        let (role, issuer_key) =
            *self.keys.get(&issuer).ok_or(TokenError::UnknownIssuer(issuer))?;
        let found = claims.nats.issuer_account.unwrap_or(issuer);
        if found != self.account_key() {
            return Err(TokenError::Foreign { expected: self.account_key(), found });
        }
        let verified = VerifiedUser {
            identity: parse_exact_identity(&claims.name)?,
            key: claims.sub,
            role,
            tags: claims.nats.tags,
            issued_at: seconds_to_millis(claims.iat),
            not_before: seconds_to_millis(claims.nbf),
            expires: (claims.exp != 0).then(|| seconds_to_millis(claims.exp)),
            verifying_key: claims.sub.verifying_key()?,
        };
        self.check_still_valid(&verified, now)?;
        Ok(UnverifiedToken { verified, issuer, issuer_key, signed, signature })
    }

    /// Checks that the token of an earlier verified user is within its validity period and not revoked.
    pub fn check_still_valid(&self, user: &VerifiedUser, now: Millis) -> Result<()> {
        let name = || user.identity.to_string();
        if let Some(at) = user.expires
            && now > at.saturating_add(CLOCK_SKEW_MILLIS)
        {
            return Err(TokenError::Expired { name: name(), at });
        }
        if now.saturating_add(CLOCK_SKEW_MILLIS) < user.not_before {
            return Err(TokenError::NotYet { name: name(), at: user.not_before });
        }
        if self.is_revoked(&user.key, user.issued_at / 1000) {
            return Err(TokenError::Revoked(name()));
        }
        Ok(())
    }
}

/// The signing keys of known roles. Tokens signed by other keys are refused.
fn role_keys(account: &AccountClaims) -> Result<HashMap<PublicKey, (UserRole, VerifyingKey)>> {
    let mut keys = HashMap::new();
    for entry in &account.signing_keys {
        if let SigningKeyEntry::Scoped(scope) = entry
            && let Ok(role) = scope.role.parse()
        {
            let key = scope.key.expect_kind(KeyKind::Account)?;
            keys.insert(key, (role, key.verifying_key()?));
        }
    }
    Ok(keys)
}

/// Parses an identity in normalised spelling. All other spellings are refused, because the broker compares bytes.
fn parse_exact_identity(name: &str) -> Result<Identity> {
    let identity = Identity::parse(name).map_err(TokenError::Name)?;
    if identity.as_str() == name {
        return Ok(identity);
    }
    Err(TokenError::NameSpelling(name.to_owned()))
}

fn seconds_to_millis(seconds: Seconds) -> Millis {
    seconds.saturating_mul(1000)
}
