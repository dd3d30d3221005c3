//! Succession of operators: which account tokens a receiver accepts while the operator's key is replaced, and afterwards.

use muster_wire::token::claims::AccountClaims;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::succession::{MAX_SUCCESSIONS, SuccessionError};
use muster_wire::token::{AccountTrust, KeyKind, KeyPair, PublicKey, TokenError};

use crate::tokens::resigned;
use crate::world::{ISSUED, TestOrganisation, key};

/// Operators that follow the one of the test organisation, whose seed is 1.
fn operator(number: u8) -> KeyPair {
    key(KeyKind::Operator, 100 + number)
}

/// The statement by which `from` names `to` for this account.
fn statement_for(account: PublicKey, from: &KeyPair, to: &KeyPair) -> String {
    encode::issue_succession("test", to.public_key(), account, ISSUED, from).unwrap()
}

fn statement(world: &TestOrganisation, from: &KeyPair, to: &KeyPair) -> String {
    statement_for(world.account.public_key(), from, to)
}

/// An account token that `by` signed, `age` seconds after the organisation's first one.
fn token(world: &TestOrganisation, by: &KeyPair, age: u64, statements: &[String]) -> String {
    let nats =
        AccountClaims { successions: statements.to_vec(), ..world.trust.claims().nats.clone() };
    let validity = TokenValidity::without_end(ISSUED + age);
    encode::issue_account_token("test", world.account.public_key(), nats, validity, by).unwrap()
}

/// The error of the statements; panics for other errors.
fn succession_error(error: TokenError) -> SuccessionError {
    match error {
        TokenError::Succession(error) => *error,
        error => panic!("{error:?}"),
    }
}

#[test]
fn tokens_of_both_operators_are_accepted_until_the_successor_signs() {
    let (world, next) = (TestOrganisation::new(), operator(1));
    let named = [statement(&world, &world.operator, &next)];
    let announced = world.trust.update(&token(&world, &world.operator, 1, &named)).unwrap();
    assert_eq!(announced.signing_operator(), world.operator.public_key());
    assert_eq!(announced.next_operator(), Some(next.public_key()));
    // A revocation by the old operator in the meantime keeps the statement.
    let announced = announced.update(&token(&world, &world.operator, 2, &named)).unwrap();
    let succeeded = announced.update(&token(&world, &next, 3, &named)).unwrap();
    assert_eq!(succeeded.signing_operator(), next.public_key());
    assert_eq!(succeeded.operator_key(), world.operator.public_key());
    assert_eq!(succeeded.next_operator(), None);
    // A receiver that was off during the rotation, one that starts with the new token, and one that pins the new operator.
    assert!(world.trust.update(&token(&world, &next, 3, &named)).is_ok());
    assert!(AccountTrust::new(world.operator.public_key(), succeeded.account_token()).is_ok());
    assert!(AccountTrust::new(next.public_key(), succeeded.account_token()).is_ok());
    // A receiver that pins the new operator refuses everything that the old one signed.
    let error = AccountTrust::new(next.public_key(), announced.account_token()).unwrap_err();
    assert!(matches!(error, TokenError::Foreign { .. }), "{error}");
}

#[test]
fn replaced_operator_cannot_win_against_its_successor() {
    let (world, next, thief) = (TestOrganisation::new(), operator(1), operator(2));
    let named = [statement(&world, &world.operator, &next)];
    let forked = [statement(&world, &world.operator, &thief)];
    let both = [named[0].clone(), forked[0].clone()];
    let succeeded = world.trust.update(&token(&world, &next, 1, &named)).unwrap();
    for (by, statements) in [
        (&world.operator, &[][..]),
        (&world.operator, &named),
        (&world.operator, &forked),
        (&thief, &forked),
        (&thief, &both),
    ] {
        let stolen = token(&world, by, 100, statements);
        let error = succeeded.update(&stolen).unwrap_err();
        let refused = matches!(error, TokenError::Foreign { .. } | TokenError::Succession(_));
        assert!(refused, "{error:?}");
        let newest = |known: &AccountTrust| {
            AccountTrust::new(world.operator.public_key(), &stolen)
                .map_or_else(|_| known.clone(), |other| known.clone().newest(&other))
        };
        assert_eq!(newest(&succeeded).account_token(), succeeded.account_token());
    }
    assert!(succeeded.update(&token(&world, &next, 100, &named)).is_ok());
}

#[test]
fn first_successor_of_an_operator_stays() {
    let (world, next, thief) = (TestOrganisation::new(), operator(1), operator(2));
    let named = [statement(&world, &world.operator, &next)];
    let forked = [statement(&world, &world.operator, &thief)];
    let announced = world.trust.update(&token(&world, &world.operator, 1, &named)).unwrap();
    for (by, statements) in
        [(&world.operator, &[][..]), (&world.operator, &forked), (&thief, &forked)]
    {
        let error = announced.update(&token(&world, by, 2, statements)).unwrap_err();
        assert_eq!(error.reason_code(), "operator_succession");
        let error = succession_error(error);
        assert!(matches!(error, SuccessionError::OtherSuccessor { .. }), "{error:?}");
    }
    assert!(announced.update(&token(&world, &next, 2, &named)).is_ok());
}

#[test]
fn statement_must_be_signed_by_the_operator_and_for_the_account() {
    let (world, next, thief) = (TestOrganisation::new(), operator(1), operator(2));
    let good = statement(&world, &world.operator, &next);
    let refusal = |by: &KeyPair, statements: &[String]| {
        world.trust.update(&token(&world, by, 1, statements)).unwrap_err()
    };
    // Signed with another key in the name of the operator.
    let forged = resigned(&good, &thief, 1, |_| {});
    let error = succession_error(refusal(&next, &[forged]));
    assert!(matches!(error, SuccessionError::Statement { number: 1, .. }), "{error:?}");
    // Signed by the thief in its own name.
    let error = refusal(&next, &[statement(&world, &thief, &next)]);
    assert!(matches!(error, TokenError::Foreign { .. }), "{error:?}");
    // Of another organisation, whose operator and account differ, and of another account of the same operator.
    let other = TestOrganisation::with_seed(11);
    for foreign in [
        statement_for(other.account.public_key(), &other.operator, &next),
        statement_for(other.account.public_key(), &world.operator, &next),
    ] {
        let error = succession_error(refusal(&next, &[foreign]));
        assert!(matches!(error, SuccessionError::OtherAccount { number: 1, .. }), "{error:?}");
    }
    // An operator's own token is not a statement, and neither is noise.
    let claims = muster_wire::token::claims::OperatorClaims::new(None);
    let validity = TokenValidity::without_end(ISSUED);
    let own = encode::issue_operator_token("test", claims, validity, &world.operator).unwrap();
    for bad in [own, String::new(), "a.b.c".to_owned()] {
        let error = succession_error(refusal(&next, &[bad]));
        assert!(matches!(error, SuccessionError::Statement { .. }), "{error:?}");
    }
    // The token itself must be signed by the operator that it names.
    let stolen = resigned(&token(&world, &next, 1, std::slice::from_ref(&good)), &thief, 1, |_| {});
    assert_eq!(world.trust.update(&stolen).unwrap_err().reason_code(), "token_signature");
    assert_eq!(refusal(&thief, &[good]).reason_code(), "operator_succession");
}

#[test]
fn operators_succeed_each_other_repeatedly() {
    let world = TestOrganisation::new();
    let operators: Vec<KeyPair> = (0..=10).map(operator).collect();
    let mut account = world.trust.claims().nats.clone();
    let mut trust = world.trust.clone();
    let mut previous = &world.operator;
    for (age, next) in (1..).zip(&operators) {
        account.add_succession(statement(&world, previous, next));
        trust = trust.update(&token(&world, next, age, &account.successions)).unwrap();
        previous = next;
    }
    assert_eq!(account.successions.len(), MAX_SUCCESSIONS);
    // A receiver that pins one of the last eight operators before the present one follows; an older one does not.
    let newest = trust.account_token();
    assert!(AccountTrust::new(operators[2].public_key(), newest).is_ok());
    let error = AccountTrust::new(operators[1].public_key(), newest).unwrap_err();
    assert!(matches!(error, TokenError::Foreign { .. }), "{error:?}");
    // Statements out of order, in a circle, and too many.
    let (a, b) = (&operators[0], &operators[1]);
    let link = |from, to| statement(&world, from, to);
    for statements in [
        vec![link(a, b), link(&world.operator, a)],
        vec![link(&world.operator, a), link(a, &world.operator)],
        vec![link(&world.operator, &world.operator)],
    ] {
        let error = world.trust.update(&token(&world, b, 1, &statements)).unwrap_err();
        let error = succession_error(error);
        assert!(matches!(error, SuccessionError::Order { .. }), "{error:?}");
    }
    let many = vec![link(&world.operator, a); MAX_SUCCESSIONS + 1];
    let error = world.trust.update(&token(&world, a, 1, &many)).unwrap_err();
    let error = succession_error(error);
    assert!(matches!(error, SuccessionError::TooMany(9)), "{error:?}");
}
