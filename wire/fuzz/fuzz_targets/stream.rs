//! Frames of tunnels: decoding does not panic, what is decoded encodes to the same bytes, and no sequence of frames breaks the state of a stream.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use muster_bus::stream::{
    EphemeralKey, StreamFrame, StreamSettings, StreamSide, StreamState,
};

fuzz_target!(|frames: Vec<Vec<u8>>| {
    let (caller, node) = (EphemeralKey::from_secret([1; 32]), EphemeralKey::from_secret([2; 32]));
    let mut cipher = caller.agree(StreamSide::Caller, &node.public_text(), b"x").expect("keys");
    let receiving = node.agree(StreamSide::Node, &caller.public_text(), b"x").expect("keys");
    let mut state = StreamState::new(receiving, StreamSettings::default(), Duration::ZERO);
    let mut now = Duration::ZERO;
    for bytes in frames {
        let _ = state.receive_message(&bytes, now);
        let Some(frame) = StreamFrame::decode(bytes.clone().into()) else { continue };
        let mut encoded = Vec::new();
        frame.encode_into(&mut encoded);
        // An unknown reason is read as another one.
        if !matches!(frame, StreamFrame::Reset(_)) {
            assert_eq!(encoded, bytes);
        }
        let message = cipher.seal_frame(&frame).expect("a frame that was decoded fits");
        state.receive_message(&message, now).expect("an authentic message");
        state.queue_bytes(vec![0; state.send_capacity().min(10)].into(), now);
        while state.take_bytes(now).is_some() {}
        while state.next_message(now).is_some() {}
        now += Duration::from_millis(100);
        let totals = state.totals();
        assert!(totals.received <= u64::MAX >> 1);
    }
});
