//! Nkeys compared with the examples of NATS, and damaged nkeys.

use muster_wire::token::{KeyError, KeyKind, KeyPair, PublicKey};
use proptest::prelude::*;

/// The key pair in the documentation of NATS.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

#[test]
fn documented_seed_yields_the_documented_public_key() {
    let pair = KeyPair::from_seed(SEED).unwrap();
    assert_eq!(pair.public_key().to_string(), PUBLIC);
    assert_eq!(pair.seed_text().as_str(), SEED);
    assert_eq!(PublicKey::parse(PUBLIC).unwrap(), pair.public_key());
}

#[test]
fn debug_output_contains_only_the_public_key() {
    let shown = format!("{:?}", KeyPair::from_seed(SEED).unwrap());
    assert!(shown.contains(PUBLIC) && !shown.contains(&SEED[2..20]), "{shown}");
}

#[test]
fn every_wrong_character_is_detected() {
    for text in [SEED, PUBLIC] {
        for place in 0..text.len() {
            for other in ["A", "Z", "7", "a", "="] {
                let mut wrong = text.to_owned();
                wrong.replace_range(place..=place, other);
                if wrong != text {
                    assert!(
                        KeyPair::from_seed(&wrong).is_err() && PublicKey::parse(&wrong).is_err(),
                        "{wrong}"
                    );
                }
            }
        }
    }
}

#[test]
fn seed_is_refused_as_a_public_key_without_repeating_it() {
    let error = PublicKey::parse(SEED).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(&SEED[..10]));
    assert!(KeyPair::from_seed(PUBLIC).is_err());
    let error = PublicKey::parse_kind(PUBLIC, KeyKind::Account).unwrap_err();
    assert_eq!(error, KeyError::WrongKind { expected: KeyKind::Account, found: KeyKind::User });
}

#[test]
fn generated_keys_differ() {
    let [one, two] = [(); 2].map(|()| KeyPair::generate(KeyKind::User).unwrap());
    assert_ne!(one.public_key(), two.public_key());
}

proptest! {
    #[test]
    fn keys_round_trip(raw: [u8; 32], kind in 0..3_usize) {
        let kind = [KeyKind::Operator, KeyKind::Account, KeyKind::User][kind];
        let pair = KeyPair::from_raw(kind, &raw);
        let again = KeyPair::from_seed(&pair.seed_text()).unwrap();
        prop_assert_eq!(again.public_key(), pair.public_key());
        let public = pair.public_key().to_string();
        let letter = match kind { KeyKind::Operator => 'O', KeyKind::Account => 'A', KeyKind::User => 'U' };
        let seed = pair.seed_text();
        prop_assert!(public.starts_with(letter) && seed.starts_with('S') && seed[1..].starts_with(letter));
        prop_assert_eq!(PublicKey::parse(&public).unwrap(), pair.public_key());
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,70}|[A-Z2-7]{56}|S[A-Z2-7]{57}") {
        let _ = PublicKey::parse(&text);
        let _ = KeyPair::from_seed(&text);
    }
}
