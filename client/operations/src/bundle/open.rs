//! Verifies a bundle: its signer, the signer's permission, and the digests of all files.

use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::sign::{Envelope, EnvelopeKind, MessageRefusal};
use muster_wire::token::claims::{AccountClaims, UserClaims};
use muster_wire::token::decode::{DecodedToken, decode_token};
use muster_wire::token::{AccountTrust, PublicKey, TokenCache, TokenError, UserRole};

use super::archive::BundleArchive;
use super::error::BundleError;
use super::manifest::{BundleFile, BundleManifest};

/// The tag of a caller's token that permits signing bundles for a fleet. A bundle contains programs that daemons run.
pub const PLUGIN_SIGN_TAG: &str = "plugin:sign";

/// Which signatures are trusted.
#[derive(Debug, Clone, Copy)]
pub enum BundleSignerTrust<'a> {
    /// A caller with the tag [`PLUGIN_SIGN_TAG`], of an account of this operator.
    Operator {
        /// The pinned public key of the operator.
        operator: PublicKey,
        /// The locally known account token. It must be of the same account as the bundle's. Revocations are taken from the newer
        /// of the two.
        account: Option<&'a str>,
    },
    /// Only the holder of this key. The token's role and validity period and revocations are not checked.
    Key(PublicKey),
}

/// The signer of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSigner {
    /// The name in its token.
    pub identity: Identity,
    /// Its key.
    pub key: PublicKey,
}

/// A bundle with a verified signer, all of whose files were signed.
#[derive(Debug, Clone)]
pub struct OpenBundle<'a> {
    /// The signed manifest.
    pub manifest: BundleManifest,
    /// The verified signer.
    pub signer: BundleSigner,
    /// The files, each with a path that is safe below the agent's own directory.
    pub files: Vec<(&'a str, BundleFile<'a>)>,
}

impl<'a> BundleArchive<'a> {
    /// Verifies signer, manifest and files, in this order.
    pub fn verify_contents(
        &self,
        signer_trust: &BundleSignerTrust<'_>,
        now: Millis,
    ) -> Result<OpenBundle<'a>, BundleError> {
        let envelope = Envelope::decode(EnvelopeKind::Bundle, self.envelope)?;
        let (signer, body) = match signer_trust {
            BundleSignerTrust::Operator { operator, account } => {
                let trust = newer_account_trust(*operator, self.account, *account)?;
                verify_caller_signature(&envelope, &trust, now)?
            }
            BundleSignerTrust::Key(key) => {
                decode_token::<AccountClaims>(self.account)
                    .and_then(DecodedToken::verify_signature)?;
                verify_key_signature(&envelope, *key)?
            }
        };
        let manifest: BundleManifest = serde_json::from_slice(body)?;
        if manifest.signer != signer.identity {
            return Err(BundleError::WrongSigner {
                signer: signer.identity,
                claimed: manifest.signer,
            });
        }
        manifest.check_files()?;
        let files = self.match_manifest_files(&manifest)?;
        Ok(OpenBundle { manifest, signer, files })
    }

    /// The files, if they match the manifest exactly.
    fn match_manifest_files(
        &self,
        manifest: &BundleManifest,
    ) -> Result<Vec<(&'a str, BundleFile<'a>)>, BundleError> {
        let is_missing = |path: &&String| !self.files.contains_key(path.as_str());
        if let Some(path) = manifest.files.keys().find(is_missing) {
            return Err(BundleError::File(path.clone()));
        }
        let files = self.files.iter().map(|(path, content)| {
            if manifest.files.get(*path) == Some(&content.manifest_entry()) {
                Ok((*path, *content))
            } else {
                Err(BundleError::File(path.chars().take(120).collect()))
            }
        });
        files.collect()
    }
}

/// The newer of the two account tokens.
fn newer_account_trust(
    operator: PublicKey,
    bundled: &str,
    known: Option<&str>,
) -> Result<AccountTrust, TokenError> {
    let bundled = AccountTrust::new(operator, bundled)?;
    let Some(known) = known else {
        return Ok(bundled);
    };
    let known = AccountTrust::new(operator, known)?;
    if known.account_key() != bundled.account_key() {
        return Err(TokenError::Foreign {
            expected: known.account_key(),
            found: bundled.account_key(),
        });
    }
    Ok(known.newest(&bundled))
}

fn verify_caller_signature<'a>(
    envelope: &Envelope<'a>,
    trust: &AccountTrust,
    now: Millis,
) -> Result<(BundleSigner, &'a [u8]), BundleError> {
    let cache = TokenCache::new(1);
    let opened = envelope.verify(trust, &cache, now, &[UserRole::Caller])?;
    let sender = opened.sender;
    if !sender.tags.iter().any(|tag| tag == PLUGIN_SIGN_TAG) {
        return Err(BundleError::MayNotSign(sender.identity.clone()));
    }
    let signer = BundleSigner { identity: sender.identity.clone(), key: sender.key };
    Ok((signer, opened.body))
}

fn verify_key_signature<'a>(
    envelope: &Envelope<'a>,
    expected: PublicKey,
) -> Result<(BundleSigner, &'a [u8]), BundleError> {
    let claims = decode_token::<UserClaims>(envelope.token())
        .and_then(DecodedToken::verify_signature)
        .map_err(MessageRefusal::Token)?;
    if claims.sub != expected {
        let found = claims.sub;
        return Err(BundleError::Foreign { expected, found });
    }
    let body = envelope.verify_with_key(expected)?;
    let identity = Identity::parse(&claims.name)
        .map_err(|source| MessageRefusal::Token(TokenError::Name(source)))?;
    let signer = BundleSigner { identity, key: expected };
    Ok((signer, body))
}
