//! Believes a bundle, or says why not: who signed it, whether that counts here, and that its files are the ones that were signed.

use super::{Bundle, BundleError, Content, Manifest};
use crate::Millis;
use crate::identity::Identity;
use crate::sign::{Envelope, Kind, Refusal};
use crate::token::claims::{Account, User};
use crate::token::decode::{Decoded, decode};
use crate::token::{PublicKey, Role, TokenCache, TokenError, Trust};

/// The tag of a caller's token that lets it sign bundles for a whole fleet: a bundle is a program that daemons run.
pub const SIGN_TAG: &str = "plugin:sign";

/// Whose signature counts.
#[derive(Debug, Clone, Copy)]
pub enum Authority<'a> {
    /// A caller with the tag [`SIGN_TAG`], of an account of this operator.
    Operator {
        /// The operator's public key, as it is pinned.
        operator: PublicKey,
        /// The account's token that is known here. It must be of the same account as the bundle's, and the newer of the two
        /// tells who is revoked.
        account: Option<&'a str>,
    },
    /// Whoever has this key, and nobody else. Neither its token's role and time nor any revocation are asked about.
    Key(PublicKey),
}

/// Who signed a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedBy {
    /// The name in its token.
    pub identity: Identity,
    /// Its key.
    pub key: PublicKey,
}

/// A bundle whose signer is proven, and all of whose files were signed.
#[derive(Debug, Clone)]
pub struct OpenBundle<'a> {
    /// What was signed.
    pub manifest: Manifest,
    /// Who signed it.
    pub signer: SignedBy,
    /// The files, each with a path that is safe below the agent's own directory.
    pub files: Vec<(&'a str, Content<'a>)>,
}

impl<'a> Bundle<'a> {
    /// Verifies signer, manifest and files, in this order.
    pub fn open(
        &self,
        authority: &Authority<'_>,
        now: Millis,
    ) -> Result<OpenBundle<'a>, BundleError> {
        let envelope = Envelope::decode(Kind::Bundle, self.sealed)?;
        let (signer, body) = match authority {
            Authority::Operator { operator, account } => {
                let trust =
                    trust(*operator, self.account, *account).map_err(BundleError::Account)?;
                by_caller(&envelope, &trust, now)?
            }
            Authority::Key(key) => {
                decode::<Account>(self.account)
                    .and_then(Decoded::verify)
                    .map_err(BundleError::Account)?;
                by_key(&envelope, *key)?
            }
        };
        let manifest: Manifest = serde_json::from_slice(body).map_err(BundleError::Manifest)?;
        if manifest.signer != signer.identity {
            return Err(BundleError::WrongSigner {
                signer: signer.identity,
                claimed: manifest.signer,
            });
        }
        manifest.check()?;
        let files = self.listed_in(&manifest)?;
        Ok(OpenBundle {
            manifest,
            signer,
            files,
        })
    }

    /// The files, if they are those of the manifest, all of them and no others.
    fn listed_in(&self, manifest: &Manifest) -> Result<Vec<(&'a str, Content<'a>)>, BundleError> {
        let missing = |path: &&String| !self.files.contains_key(path.as_str());
        if let Some(path) = manifest.files.keys().find(missing) {
            return Err(BundleError::File(path.clone()));
        }
        let files = self.files.iter().map(|(path, content)| {
            if manifest.files.get(*path) == Some(&content.listed()) {
                Ok((*path, *content))
            } else {
                Err(BundleError::File(path.chars().take(120).collect()))
            }
        });
        files.collect()
    }
}

/// The newer of the two account tokens.
fn trust(operator: PublicKey, carried: &str, known: Option<&str>) -> Result<Trust, TokenError> {
    let carried = Trust::new(operator, carried)?;
    let Some(known) = known else {
        return Ok(carried);
    };
    let known = Trust::new(operator, known)?;
    if known.account() != carried.account() {
        return Err(TokenError::Foreign {
            expected: known.account(),
            found: carried.account(),
        });
    }
    Ok(if carried.issued_at() > known.issued_at() {
        carried
    } else {
        known
    })
}

fn by_caller<'a>(
    envelope: &Envelope<'a>,
    trust: &Trust,
    now: Millis,
) -> Result<(SignedBy, &'a [u8]), BundleError> {
    let cache = TokenCache::new(1);
    let opened = envelope.verify(trust, &cache, now, &[Role::Caller])?;
    let sender = opened.sender;
    if !sender.tags.iter().any(|tag| tag == SIGN_TAG) {
        return Err(BundleError::MayNotSign(sender.identity.clone()));
    }
    let signer = SignedBy {
        identity: sender.identity.clone(),
        key: sender.key,
    };
    Ok((signer, opened.body))
}

fn by_key<'a>(
    envelope: &Envelope<'a>,
    expected: PublicKey,
) -> Result<(SignedBy, &'a [u8]), BundleError> {
    let claims = decode::<User>(envelope.token())
        .and_then(Decoded::verify)
        .map_err(Refusal::Token)?;
    if claims.sub != expected {
        let found = claims.sub;
        return Err(BundleError::Foreign { expected, found });
    }
    expected
        .verifying()?
        .verify_strict(&envelope.signed(), &envelope.signature())
        .map_err(|_| Refusal::Signature)?;
    let identity =
        Identity::parse(&claims.name).map_err(|source| Refusal::Token(TokenError::Name(source)))?;
    let signer = SignedBy {
        identity,
        key: expected,
    };
    Ok((signer, envelope.body()))
}
