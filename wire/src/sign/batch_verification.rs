//! Batch verification of ed25519 signatures in one equation, at about a third of the cost of individual verification.
//!
//! ```text
//! one      s B = R + h A                                  h = SHA-512(R, A, message)
//! many     (sum z s) B = sum (z R) + sum over keys of (sum z h) A      each z random, of 128 bits
//! ```
//!
//! This is the batch verification of the ed25519 paper (Bernstein and others, 2011, section 5). The terms of one key are summed before
//! its point is multiplied. A token therefore costs a caller only its R, because a few role keys sign all tokens of a fleet. If the
//! equation fails, the batch is bisected until the invalid signatures are isolated and verified strictly. A forged reply thus costs
//! only its own strict check and a few sub-batches.
//!
//! Batch and strict verification differ only for keys or signatures with a component of small order, which do not occur by
//! accident. Keys of small order are refused earlier. Remaining case: the holder of a key can craft an own message that
//! a batch accepts and the strict check refuses. This does not allow impersonation.

use std::collections::HashMap;
use std::iter::once;

use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity as _, VartimeMultiscalarMul as _};
use ed25519_dalek::{Signature, VerifyingKey};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha512};

/// Up to this many signatures are verified individually.
const MAX_INDIVIDUAL_SIGNATURES: usize = 4;

/// Largest batch of one equation; larger batches gain little and need more memory.
const MAX_BATCH_SIGNATURES: usize = 2048;

/// A signature with its key and message.
pub(super) struct SignatureClaim<'a> {
    /// The message in pieces, to avoid concatenation.
    pub(super) message: [&'a [u8]; 3],
    pub(super) signature: Signature,
    pub(super) key: VerifyingKey,
}

/// Whether each claim is valid, in input order.
pub(super) fn verify_batch(claims: &[SignatureClaim<'_>]) -> Vec<bool> {
    claims
        .chunks(MAX_BATCH_SIGNATURES)
        .flat_map(verify_chunk)
        .collect()
}

fn verify_chunk(claims: &[SignatureClaim<'_>]) -> Vec<bool> {
    let verify_individually = || claims.iter().map(SignatureClaim::verify_strictly).collect();
    if claims.len() <= MAX_INDIVIDUAL_SIGNATURES {
        return verify_individually();
    }
    // With predictable factors an attacker could craft signatures whose errors cancel out. Without randomness, verify individually.
    let Ok(mut random) = StdRng::try_from_os_rng() else {
        return verify_individually();
    };
    let terms: Vec<Option<EquationTerm<'_>>> = claims
        .iter()
        .map(|claim| EquationTerm::from_claim(claim, random.random()))
        .collect();
    let valid_terms: Vec<&EquationTerm<'_>> = terms.iter().flatten().collect();
    let mut verdicts = bisect_batch(&valid_terms).into_iter();
    terms
        .iter()
        .map(|term| term.is_some() && verdicts.next() == Some(true))
        .collect()
}

fn bisect_batch(terms: &[&EquationTerm<'_>]) -> Vec<bool> {
    if terms.len() <= MAX_INDIVIDUAL_SIGNATURES {
        return terms
            .iter()
            .map(|term| term.claim.verify_strictly())
            .collect();
    }
    if batch_equation_holds(terms) {
        return vec![true; terms.len()];
    }
    let (left, right) = terms.split_at(terms.len() / 2);
    let mut verdicts = bisect_batch(left);
    verdicts.extend(bisect_batch(right));
    verdicts
}

/// Whether the combined equation of these terms holds.
fn batch_equation_holds(terms: &[&EquationTerm<'_>]) -> bool {
    let mut base = Scalar::ZERO;
    let mut key_indexes = HashMap::with_capacity(terms.len());
    let mut keys: Vec<(Scalar, EdwardsPoint)> = Vec::with_capacity(terms.len());
    // The factors are summed per key, so that each key's point is multiplied once.
    for term in terms {
        base += term.zs;
        let index = *key_indexes
            .entry(term.claim.key.as_bytes())
            .or_insert(keys.len());
        match keys.get_mut(index) {
            Some((sum, _)) => *sum += term.zh,
            None => keys.push((term.zh, term.claim.key.to_edwards())),
        }
    }
    let scalars = once(-base).chain(terms.iter().map(|term| term.z));
    let points = once(ED25519_BASEPOINT_POINT).chain(terms.iter().map(|term| term.r));
    EdwardsPoint::vartime_multiscalar_mul(
        scalars.chain(keys.iter().map(|(sum, _)| *sum)),
        points.chain(keys.iter().map(|(_, key)| *key)),
    )
    .is_identity()
}

/// The term of one signature in the equation.
struct EquationTerm<'a> {
    claim: &'a SignatureClaim<'a>,
    z: Scalar,
    zs: Scalar,
    zh: Scalar,
    r: EdwardsPoint,
}

impl<'a> EquationTerm<'a> {
    /// The term with this factor. `None` if the signature is malformed: R is not a point, or s is not canonical.
    fn from_claim(claim: &'a SignatureClaim<'a>, z: u128) -> Option<Self> {
        let s = Scalar::from_canonical_bytes(*claim.signature.s_bytes()).into_option()?;
        let r = CompressedEdwardsY(*claim.signature.r_bytes()).decompress()?;
        let mut hash = Sha512::new();
        hash.update(claim.signature.r_bytes());
        hash.update(claim.key.as_bytes());
        for part in claim.message {
            hash.update(part);
        }
        let h = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        let z = Scalar::from(z);
        Some(Self {
            claim,
            z,
            zs: z * s,
            zh: z * h,
            r,
        })
    }
}

impl SignatureClaim<'_> {
    /// Verifies the signature individually with the strict check.
    fn verify_strictly(&self) -> bool {
        let message = self.message.concat();
        self.key.verify_strict(&message, &self.signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::scalar::Scalar;
    use ed25519_dalek::{Signature, Signer as _, SigningKey};
    use proptest::prelude::*;

    use super::{MAX_BATCH_SIGNATURES, SignatureClaim, verify_batch};

    const DOMAIN: &[u8] = b"a domain\0";

    /// What is done to a signature.
    #[derive(Debug, Clone, Copy)]
    enum Harm {
        None,
        /// One bit of R or s is another.
        Bit(usize),
        /// Another message's.
        Moved,
        /// Of another key.
        Foreign,
    }

    fn key(number: u8) -> SigningKey {
        SigningKey::from_bytes(&[number; 32])
    }

    fn body(number: usize) -> Vec<u8> {
        number.to_le_bytes().to_vec()
    }

    fn signature(number: usize, signer: u8, harm: Harm) -> Signature {
        let sign = |signer, number| key(signer).sign(&[DOMAIN, &body(number)].concat());
        let mut bytes = match harm {
            Harm::None | Harm::Bit(_) => sign(signer, number),
            Harm::Moved => sign(signer, number + 1),
            Harm::Foreign => sign(signer + 1, number),
        }
        .to_bytes();
        if let Harm::Bit(bit) = harm {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        Signature::from_bytes(&bytes)
    }

    /// What is judged of these signatures, each of the message of its number and of this signer.
    fn verdicts(signatures: &[(Signature, u8)]) -> Vec<bool> {
        let bodies: Vec<_> = (0..signatures.len()).map(body).collect();
        let claims: Vec<_> = bodies
            .iter()
            .zip(signatures)
            .map(|(body, (signature, signer))| SignatureClaim {
                message: [&DOMAIN[..1], &DOMAIN[1..], body],
                signature: *signature,
                key: key(*signer).verifying_key(),
            })
            .collect();
        verify_batch(&claims)
    }

    fn judged(signers: &[(u8, Harm)]) -> Vec<bool> {
        let signatures: Vec<_> = (0..)
            .zip(signers)
            .map(|(number, (signer, harm))| (signature(number, *signer, *harm), *signer))
            .collect();
        verdicts(&signatures)
    }

    /// Nine unharmed signatures of one key.
    fn nine() -> [(Signature, u8); 9] {
        std::array::from_fn(|number| (signature(number, 1, Harm::None), 1))
    }

    fn harm() -> impl Strategy<Value = Harm> {
        prop_oneof![
            12 => Just(Harm::None),
            1 => (0..512_usize).prop_map(Harm::Bit),
            1 => Just(Harm::Moved),
            1 => Just(Harm::Foreign),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However few keys have signed however many messages.
        #[test]
        fn exactly_the_harmed_ones_are_refused(
            signers in prop::collection::vec((0..8_u8, harm()), 0..200),
        ) {
            let unharmed: Vec<_> = signers.iter().map(|(_, harm)| matches!(harm, Harm::None)).collect();
            prop_assert_eq!(judged(&signers), unharmed);
        }
    }

    #[test]
    fn more_than_one_equation_takes_are_judged_too() {
        let mut signers = vec![(1, Harm::None); MAX_BATCH_SIGNATURES + 3];
        assert!(judged(&signers).into_iter().all(|good| good));
        signers[MAX_BATCH_SIGNATURES + 1].1 = Harm::Moved;
        let bad: Vec<_> = (0..)
            .zip(judged(&signers))
            .filter(|(_, good)| !good)
            .collect();
        assert_eq!(bad, [(MAX_BATCH_SIGNATURES + 1, false)]);
    }

    /// Errors that would cancel out if all had the same factor: s of one is larger by as much as the other's is smaller.
    #[test]
    fn two_wrongs_make_no_right() {
        let mut signatures = nine();
        for ((signature, _), error) in signatures.iter_mut().zip([Scalar::ONE, -Scalar::ONE]) {
            let s = Scalar::from_canonical_bytes(*signature.s_bytes()).unwrap() + error;
            *signature = Signature::from_components(*signature.r_bytes(), s.to_bytes());
        }
        let expected: Vec<_> = (0..9).map(|number| number > 1).collect();
        assert_eq!(verdicts(&signatures), expected);
    }

    /// Adding the group's order to s gives the same equation: a second spelling, of which nothing is believed.
    #[test]
    fn a_signature_has_one_spelling() {
        let mut order = (-Scalar::ONE).to_bytes();
        order[0] += 1;
        let mut signatures = nine();
        let first = &mut signatures[0].0;
        let mut other = *first.s_bytes();
        let mut carry = 0;
        for (byte, more) in other.iter_mut().zip(order) {
            carry += u16::from(*byte) + u16::from(more);
            *byte = carry.to_le_bytes()[0];
            carry >>= 8;
        }
        *first = Signature::from_components(*first.r_bytes(), other);
        let expected: Vec<_> = (0..9).map(|number| number > 0).collect();
        assert_eq!(verdicts(&signatures), expected);
    }
}
