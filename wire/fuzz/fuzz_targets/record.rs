//! Records of nodes: decompression is limited, decoding does not panic, and a record that was read is written to the same value.
#![no_main]

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use libfuzzer_sys::fuzz_target;
use muster_wire::node_record::NodeRecord;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_record(bytes);
    // The same bytes as compressed content, and compressed here.
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory accepts bytes");
    let compressed = encoder.finish().expect("memory accepts bytes");
    for content in [bytes, &compressed] {
        let content = STANDARD_NO_PAD.encode(content);
        let record = serde_json::json!({
            "sender": "db1.acme.net", "time": 1, "digest": "", "content": content, "history": content,
        });
        let record = read_record(record.to_string().as_bytes()).expect("a record");
        if let Ok(decoded) = record.decode_content() {
            let again = NodeRecord::new(record.sender.clone(), 1, &decoded, &decoded);
            assert_eq!(again.expect("it is written").decode_content().expect("and read"), decoded);
        }
        let _ = record.decode_history();
    }
});

fn read_record(bytes: &[u8]) -> Option<NodeRecord> {
    let record: NodeRecord = serde_json::from_slice(bytes).ok()?;
    let _ = (record.decode_content(), record.decode_history());
    Some(record)
}
