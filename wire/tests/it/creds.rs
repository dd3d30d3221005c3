//! Parsing and writing `.creds` files.

use muster_wire::token::encode::TokenValidity;
use muster_wire::token::{KeyKind, UserCredentials, UserCredentialsError, UserRole};
use proptest::prelude::*;

use crate::world::{ISSUED, TestOrganisation, key};

fn creds() -> UserCredentials {
    let world = TestOrganisation::new();
    let key = key(KeyKind::User, 100);
    UserCredentials::new(
        &world.token(UserRole::Caller, "alice", &key, TokenValidity::without_end(ISSUED)),
        key,
    )
    .unwrap()
}

#[test]
fn written_credentials_parse_again() {
    let written = creds().to_text();
    let read = UserCredentials::parse(&written).unwrap();
    assert_eq!(read.jwt(), creds().jwt());
    assert_eq!(read.key_pair().public_key(), creds().key_pair().public_key());
    assert_eq!(read.claims().name, "alice");
}

#[test]
fn layout_of_nsc_is_parsed() {
    let creds = creds();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\r\n{}\r\n------END NATS USER JWT------\r\n\r\n\
         ************************* IMPORTANT *************************\r\n\
         NKEY Seed printed below can be used to sign and prove identity.\r\n\
         NKEYs are sensitive and should be treated as secrets.\r\n\r\n\
         -----BEGIN USER NKEY SEED-----\r\n{}\r\n------END USER NKEY SEED------\r\n\r\n\
         *************************************************************\r\n",
        creds.jwt(),
        creds.key_pair().seed_text().as_str(),
    );
    assert_eq!(
        UserCredentials::parse(&text).unwrap().key_pair().public_key(),
        creds.key_pair().public_key()
    );
}

#[test]
fn debug_and_errors_do_not_contain_the_seed() {
    let creds = creds();
    let seed = creds.key_pair().seed_text();
    assert!(!format!("{creds:?}").contains(seed.as_str()));
    let broken = creds.to_text().replace("NATS USER JWT", "NATS USER");
    let error = UserCredentials::parse(&broken).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(seed.as_str()));
}

#[test]
fn inconsistent_credential_files_are_refused() {
    let text = creds().to_text();
    let seed = creds().key_pair().seed_text();
    let other = text.replace(seed.as_str(), &key(KeyKind::User, 7).seed_text());
    assert!(matches!(UserCredentials::parse(&other), Err(UserCredentialsError::Mismatch { .. })));
    let account = text.replace(seed.as_str(), &key(KeyKind::Account, 100).seed_text());
    assert!(matches!(UserCredentials::parse(&account), Err(UserCredentialsError::Seed(_))));
    let twice = format!("{}{}", text.as_str(), text.as_str());
    assert!(matches!(UserCredentials::parse(&twice), Err(UserCredentialsError::Block(_))));
    let long = format!("{}{}", text.as_str(), " ".repeat(64 * 1024));
    assert!(matches!(UserCredentials::parse(&long), Err(UserCredentialsError::Oversized { .. })));
}

proptest! {
    #[test]
    fn truncated_text_is_refused(cut in 0..2000_usize) {
        let text = creds().to_text();
        let end = text.rfind("------END USER NKEY SEED------").unwrap() + "------END USER NKEY SEE".len();
        if cut < end {
            prop_assert!(UserCredentials::parse(&text[..cut]).is_err());
        }
    }
}
