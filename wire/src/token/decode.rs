//! Decodes tokens strictly: size limits before parsing, one algorithm, one spelling of the base64.
//!
//! Decoding checks the form only. [`DecodedToken::verify_signature`] checks that the issuer named inside signed it. Trust in the issuer
//! is checked by [`super::AccountTrust`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signature;
use serde::Deserialize;

use super::claims::{CLAIMS_VERSION, NatsClaims, TOKEN_ALGORITHM, TokenClaims};
use super::error::{Result, TokenError};
use super::nkey::KeyKind;
use crate::limits;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenHeader<'a> {
    typ: &'a str,
    alg: &'a str,
}

/// A well-formed, unverified token.
#[derive(Debug)]
pub struct DecodedToken<'a, N> {
    claims: TokenClaims<N>,
    signed: &'a [u8],
    signature: Signature,
}

/// Decodes a token of up to [`limits::MAX_TOKEN_BYTES`]; user tokens of up to [`limits::MAX_USER_TOKEN_BYTES`].
pub fn decode_token<N: NatsClaims>(text: &str) -> Result<DecodedToken<'_, N>> {
    let limit = match N::SUBJECT {
        KeyKind::User => limits::MAX_USER_TOKEN_BYTES,
        _ => limits::MAX_TOKEN_BYTES,
    };
    if text.len() > limit {
        return Err(TokenError::Oversized { length: text.len(), limit });
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Shape)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Shape)?;
    check_header(&decode_base64(header)?)?;
    let claims: TokenClaims<N> = serde_json::from_slice(&decode_base64(claims)?)
        .map_err(|source| TokenError::Json { part: "claims", source })?;
    check_kind(&claims)?;
    let signature =
        Signature::from_slice(&decode_base64(signature)?).map_err(|_| TokenError::Shape)?;
    Ok(DecodedToken { claims, signed: signed.as_bytes(), signature })
}

impl<'a, N> DecodedToken<'a, N> {
    /// The claims, unverified.
    pub fn unverified_claims(&self) -> &TokenClaims<N> {
        &self.claims
    }

    /// The claims, the signed bytes and the signature, for batch verification.
    pub(crate) fn into_parts(self) -> (TokenClaims<N>, &'a [u8], Signature) {
        (self.claims, self.signed, self.signature)
    }

    /// The claims, if the issuer named in them signed them.
    pub fn verify_signature(self) -> Result<TokenClaims<N>> {
        let issuer = self.claims.iss;
        issuer
            .verifying_key()?
            .verify_strict(self.signed, &self.signature)
            .map_err(|_| TokenError::Signature(issuer))?;
        Ok(self.claims)
    }
}

fn decode_base64(part: &str) -> Result<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Shape)
}

/// Decodes base64url of exactly `N` bytes.
pub fn decode_base64_array<const N: usize>(text: impl AsRef<[u8]>) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // The buffer has exactly the size of the content: longer texts fail, and shorter ones decode to fewer bytes.
    let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    (length == N).then_some(bytes)
}

fn check_header(bytes: &[u8]) -> Result<()> {
    let header: TokenHeader<'_> = serde_json::from_slice(bytes)
        .map_err(|source| TokenError::Json { part: "header", source })?;
    if header.alg != TOKEN_ALGORITHM || !header.typ.eq_ignore_ascii_case("jwt") {
        return Err(TokenError::Algorithm(header.alg.chars().take(24).collect()));
    }
    Ok(())
}

fn check_kind<N: NatsClaims>(claims: &TokenClaims<N>) -> Result<()> {
    let (kind, version) = claims.nats.type_and_version();
    if (kind, version) != (N::TYPE, CLAIMS_VERSION) {
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
