//! How machines become nodes: patterns of names, tickets, wishes, answers, and what the enroller makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_wire::enrol::{
    Answer, AnswerError, Approval, Decision, Enroller, Entry, Hello, HelloError, KnownName,
    MemoryRoll, Nonce, Offer, OpenHello, Outcome, Parts, Ticket, TicketError, Welcome, decide,
    open_answer, open_hello, seal_answer, seal_hello,
};
use muster_wire::sign::{Kind, Refusal, Signer, seal};
use muster_wire::state::Facts;
use muster_wire::token::claims::{Account, Limits, ScopedKey, SigningKeyEntry, User};
use muster_wire::token::encode::{self, Validity};
use muster_wire::token::{Creds, KeyKind, KeyPair, Role, TokenCache, TokenError, Trust};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{ISSUED, NOW, World, identity, key, name};

/// An organisation with its two accounts.
pub(crate) struct Place {
    pub(crate) fleet: World,
    account: KeyPair,
    newcomer: KeyPair,
    service: KeyPair,
    pub(crate) newcomers: Trust,
}

impl Place {
    pub(crate) fn new() -> Self {
        let fleet = World::new();
        let [account, newcomer, service] = [60, 61, 62].map(|seed| key(KeyKind::Account, seed));
        let mut place = Self {
            newcomers: fleet.trust.clone(),
            fleet,
            account,
            newcomer,
            service,
        };
        place.newcomers = place.trust(ISSUED, |_| {});
        place
    }

    pub(crate) fn trust(&self, issued_at: u64, change: impl FnOnce(&mut Account)) -> Trust {
        let entry = |key: &KeyPair, role: Role| {
            let template = role.template_among_newcomers().unwrap();
            SigningKeyEntry::Scoped(Box::new(ScopedKey::new(key.public(), role, template)))
        };
        let keys = vec![
            entry(&self.newcomer, Role::Newcomer),
            entry(&self.service, Role::Service),
        ];
        let mut claims = Account::new(Limits::default(), keys);
        change(&mut claims);
        let validity = Validity::from(issued_at);
        let token = encode::account(
            "newcomers",
            self.account.public(),
            claims,
            validity,
            &self.fleet.operator,
        );
        Trust::new(self.fleet.operator.public(), &token.unwrap()).unwrap()
    }

    fn party(
        &self,
        role: &KeyPair,
        called: &str,
        seed: u8,
        tags: &[&str],
        until: Option<u64>,
    ) -> Signer {
        let pair = key(KeyKind::User, seed);
        let tags = tags.iter().map(ToString::to_string).collect();
        let nats = User::new(self.account.public(), tags);
        let validity = Validity {
            issued_at: ISSUED,
            expires: until,
        };
        let token = encode::user(&identity(called), pair.public(), nats, validity, role).unwrap();
        Signer::new(Creds::new(&token, pair).unwrap()).unwrap()
    }

    pub(crate) fn bootstrap(&self, tags: &[&str]) -> Signer {
        self.party(&self.newcomer, "bootstrap", 70, tags, None)
    }

    pub(crate) fn enrolling(&self) -> Signer {
        self.party(&self.service, "provisioner", 71, &[], None)
    }

    fn open(&self, bytes: &[u8]) -> Result<OpenHello, HelloError> {
        open_hello(bytes, &self.newcomers, &TokenCache::default(), NOW)
    }

    pub(crate) fn enroller(&self) -> Enroller<MemoryRoll> {
        Enroller::new(self.parts()).unwrap()
    }

    pub(crate) fn parts(&self) -> Parts<MemoryRoll> {
        Parts {
            newcomers: self.newcomers.clone(),
            fleet: self.fleet.trust.clone(),
            service: self.enrolling(),
            node_role: self.fleet.role_key(Role::Node).clone(),
            offer: Offer {
                collectives: vec![name("fleet")],
                urls: Vec::new(),
                lifetime: None,
                provisioning: true,
            },
            roll: MemoryRoll::default(),
        }
    }
}

/// What a token lets in, in most of these tests.
pub(crate) const WEB: [&str; 1] = ["name:web-*.example.com"];

/// The key of a machine.
pub(crate) fn machine(seed: u8) -> KeyPair {
    key(KeyKind::User, seed)
}

/// What a machine says.
pub(crate) fn hello(called: &str, node: &KeyPair, bootstrap: &Signer) -> Hello {
    let facts = json!({"cloud": {"provider": "ec2", "region": "eu-west-1"}});
    Hello {
        identity: identity(called),
        key: node.public(),
        credential: bootstrap.public(),
        nonce: Nonce::from_bytes([9; 16]),
        facts: Facts::from_value(facts).unwrap(),
        version: "0.1.0".to_owned(),
        time: NOW,
    }
}

#[test]
fn what_a_token_says_and_is_not_understood_lets_nobody_in() {
    let of = |tags: &[&str]| Ticket::of(&tags.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(of(&[]), Err(TicketError::Nobody));
    assert!(matches!(
        of(&["name:*", "region:eu"]),
        Err(TicketError::Unknown(_))
    ));
    assert!(matches!(
        of(&["name:*", "uses:1", "uses:9"]),
        Err(TicketError::Unknown(_))
    ));
    assert!(matches!(
        of(&["name:*", "uses:0"]),
        Err(TicketError::Uses(_))
    ));
    assert!(matches!(
        of(&["name:*", "uses:many"]),
        Err(TicketError::Uses(_))
    ));
    assert!(matches!(of(&["name:a b"]), Err(TicketError::Name(_))));
    assert!(matches!(
        of(&["name:*", "fact:=x"]),
        Err(TicketError::Fact(_))
    ));
    assert!(matches!(
        of(&["name:*", "fact:a=b\nc"]),
        Err(TicketError::Fact(_))
    ));
    assert!(matches!(of(&["agent:*"]), Err(TicketError::Unknown(_))));
    let many: Vec<String> = (0..65).map(|n| format!("name:web{n}")).collect();
    assert!(matches!(
        Ticket::of(&many),
        Err(TicketError::TooMany { .. })
    ));
}

#[test]
fn a_wish_is_believed_with_both_signatures() {
    let place = Place::new();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    let wish = hello("web-1.example.com", &node, &bootstrap);
    let opened = place
        .open(&seal_hello(&wish, &bootstrap, &node).unwrap())
        .unwrap();
    assert_eq!(opened.hello, wish);
    assert_eq!(opened.sender.role, Role::Newcomer);
    assert!(opened.ticket.allows(&wish.identity));
}

/// Somebody who has a token and a captured wish, but not the new key, gets nowhere with either.
#[test]
fn a_wish_that_was_swapped_moved_or_borrowed_is_refused() {
    let place = Place::new();
    let (bootstrap, node, thief) = (place.bootstrap(&WEB), machine(80), machine(81));
    let wish = hello("web-1.example.com", &node, &bootstrap);

    // The key is another's: the thief's own signature does not prove it.
    let forged = seal_hello(&wish, &bootstrap, &thief).unwrap();
    assert!(matches!(place.open(&forged), Err(HelloError::Proof { .. })));

    // A captured introduction under another credential.
    let other = place.party(&place.newcomer, "other", 72, &WEB, None);
    let captured = seal_hello(&wish, &bootstrap, &node).unwrap();
    let captured: serde_json::Value = serde_json::from_slice(&captured).unwrap();
    let moved = seal(Kind::Hello, &captured["body"], &other).unwrap();
    assert!(matches!(
        place.open(&moved),
        Err(HelloError::Shape(_) | HelloError::Proof { .. })
    ));

    // The name in a captured wish changed, and the whole sealed again with the shared credential.
    let text = captured["body"]["hello"].to_string();
    let renamed = text.replace("web-1.example.com", "web-2.example.com");
    let body = json!({
        "hello": serde_json::from_str::<serde_json::Value>(&renamed).unwrap(),
        "proof": captured["body"]["proof"],
    });
    let renamed = seal(Kind::Hello, &body, &bootstrap).unwrap();
    assert!(matches!(
        place.open(&renamed),
        Err(HelloError::Proof { .. })
    ));

    // The bootstrap credential's own key, which everybody has who shares it.
    let own = Hello {
        key: bootstrap.public(),
        ..wish.clone()
    };
    let own = seal_hello(&own, &bootstrap, bootstrap.key()).unwrap();
    assert!(matches!(place.open(&own), Err(HelloError::Shape(_))));

    // Parties of other roles and accounts.
    for stranger in [place.enrolling(), place.fleet.caller(), place.fleet.node()] {
        let wish = hello("web-1.example.com", &node, &stranger);
        let bytes = seal_hello(&wish, &stranger, &node).unwrap();
        assert!(matches!(
            place.open(&bytes),
            Err(HelloError::Refused(
                Refusal::WrongRole { .. } | Refusal::Token(TokenError::UnknownIssuer { .. })
            ))
        ));
    }
}

#[test]
fn an_expired_or_revoked_token_is_refused() {
    let place = Place::new();
    let node = machine(80);
    let late = place.party(&place.newcomer, "late", 73, &WEB, Some(NOW / 1000 - 3600));
    let bytes = seal_hello(&hello("web-1.example.com", &node, &late), &late, &node).unwrap();
    assert!(matches!(
        place.open(&bytes),
        Err(HelloError::Refused(Refusal::Token(
            TokenError::Expired { .. }
        )))
    ));

    let bootstrap = place.bootstrap(&WEB);
    let revoked = place.trust(ISSUED + 1, |account| {
        account.revoke(&bootstrap.public(), ISSUED);
    });
    let bytes = seal_hello(
        &hello("web-1.example.com", &node, &bootstrap),
        &bootstrap,
        &node,
    )
    .unwrap();
    assert!(matches!(
        open_hello(&bytes, &revoked, &TokenCache::default(), NOW),
        Err(HelloError::Refused(Refusal::Token(
            TokenError::Revoked { .. }
        )))
    ));
}

#[test]
fn what_follows_from_a_wish_is_decided_without_looking_anywhere() {
    let place = Place::new();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    let wish = |called: &str, time| OpenHello {
        hello: Hello {
            time,
            ..hello(called, &node, &bootstrap)
        },
        sender: Arc::new(
            place
                .newcomers
                .verify_user(&bootstrap.token(), NOW)
                .unwrap(),
        ),
        ticket: Ticket::of(&WEB.map(str::to_owned)).unwrap(),
    };
    let good = wish("web-1.example.com", NOW);
    let entry = |node: &KeyPair, released| Entry {
        identity: identity("web-1.example.com"),
        key: node.public(),
        credential: Some(bootstrap.public()),
        at: NOW,
        life: None,
        released,
        revoked: false,
        former: Vec::new(),
    };
    let decided = |wish: &OpenHello, holder: Option<Entry>, approval| {
        let known = KnownName {
            entry: holder.as_ref(),
            is_key_revoked: false,
        };
        match decide(wish, known, &approval, NOW) {
            Decision::Issue => "issue".to_owned(),
            Decision::Wait(what) => format!("wait: {what}"),
            Decision::Refuse(reason, _) => reason.word().to_owned(),
        }
    };
    let free = Approval::NotNeeded;
    let other = machine(81);
    assert_eq!(decided(&good, None, free.clone()), "issue");
    assert_eq!(
        decided(&good, Some(entry(&node, false)), free.clone()),
        "issue"
    );
    assert_eq!(
        decided(&good, Some(entry(&other, false)), free.clone()),
        "name_taken"
    );
    assert_eq!(
        decided(&good, Some(entry(&other, true)), free.clone()),
        "issue"
    );
    assert_eq!(decided(&good, None, Approval::Given), "issue");
    assert_eq!(
        decided(&good, None, Approval::Awaited("Anna".to_owned())),
        "wait: Anna"
    );
    assert_eq!(
        decided(&good, None, Approval::Denied("no".to_owned())),
        "denied"
    );
    let elsewhere = wish("db-1.example.com", NOW);
    assert_eq!(
        decided(&elsewhere, None, Approval::Given),
        "name_not_allowed"
    );
    for time in [NOW - 600_000, NOW + 600_000] {
        assert_eq!(
            decided(&wish("web-1.example.com", time), None, free.clone()),
            "stale"
        );
    }
    assert_eq!(
        decided(&wish("web-1.example.com", NOW - 80_000), None, free),
        "issue"
    );
}

#[test]
fn only_a_service_of_the_newcomers_account_welcomes_and_only_into_the_operators_fleet() {
    let place = Place::new();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    let wish = hello("web-1.example.com", &node, &bootstrap);
    let stranger = World::with_seed(21);
    let token_by = |world: &World, role, called: &str| {
        world.token(role, called, &node, Validity::from(ISSUED))
    };
    let answer = |welcome: Welcome| Answer {
        nonce: wish.nonce,
        key: wish.key,
        time: NOW,
        outcome: Outcome::Welcome(Box::new(welcome)),
    };
    let good = Welcome {
        identity: wish.identity.clone(),
        token: token_by(&place.fleet, Role::Node, "web-1.example.com"),
        account: place.fleet.trust.token().to_owned(),
        collectives: vec![name("fleet")],
        urls: Vec::new(),
        facts: BTreeMap::new(),
        provisioning: false,
    };
    let cache = TokenCache::default();
    let open = |bytes: &[u8]| open_answer(bytes, &wish, &place.newcomers, &cache, NOW);

    // Another newcomer with the same credential answers in the service's stead.
    let forged = seal_answer(&answer(good.clone()), &bootstrap).unwrap();
    assert!(matches!(
        open(&forged),
        Err(AnswerError::Refused(Refusal::WrongRole { .. }))
    ));
    let of_fleet = place.fleet.signer(Role::Service, "provisioner", 90);
    let forged = seal_answer(&answer(good.clone()), &of_fleet).unwrap();
    assert!(matches!(
        open(&forged),
        Err(AnswerError::Refused(Refusal::Token(_)))
    ));

    let named = Welcome {
        identity: identity("web-2.example.com"),
        ..good.clone()
    };
    let renamed = seal_answer(&answer(named), &place.enrolling()).unwrap();
    assert!(matches!(open(&renamed), Err(AnswerError::Name { .. })));

    let operator = place.fleet.operator.public();
    assert!(good.check(operator, wish.key, NOW).is_ok());
    for (changed, what) in [
        (
            Welcome {
                account: stranger.trust.token().to_owned(),
                ..good.clone()
            },
            "account token",
        ),
        (
            Welcome {
                token: token_by(&stranger, Role::Node, "web-1.example.com"),
                ..good.clone()
            },
            "node's token",
        ),
        (
            Welcome {
                token: token_by(&place.fleet, Role::Caller, "web-1.example.com"),
                ..good.clone()
            },
            "not that of a node",
        ),
        (
            Welcome {
                token: token_by(&place.fleet, Role::Node, "web-2.example.com"),
                ..good
            },
            "not that of a node",
        ),
    ] {
        let refused = changed
            .check(operator, wish.key, NOW)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(what), "{refused}");
    }
}

proptest! {
    #[test]
    fn a_changed_wish_is_never_believed(at in 0..2000_usize, byte in any::<u8>()) {
        let place = Place::new();
        let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
        let good = seal_hello(&hello("web-1.example.com", &node, &bootstrap), &bootstrap, &node).unwrap();
        let mut bytes = good.clone();
        let at = at % bytes.len();
        bytes[at] = byte;
        prop_assume!(bytes != good);
        prop_assert!(place.open(&bytes).is_err());
    }
}
