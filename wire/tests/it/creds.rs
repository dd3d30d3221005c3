//! The text of `.creds` files.

use muster_wire::token::encode::Validity;
use muster_wire::token::{Creds, CredsError, KeyKind, Role};
use proptest::prelude::*;

use crate::world::{ISSUED, World, key};

fn creds() -> Creds {
    let world = World::new();
    let key = key(KeyKind::User, 100);
    Creds::new(
        &world.token(Role::Caller, "alice", &key, Validity::from(ISSUED)),
        key,
    )
    .unwrap()
}

#[test]
fn what_is_written_reads_back() {
    let written = creds().format();
    let read = Creds::parse(&written).unwrap();
    assert_eq!(read.jwt(), creds().jwt());
    assert_eq!(read.key().public(), creds().key().public());
    assert_eq!(read.claims().name, "alice");
}

#[test]
fn the_layout_of_nsc_is_read() {
    let creds = creds();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\r\n{}\r\n------END NATS USER JWT------\r\n\r\n\
         ************************* IMPORTANT *************************\r\n\
         NKEY Seed printed below can be used to sign and prove identity.\r\n\
         NKEYs are sensitive and should be treated as secrets.\r\n\r\n\
         -----BEGIN USER NKEY SEED-----\r\n{}\r\n------END USER NKEY SEED------\r\n\r\n\
         *************************************************************\r\n",
        creds.jwt(),
        creds.key().seed().as_str(),
    );
    assert_eq!(
        Creds::parse(&text).unwrap().key().public(),
        creds.key().public()
    );
}

#[test]
fn debug_and_errors_keep_the_seed() {
    let creds = creds();
    let seed = creds.key().seed();
    assert!(!format!("{creds:?}").contains(seed.as_str()));
    let broken = creds.format().replace("NATS USER JWT", "NATS USER");
    let error = Creds::parse(&broken).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(seed.as_str()));
}

#[test]
fn a_file_put_together_wrongly_is_refused() {
    let text = creds().format();
    let seed = creds().key().seed();
    let other = text.replace(seed.as_str(), &key(KeyKind::User, 7).seed());
    assert!(matches!(
        Creds::parse(&other),
        Err(CredsError::Mismatch { .. })
    ));
    let account = text.replace(seed.as_str(), &key(KeyKind::Account, 100).seed());
    assert!(matches!(Creds::parse(&account), Err(CredsError::Seed(_))));
    let twice = format!("{}{}", text.as_str(), text.as_str());
    assert!(matches!(Creds::parse(&twice), Err(CredsError::Block(_))));
    let long = format!("{}{}", text.as_str(), " ".repeat(64 * 1024));
    assert!(matches!(
        Creds::parse(&long),
        Err(CredsError::Oversized { .. })
    ));
}

proptest! {
    #[test]
    fn no_cut_text_is_accepted_half(cut in 0..2000_usize) {
        let text = creds().format();
        let end = text.rfind("------END USER NKEY SEED------").unwrap() + "------END USER NKEY SEE".len();
        if cut < end {
            prop_assert!(Creds::parse(&text[..cut]).is_err());
        }
    }
}
