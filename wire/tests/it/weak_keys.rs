//! Points of small order as keys: one signature verifies for many messages, so they are refused wherever a key is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use curve25519_dalek::constants::EIGHT_TORSION;
use muster_wire::token::encode::TokenValidity;
use muster_wire::token::{PublicKey, UserRole};
use serde_json::json;

use crate::tokens::{alice, refused, resigned};
use crate::world::{ISSUED, NOW, World};

/// Prefix bytes of the NATS spelling of a user's and of an account's key.
const USER: u8 = 20 << 3;
const ACCOUNT: u8 = 0;

/// Every spelling of every point of small order, the ones that are not canonical included.
fn points() -> Vec<[u8; 32]> {
    let mut points: Vec<[u8; 32]> = EIGHT_TORSION.map(|point| point.compress().0).into();
    // y = 0 and y = 1 again, with the field's modulus added.
    for low in [0xed, 0xee] {
        let mut second = [0xff; 32];
        (second[0], second[31]) = (low, 0x7f);
        points.push(second);
    }
    for mut point in points.clone() {
        point[31] ^= 0x80;
        points.push(point);
    }
    points
}

#[test]
fn keys_of_small_order_are_refused() {
    let world = World::new();
    let by = world.role_key(UserRole::Node);
    for point in points() {
        let text = spell(USER, &point);
        let weak = PublicKey::parse(&text).unwrap();
        assert!(weak.verifying_key().is_err(), "{point:?}");
        let token = resigned(&alice(&world, TokenValidity::without_end(ISSUED)), by, 1, |claims| {
            claims["sub"] = json!(text);
            claims["iss"] = json!(by.public_key());
        });
        assert_eq!(refused(&world, &token), "token_malformed", "{point:?}");
    }
}

/// R = the neutral element and S = 0 is a signature of anything under the neutral element.
#[test]
fn a_role_key_of_small_order_issues_nothing() {
    let world = World::new();
    let mut neutral = [0; 64];
    neutral[0] = 1;
    for point in points() {
        let issuer = spell(ACCOUNT, &point);
        let listed = world.account_token(ISSUED + 1, |account| {
            let mut json = serde_json::to_value(&*account).unwrap();
            json["signing_keys"][1]["key"] = json!(issuer);
            *account = serde_json::from_value(json).unwrap();
        });
        let by = world.role_key(UserRole::Caller);
        let token = resigned(&alice(&world, TokenValidity::without_end(ISSUED)), by, 1, |claims| {
            claims["iss"] = json!(issuer);
        });
        let (content, _) = token.rsplit_once('.').unwrap();
        let forged = format!("{content}.{}", URL_SAFE_NO_PAD.encode(neutral));
        // An account token that lists such a key may be refused as a whole.
        if let Ok(trust) = world.trust.update(&listed) {
            assert!(trust.verify_user(&forged, NOW).is_err(), "{point:?}");
        }
    }
}

/// The NATS spelling of a key with this prefix and these bytes.
fn spell(prefix: u8, point: &[u8; 32]) -> String {
    let mut raw = vec![prefix];
    raw.extend_from_slice(point);
    let sum = raw.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    raw.extend_from_slice(&sum.to_le_bytes());
    data_encoding::BASE32_NOPAD.encode(&raw)
}
