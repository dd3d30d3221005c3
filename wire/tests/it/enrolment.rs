//! How machines become nodes: patterns of names, tickets, wishes, answers, and what the enroller makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_wire::enrol::{
    Answer, AnswerError, Approval, Decision, EnrolError, Enroller, Entry, Handled, Hello,
    HelloError, MemoryRoll, NamePattern, Nonce, Offer, OpenHello, Outcome, Parts, Reason, Ticket,
    TicketError, TicketFact, Welcome, decide, open_answer, open_hello, seal_answer, seal_hello,
};
use muster_wire::identity::Identity;
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

    fn trust(&self, issued_at: u64, change: impl FnOnce(&mut Account)) -> Trust {
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

    fn enroller(&self) -> Enroller<MemoryRoll> {
        Enroller::new(self.parts()).unwrap()
    }

    fn parts(&self) -> Parts<MemoryRoll> {
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

const WEB: [&str; 1] = ["name:web-*.example.com"];

/// Seals a wish, handles it, and opens the answer as the machine does.
async fn enrol(
    place: &Place,
    enroller: &Enroller<MemoryRoll>,
    bootstrap: &Signer,
    called: &str,
    node: &KeyPair,
) -> Outcome {
    let wish = hello(called, node, bootstrap);
    let bytes = seal_hello(&wish, bootstrap, node).unwrap();
    let Handled::Answered { bytes, .. } = enroller.handle(&bytes, NOW).await.unwrap() else {
        panic!("it was not answered");
    };
    let cache = TokenCache::default();
    open_answer(&bytes, &wish, &place.newcomers, &cache, NOW).unwrap()
}

fn reason(outcome: &Outcome) -> Reason {
    match outcome {
        Outcome::Refused(refused) => refused.reason,
        other => panic!("it is not refused: {other:?}"),
    }
}

fn welcome(outcome: Outcome) -> Welcome {
    match outcome {
        Outcome::Welcome(welcome) => *welcome,
        other => panic!("it is not welcome: {other:?}"),
    }
}

#[test]
fn a_star_never_stands_for_a_dot_and_two_stand_for_whole_parts() {
    for (pattern, called, matches) in [
        ("web-*.example.com", "web-1.example.com", true),
        ("web-*.example.com", "WEB-1.Example.com.", true),
        ("web-*.example.com", "web-1.evil.example.com", false),
        ("web-*.example.com", "web-1.example.com.evil.org", false),
        ("web-*.example.com", "xweb-1.example.com", false),
        ("web-*.example.com", "web1.example.com", false),
        ("*.example.com", "example.com", false),
        ("*", "web1", true),
        ("*", "web1.example.com", false),
        ("a*b*c", "aXbYbZc", true),
        ("a*b*c", "aXbYbZ", false),
        ("*a*", "bab", true),
        ("**.lab.example.com", "a.b.lab.example.com", true),
        ("**.lab.example.com", "a.lab.example.com", true),
        ("**.lab.example.com", "lab.example.com", false),
        ("web.**", "web.a.b.c", true),
        ("web.**", "web", false),
        ("a.**.z", "a.b.z", true),
        ("a.**.z", "a.z", false),
        ("a.**.m.**.z", "a.m.m.m.z", true),
        ("**", "any.name.at.all", true),
        ("db1.example.com", "db1.example.com", true),
        ("db1.example.com", "db2.example.com", false),
    ] {
        let parsed = NamePattern::parse(pattern).unwrap();
        assert_eq!(
            parsed.matches(&Identity::parse(called).unwrap()),
            matches,
            "{pattern} {called}"
        );
    }
    for bad in [
        "", ".", "a..b", "a.", "a***", "a**b", "***", "a b", "[a-z]", "a,b", "grün", "a/b",
    ] {
        assert!(NamePattern::parse(bad).is_err(), "{bad}");
    }
    assert!(NamePattern::parse(&"a".repeat(64)).is_err());
    assert!(NamePattern::parse(&"a.".repeat(200)).is_err());
}

/// The same by the plainest of means.
fn plain(pattern: &[&str], parts: &[&str]) -> bool {
    fn part(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|n| part(rest, &text[n..])),
            Some((byte, rest)) => text.first() == Some(byte) && part(rest, &text[1..]),
        }
    }
    match pattern.split_first() {
        None => parts.is_empty(),
        Some((&"**", rest)) => (1..=parts.len()).any(|n| plain(rest, &parts[n..])),
        Some((wanted, rest)) => parts.split_first().is_some_and(|(first, others)| {
            part(wanted.as_bytes(), first.as_bytes()) && plain(rest, others)
        }),
    }
}

proptest! {
    #[test]
    fn patterns_mean_what_the_plainest_reading_means(
        pattern in "((\\*\\*|[ab*]{1,3})\\.){0,4}(\\*\\*|[ab*]{1,3})",
        called in "([ab]{1,4}\\.){0,4}[ab]{1,4}",
    ) {
        if let Ok(parsed) = NamePattern::parse(&pattern) {
            let wanted: Vec<&str> = pattern.split('.').collect();
            let parts: Vec<&str> = called.split('.').collect();
            prop_assert_eq!(parsed.matches(&identity(&called)), plain(&wanted, &parts));
        }
    }

    #[test]
    fn no_text_makes_a_pattern_or_a_ticket_panic(text in "(\\PC|[.*:=]){0,40}") {
        if let Ok(pattern) = NamePattern::parse(&text) {
            let _ = pattern.matches(&identity("web-1.example.com"));
        }
        let _ = Ticket::of(std::slice::from_ref(&text));
        let _ = text.parse::<TicketFact>();
    }

    #[test]
    fn tickets_come_back_from_their_tags(
        names in proptest::collection::vec("[a-z*]{1,5}(\\.[a-z]{1,5}){0,2}", 1..5),
        uses in proptest::option::of(1..1000_u32),
        facts in proptest::collection::btree_map("[a-zA-Z_.-]{1,8}", "[^\\p{C}]{0,20}", 0..5),
    ) {
        let names: Result<Vec<_>, _> = names.iter().map(|name| NamePattern::parse(name)).collect();
        prop_assume!(names.is_ok());
        let ticket = Ticket { names: names.unwrap(), uses, facts };
        prop_assert_eq!(Ticket::of(&ticket.tags().unwrap()).unwrap(), ticket);
    }

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
        sender: Arc::new(place.newcomers.verify_user(bootstrap.token(), NOW).unwrap()),
        ticket: Ticket::of(&WEB.map(str::to_owned)).unwrap(),
    };
    let good = wish("web-1.example.com", NOW);
    let entry = |node: &KeyPair, released| Entry {
        identity: identity("web-1.example.com"),
        key: node.public(),
        credential: bootstrap.public(),
        at: NOW,
        released,
    };
    let decided = |wish: &OpenHello, holder: Option<Entry>, approval| match decide(
        wish,
        holder.as_ref(),
        &approval,
        NOW,
    ) {
        Decision::Issue => "issue".to_owned(),
        Decision::Wait(what) => format!("wait: {what}"),
        Decision::Refuse(reason, _) => reason.word().to_owned(),
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

#[tokio::test]
async fn a_machine_becomes_a_node_and_comes_back_as_the_same() {
    let place = Place::new();
    let enroller = place.enroller();
    let node = machine(80);
    let bootstrap = place.bootstrap(&["name:web-*.example.com", "uses:1", "fact:role=web"]);
    for _ in 0..3 {
        let outcome = enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await;
        let welcome = welcome(outcome);
        let operator = place.fleet.operator.public();
        let fleet = welcome.check(operator, node.public(), NOW).unwrap();
        assert_eq!(fleet.account(), place.fleet.trust.account());
        assert_eq!(
            welcome.facts,
            BTreeMap::from([("role".to_owned(), "web".to_owned())])
        );
        assert!(welcome.provisioning);
    }
    assert_eq!(enroller.roll().entries().len(), 1);
    assert_eq!(enroller.roll().uses(&bootstrap.public()), 1);
}

#[tokio::test]
async fn a_stolen_bootstrap_token_enrols_allowed_free_names_and_nothing_else() {
    let place = Place::new();
    let enroller = place.enroller();
    let stolen = place.bootstrap(&WEB);
    let first = machine(80);
    welcome(enrol(&place, &enroller, &stolen, "web-1.example.com", &first).await);
    let thief = machine(81);
    for (called, expected) in [
        ("web-1.example.com", Reason::NameTaken),
        ("db-1.example.com", Reason::NameNotAllowed),
        ("web-1.dmz.example.com", Reason::NameNotAllowed),
    ] {
        let outcome = enrol(&place, &enroller, &stolen, called, &thief).await;
        assert_eq!(reason(&outcome), expected, "{called}");
    }
    enroller.roll().release(&identity("web-1.example.com"));
    welcome(enrol(&place, &enroller, &stolen, "web-1.example.com", &thief).await);
    // The name went over: the first has it no more.
    let outcome = enrol(&place, &enroller, &stolen, "web-1.example.com", &first).await;
    assert_eq!(reason(&outcome), Reason::NameTaken);
}

#[tokio::test]
async fn a_token_lets_in_as_many_as_it_says() {
    let place = Place::new();
    let enroller = place.enroller();
    let bootstrap = place.bootstrap(&["name:web-*.example.com", "uses:2"]);
    for seed in [80, 81] {
        let called = format!("web-{seed}.example.com");
        welcome(enrol(&place, &enroller, &bootstrap, &called, &machine(seed)).await);
    }
    let third = enrol(
        &place,
        &enroller,
        &bootstrap,
        "web-3.example.com",
        &machine(82),
    )
    .await;
    assert_eq!(reason(&third), Reason::UsedUp);
    // One key cannot collect names with one use either.
    let again = enrol(
        &place,
        &enroller,
        &bootstrap,
        "web-9.example.com",
        &machine(80),
    )
    .await;
    assert_eq!(reason(&again), Reason::UsedUp);
    welcome(
        enrol(
            &place,
            &enroller,
            &bootstrap,
            "web-80.example.com",
            &machine(80),
        )
        .await,
    );
}

/// Everybody who shares a token can read the answers of all: they hold nothing that helps.
#[tokio::test]
async fn somebody_elses_answer_is_of_no_use() {
    let place = Place::new();
    let enroller = place.enroller();
    let (bootstrap, node, thief) = (place.bootstrap(&WEB), machine(80), machine(81));
    let wish = hello("web-1.example.com", &node, &bootstrap);
    let bytes = seal_hello(&wish, &bootstrap, &node).unwrap();
    let Handled::Answered { bytes, outcome, .. } = enroller.handle(&bytes, NOW).await.unwrap()
    else {
        panic!("it was not answered");
    };
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(!text.contains(node.seed().as_str()));

    // The thief takes it for an answer to its own wish.
    let own = hello("web-1.example.com", &thief, &bootstrap);
    let cache = TokenCache::default();
    let opened = open_answer(&bytes, &own, &place.newcomers, &cache, NOW);
    assert!(matches!(opened, Err(AnswerError::Other)));
    let welcome = welcome(outcome);
    let operator = place.fleet.operator.public();
    let checked = welcome.check(operator, thief.public(), NOW);
    assert!(matches!(checked, Err(AnswerError::Foreign)));
    assert!(Creds::new(&welcome.token, thief).is_err());

    // An earlier answer is not taken for one to a later wish.
    let later = Hello {
        nonce: Nonce::from_bytes([10; 16]),
        ..wish
    };
    let opened = open_answer(&bytes, &later, &place.newcomers, &cache, NOW);
    assert!(matches!(opened, Err(AnswerError::Other)));
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

#[test]
fn an_enroller_needs_the_key_that_signs_nodes() {
    let place = Place::new();
    let wrong = Parts {
        node_role: place.fleet.role_key(Role::Caller).clone(),
        ..place.parts()
    };
    assert!(matches!(
        Enroller::new(wrong),
        Err(EnrolError::NotTheNodeKey(_))
    ));
}

#[tokio::test]
async fn a_revocation_reaches_an_enroller_that_runs() {
    let place = Place::new();
    let enroller = place.enroller();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    welcome(enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await);
    let newer = place.trust(ISSUED + 1, |account| {
        account.revoke(&bootstrap.public(), ISSUED);
    });
    enroller.update_newcomers(newer.token()).unwrap();
    assert!(enroller.update_newcomers(place.newcomers.token()).is_err());
    let bytes = seal_hello(
        &hello("web-2.example.com", &node, &bootstrap),
        &bootstrap,
        &node,
    )
    .unwrap();
    let handled = enroller.handle(&bytes, NOW).await.unwrap();
    assert!(matches!(handled, Handled::Ignored(HelloError::Refused(_))));
}
