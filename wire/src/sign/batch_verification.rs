//! Batch verification of ed25519 signatures, at about half of the cost of individual verification.
//!
//! One equation over all signatures of a batch, as in the ed25519 paper (Bernstein and others, 2011, section 5);
//! `ed25519_dalek::verify_batch` evaluates it. If it fails, the batch is bisected until the invalid signatures are isolated and
//! verified strictly. A forged reply thus costs only its own strict check and a few sub-batches.
//!
//! Batch and strict verification differ only for keys or signatures with a component of small order, which do not occur by
//! accident. Keys of small order are refused earlier. Remaining case: the holder of a key can craft an own message that
//! a batch accepts and the strict check refuses. This does not allow impersonation.

use ed25519_dalek::{Signature, VerifyingKey};

/// Up to this many signatures are verified individually.
const MAX_INDIVIDUAL_SIGNATURES: usize = 4;

/// Largest batch of one equation; larger batches gain little and need more memory.
const MAX_BATCH_SIGNATURES: usize = 2048;

/// A signature with its key and message.
pub(super) struct SignatureClaim {
    pub(super) message: Vec<u8>,
    pub(super) signature: Signature,
    pub(super) key: VerifyingKey,
}

/// Whether each claim is valid, in input order.
pub(super) fn verify_batch(claims: &[SignatureClaim]) -> Vec<bool> {
    claims.chunks(MAX_BATCH_SIGNATURES).flat_map(bisect_batch).collect()
}

fn bisect_batch(claims: &[SignatureClaim]) -> Vec<bool> {
    if claims.len() <= MAX_INDIVIDUAL_SIGNATURES {
        let is_valid = |claim: &SignatureClaim| {
            let verdict = claim.key.verify_strict(&claim.message, &claim.signature);
            verdict.is_ok()
        };
        return claims.iter().map(is_valid).collect();
    }
    if batch_equation_holds(claims) {
        return vec![true; claims.len()];
    }
    let (left, right) = claims.split_at(claims.len() / 2);
    let mut verdicts = bisect_batch(left);
    verdicts.extend(bisect_batch(right));
    verdicts
}

fn batch_equation_holds(claims: &[SignatureClaim]) -> bool {
    let messages: Vec<&[u8]> = claims.iter().map(|claim| &*claim.message).collect();
    let signatures: Vec<Signature> = claims.iter().map(|claim| claim.signature).collect();
    let keys: Vec<VerifyingKey> = claims.iter().map(|claim| claim.key).collect();
    ed25519_dalek::verify_batch(&messages, &signatures, &keys).is_ok()
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::scalar::Scalar;
    use ed25519_dalek::{Signature, Signer as _, SigningKey};
    use proptest::prelude::*;

    use super::{MAX_BATCH_SIGNATURES, SignatureClaim, verify_batch};

    const DOMAIN: &[u8] = b"a domain\0";

    /// A modification of a signature.
    #[derive(Debug, Clone, Copy)]
    enum Harm {
        None,
        /// One bit of R or s is inverted.
        Bit(usize),
        /// The signature of another message.
        Moved,
        /// The signature of another key.
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

    /// Verifies these signatures; the message of each is its index, and the key that of its signer.
    fn verdicts(signatures: &[(Signature, u8)]) -> Vec<bool> {
        let bodies: Vec<_> = (0..signatures.len()).map(body).collect();
        let claims: Vec<_> = bodies
            .iter()
            .zip(signatures)
            .map(|(body, (signature, signer))| SignatureClaim {
                message: [DOMAIN, body].concat(),
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

    /// Nine valid signatures of one key.
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

        /// Holds for any number of keys and messages.
        #[test]
        fn exactly_the_modified_signatures_are_refused(
            signers in prop::collection::vec((0..8_u8, harm()), 0..200),
        ) {
            let unharmed: Vec<_> = signers.iter().map(|(_, harm)| matches!(harm, Harm::None)).collect();
            prop_assert_eq!(judged(&signers), unharmed);
        }
    }

    #[test]
    fn signatures_beyond_the_batch_limit_are_verified() {
        let mut signers = vec![(1, Harm::None); MAX_BATCH_SIGNATURES + 3];
        assert!(judged(&signers).into_iter().all(|good| good));
        signers[MAX_BATCH_SIGNATURES + 1].1 = Harm::Moved;
        let bad: Vec<_> = (0..).zip(judged(&signers)).filter(|(_, good)| !good).collect();
        assert_eq!(bad, [(MAX_BATCH_SIGNATURES + 1, false)]);
    }

    /// The errors of s, +1 and -1, would cancel out if all signatures had the same coefficient.
    #[test]
    fn opposite_errors_do_not_cancel_out() {
        let mut signatures = nine();
        for ((signature, _), error) in signatures.iter_mut().zip([Scalar::ONE, -Scalar::ONE]) {
            let s = Scalar::from_canonical_bytes(*signature.s_bytes()).unwrap() + error;
            *signature = Signature::from_components(*signature.r_bytes(), s.to_bytes());
        }
        let expected: Vec<_> = (0..9).map(|number| number > 1).collect();
        assert_eq!(verdicts(&signatures), expected);
    }

    /// Adding the order of the group to s satisfies the same equation; such a non-canonical encoding is refused.
    #[test]
    fn non_canonical_signature_is_refused() {
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
