//! Reads tokens, strictly: limits before the parser, one algorithm, one spelling of the base64.
//!
//! Decoding checks form only; [`Decoded::verify`] checks that the issuer named inside signed it. Whether that issuer
//! is to be believed is for [`super::Trust`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signature;
use serde::Deserialize;

use super::TokenError;
use super::claims::{Claims, Part, VERSION};
use super::encode::ALGORITHM;
use crate::limits;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header<'a> {
    typ: &'a str,
    alg: &'a str,
}

/// A token that has the right form, but is not verified.
#[derive(Debug)]
pub struct Decoded<'a, N> {
    claims: Claims<N>,
    signed: &'a [u8],
    signature: Signature,
}

/// Decodes a token of up to [`limits::TOKEN_BYTES`]; user tokens of up to [`limits::USER_TOKEN_BYTES`].
pub fn decode<N: Part>(text: &str) -> Result<Decoded<'_, N>, TokenError> {
    let limit = match N::SUBJECT {
        super::KeyKind::User => limits::USER_TOKEN_BYTES,
        _ => limits::TOKEN_BYTES,
    };
    if text.len() > limit {
        return Err(TokenError::Oversized {
            length: text.len(),
            limit,
        });
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Shape)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Shape)?;
    check_header(&base64(header)?)?;
    let claims: Claims<N> =
        serde_json::from_slice(&base64(claims)?).map_err(|source| TokenError::Json {
            part: "claims",
            source,
        })?;
    check_kind(&claims)?;
    let signature = Signature::from_slice(&base64(signature)?).map_err(|_| TokenError::Shape)?;
    Ok(Decoded {
        claims,
        signed: signed.as_bytes(),
        signature,
    })
}

impl<'a, N> Decoded<'a, N> {
    /// What the token says; believe nothing yet.
    pub fn unverified(&self) -> &Claims<N> {
        &self.claims
    }

    /// What was signed, and the signature: for verification in a batch.
    pub(crate) fn into_parts(self) -> (Claims<N>, &'a [u8], Signature) {
        (self.claims, self.signed, self.signature)
    }

    /// The claims, if the issuer named in them signed them.
    pub fn verify(self) -> Result<Claims<N>, TokenError> {
        let issuer = self.claims.iss;
        issuer
            .verifying()?
            .verify_strict(self.signed, &self.signature)
            .map_err(|_| TokenError::Signature { issuer })?;
        Ok(self.claims)
    }
}

fn base64(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Shape)
}

fn check_header(bytes: &[u8]) -> Result<(), TokenError> {
    let header: Header<'_> = serde_json::from_slice(bytes).map_err(|source| TokenError::Json {
        part: "header",
        source,
    })?;
    if header.alg != ALGORITHM || !header.typ.eq_ignore_ascii_case("jwt") {
        return Err(TokenError::Algorithm(header.alg.chars().take(24).collect()));
    }
    Ok(())
}

fn check_kind<N: Part>(claims: &Claims<N>) -> Result<(), TokenError> {
    let (kind, version) = claims.nats.says();
    if (kind, version) != (N::TYPE, VERSION) {
        return Err(TokenError::Type {
            expected: N::TYPE,
            found: kind.chars().take(24).collect(),
            version,
        });
    }
    claims.sub.expect_kind(N::SUBJECT)?;
    claims.iss.expect_kind(N::ISSUER)?;
    Ok(())
}
