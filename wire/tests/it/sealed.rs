//! Encrypted inputs: who can decrypt them, and the limits in a request.

use muster_wire::encrypted_inputs::{InputEncryptionError, InputEncryptor};
use muster_wire::identity::Identity;
use muster_wire::limits;
use muster_wire::request::{Request, RequestDecodeError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{TestOrganisation, data, request};

#[test]
fn encrypted_inputs_open_only_for_the_named_node_and_request() {
    let world = TestOrganisation::new();
    let (node, other) = (world.node(), world.caller());
    let asked = request(&["db1.acme.net"]);
    let secrets = data(json!({"password": "$6$x", "env": {"TOKEN": [1, null, "\u{0}"]}}));
    let with_key = InputEncryptor::new(asked.id).unwrap();
    let keys = [(node.identity(), &node.public_key())];
    let sealed = with_key.encrypt_inputs(keys, &secrets).unwrap();
    let text = serde_json::to_string(&sealed).unwrap();
    assert!(!text.contains("$6$x") && !text.contains("TOKEN"), "{text}");
    let opened = sealed.decrypt_inputs(node.identity(), node.key_pair(), asked.id).unwrap();
    assert_eq!(opened, secrets);
    let moved = sealed.decrypt_inputs(node.identity(), node.key_pair(), uuid::Uuid::now_v7());
    let stolen = sealed.decrypt_inputs(node.identity(), other.key_pair(), asked.id);
    for refused in [moved, stolen] {
        assert!(matches!(refused, Err(InputEncryptionError::Decrypt(_))), "{refused:?}");
    }
    let not_recipient = Identity::parse("db2.acme.net").unwrap();
    let refused = sealed.decrypt_inputs(&not_recipient, node.key_pair(), asked.id);
    assert!(matches!(refused, Err(InputEncryptionError::NotRecipient(_))));
}

#[test]
fn encrypted_inputs_cannot_be_swapped() {
    let world = TestOrganisation::new();
    let (node, asked) = (world.node(), request(&["db1.acme.net"]));
    let secrets = data(json!({"new": "a", "old": "b"}));
    let with_key = InputEncryptor::new(asked.id).unwrap();
    let sealed = with_key.encrypt_inputs([(node.identity(), &node.public_key())], &secrets);
    let mut swapped = serde_json::to_value(sealed.unwrap()).unwrap();
    let texts = &mut swapped["nodes"][node.identity().as_str()];
    let (new, old) = (texts["new"].take(), texts["old"].take());
    *texts = json!({"new": old, "old": new});
    let swapped: muster_wire::encrypted_inputs::EncryptedInputs =
        serde_json::from_value(swapped).unwrap();
    let refused = swapped.decrypt_inputs(node.identity(), node.key_pair(), asked.id);
    assert!(matches!(refused, Err(InputEncryptionError::Decrypt(_))));
}

#[test]
fn encrypted_inputs_are_limited_to_the_nodes_of_the_request_and_in_size() {
    let decode = |nodes: &[&str], sealed: Value| {
        let mut body = serde_json::to_value(request(nodes)).unwrap();
        body["sealed"] = sealed;
        Request::decode(&serde_json::to_vec(&body).unwrap())
    };
    let texts = |count: usize, length: usize| {
        let texts = (0..count).map(|at| (format!("i{at}"), "A".repeat(length).into()));
        Value::Object(texts.collect())
    };
    let for_db1 = |texts| json!({"key": "", "nodes": {"db1.acme.net": texts}});
    let named = ["db1.acme.net"];
    decode(&named, for_db1(texts(limits::MAX_ENCRYPTED_INPUTS, 1))).unwrap();
    decode(&named, for_db1(texts(1, limits::MAX_ENCRYPTED_INPUT_BYTES))).unwrap();
    for more in [
        texts(limits::MAX_ENCRYPTED_INPUTS + 1, 1),
        texts(2, limits::MAX_ENCRYPTED_INPUT_BYTES / 2 + 1),
    ] {
        let refused = decode(&named, for_db1(more));
        assert!(matches!(refused, Err(RequestDecodeError::EncryptedInputsSize(_))));
    }
    let refused = decode(&["db2.acme.net"], for_db1(texts(1, 1)));
    assert!(matches!(refused, Err(RequestDecodeError::EncryptedInputNodes)), "{refused:?}");
    let world = TestOrganisation::new();
    let large = data(json!({"stdin": "x".repeat(limits::MAX_ENCRYPTED_INPUT_BYTES)}));
    let with_key = InputEncryptor::new(request(&named).id).unwrap();
    let refused =
        with_key.encrypt_inputs([(world.node().identity(), &world.node().public_key())], &large);
    assert!(matches!(refused, Err(InputEncryptionError::TooLarge { .. })));
}

proptest! {
    #[test]
    fn arbitrary_encrypted_inputs_do_not_panic(key in ".{0,60}", text in "[A-Za-z0-9_=-]{0,80}") {
        let world = TestOrganisation::new();
        let node = world.node();
        let nodes = json!({node.identity().as_str(): {"password": text}});
        let sealed: muster_wire::encrypted_inputs::EncryptedInputs = serde_json::from_value(json!({"key": key, "nodes": nodes})).unwrap();
        prop_assert!(sealed.decrypt_inputs(node.identity(), node.key_pair(), uuid::Uuid::now_v7()).is_err());
    }
}
