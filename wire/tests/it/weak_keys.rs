//! Points of small order as keys: one signature verifies for many messages, so every such key is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use curve25519_dalek::constants::EIGHT_TORSION;
use muster_wire::token::encode::TokenValidity;
use muster_wire::token::{PublicKey, UserRole};
use serde_json::json;

use crate::tokens::{alice, refused, resigned};
use crate::world::{ISSUED, NOW, TestOrganisation};

/// Prefix bytes of user and account keys in the text form of NATS.
const USER: u8 = 20 << 3;
const ACCOUNT: u8 = 0;

/// All encodings of all points of small order, including non-canonical ones.
fn small_order_points() -> Vec<[u8; 32]> {
    let mut points: Vec<[u8; 32]> = EIGHT_TORSION.map(|point| point.compress().0).into();
    // y = 0 and y = 1 plus the modulus of the field.
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
    let world = TestOrganisation::new();
    let by = world.role_key(UserRole::Node);
    for point in small_order_points() {
        let text = encode_key(USER, &point);
        let weak = PublicKey::parse(&text).unwrap();
        assert!(weak.verifying_key().is_err(), "{point:?}");
        let token = resigned(&alice(&world, TokenValidity::without_end(ISSUED)), by, 1, |claims| {
            claims["sub"] = json!(text);
            claims["iss"] = json!(by.public_key());
        });
        assert_eq!(refused(&world, &token), "token_malformed", "{point:?}");
    }
}

/// R = neutral element and S = 0 is a valid signature of every message under the neutral element.
#[test]
fn role_key_of_small_order_issues_no_tokens() {
    let world = TestOrganisation::new();
    let mut neutral = [0; 64];
    neutral[0] = 1;
    for point in small_order_points() {
        let issuer = encode_key(ACCOUNT, &point);
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
        // An account token with such a key may be refused as a whole.
        if let Ok(trust) = world.trust.update(&listed) {
            assert!(trust.verify_user(&forged, NOW).is_err(), "{point:?}");
        }
    }
}

/// The text form of NATS for a key with this prefix and these bytes.
fn encode_key(prefix: u8, point: &[u8; 32]) -> String {
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
