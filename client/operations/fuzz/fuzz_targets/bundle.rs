//! Bundles: a decoded archive encodes to the same bytes; no archive without a valid signature verifies; an accepted path stays below the agent's
//! directory.
#![no_main]

use std::path::{Component, Path};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use muster_operations::bundle::{BundleArchive, BundleManifest, BundleSignerTrust, check_path};
use muster_wire::identity::SubjectName;
use muster_wire::token::{KeyKind, KeyPair, PublicKey};

static KEY: LazyLock<PublicKey> =
    LazyLock::new(|| KeyPair::from_raw(KeyKind::Operator, &[7; 32]).public_key());

fuzz_target!(|bytes: &[u8]| {
    if let Ok(bundle) = BundleArchive::decode(bytes) {
        assert_eq!(bundle.encode().expect("what is read is written"), bytes);
        let authority = BundleSignerTrust::Operator { operator: *KEY, account: None };
        assert!(bundle.verify_contents(&authority, 1_800_000_000_000).is_err());
    }
    if let Ok(manifest) = serde_json::from_slice::<BundleManifest>(bytes) {
        let again = serde_json::to_vec(&manifest).expect("a manifest is written");
        let read: BundleManifest = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, manifest);
        let _ = manifest.check_files();
    }
    let Ok(path) = std::str::from_utf8(bytes) else {
        return;
    };
    let agent = SubjectName::parse("disk").expect("a name");
    if check_path(&agent, path).is_ok() {
        assert!(Path::new(path).components().all(|part| matches!(part, Component::Normal(_))));
    }
});
