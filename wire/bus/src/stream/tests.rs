//! Two ends over a simulated network that loses, repeats, delays and reorders messages.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use crate::stream::{
    EphemeralKey, FrameRefusal, ResetReason, StreamCipher, StreamEnd, StreamFrame, StreamSettings,
    StreamSide, StreamState,
};

mod network;

use network::{Network, Weather};

const CONTEXT: &[u8] = b"caller.tunnel.node";

fn ciphers() -> (StreamCipher, StreamCipher) {
    let (caller, node) = (EphemeralKey::from_secret([1; 32]), EphemeralKey::from_secret([2; 32]));
    (
        caller.agree(StreamSide::Caller, &node.public_text(), CONTEXT).unwrap(),
        node.agree(StreamSide::Node, &caller.public_text(), CONTEXT).unwrap(),
    )
}

fn states(settings: StreamSettings) -> [StreamState; 2] {
    let (caller, node) = ciphers();
    [caller, node].map(|cipher| StreamState::new(cipher, settings, Duration::ZERO))
}

fn content(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index.wrapping_mul(31) >> 3).to_le_bytes()[0] ^ seed).collect()
}

fn small_window() -> StreamSettings {
    // The network may lose every ping of a minute.
    StreamSettings {
        window: 32 * 1024,
        payload: 1000,
        silence: Duration::from_hours(1),
        idle: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Both directions arrive unharmed, whatever the network does, and both ends end.
    #[test]
    fn bytes_arrive_in_order_over_any_network(
        (loss, repeat, delay) in (0_u64..35, 0_u64..40, 0_u64..60),
        (first, second) in (0_usize..200_000, 0_usize..50_000),
        seed in any::<u64>(),
    ) {
        let mut network = Network::new(small_window(), Weather { loss, repeat, delay }, seed);
        let contents = [content(first, 1), content(second, 2)];
        let ends = network.carry([&contents[0], &contents[1]]);
        prop_assert!(network.received[1] == contents[0]);
        prop_assert!(network.received[0] == contents[1]);
        prop_assert_eq!(ends, [StreamEnd::Complete; 2]);
        prop_assert_eq!(network.ends[0].totals().sent, first as u64);
        prop_assert_eq!(network.ends[1].totals().received, first as u64);
    }

    /// Altered, shortened and invented messages change nothing.
    #[test]
    fn forged_messages_change_nothing(
        position in any::<prop::sample::Index>(),
        change in 1_u8..,
        invented in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut network = Network::new(small_window(), Weather { loss: 0, repeat: 0, delay: 0 }, 7);
        let text = content(5000, 3);
        let _ = network.carry([&text, &text]);
        let [mut caller, mut node] = states(small_window());
        let _ = caller.next_message(Duration::ZERO);
        let grant = node.next_message(Duration::ZERO).unwrap();
        caller.receive_message(&grant, Duration::ZERO).unwrap();
        caller.queue_bytes(Bytes::from_static(b"hello"), Duration::ZERO);
        let message = caller.next_message(Duration::ZERO).unwrap();
        let mut altered = message.clone();
        altered[position.index(message.len())] ^= change;
        for forged in [&altered[..], &message[..message.len() - 1], &invented, &[]] {
            prop_assert!(node.receive_message(forged, Duration::ZERO).is_err());
            prop_assert_eq!(node.take_bytes(Duration::ZERO), None);
        }
        node.receive_message(&message, Duration::ZERO).unwrap();
        let taken = node.take_bytes(Duration::ZERO);
        prop_assert_eq!(taken.as_deref(), Some(&b"hello"[..]));
        let replayed = node.receive_message(&message, Duration::ZERO);
        prop_assert_eq!(replayed, Err(FrameRefusal::Replayed));
        // A message of its own is not accepted either.
        prop_assert!(caller.receive_message(&message, Duration::ZERO).is_err());
        prop_assert_eq!(node.totals().refused, 5);
    }

    /// What is encoded decodes to the same frame; other bytes never panic.
    #[test]
    fn frames_are_decoded_as_encoded(bytes in prop::collection::vec(any::<u8>(), 0..64), offset in 0..u64::MAX >> 1) {
        let _ = StreamFrame::decode(bytes.clone().into());
        let mut frames = vec![
            StreamFrame::End { offset },
            StreamFrame::State { received: offset, limit: offset },
            StreamFrame::Reset(ResetReason::Idle),
            StreamFrame::Closed,
        ];
        if !bytes.is_empty() {
            frames.push(StreamFrame::Data { offset, bytes: bytes.into() });
        }
        for frame in frames {
            let mut encoded = Vec::new();
            frame.encode_into(&mut encoded);
            prop_assert_eq!(StreamFrame::decode(encoded.into()), Some(frame));
        }
    }
}

#[test]
fn everything_replayed_later_changes_nothing() {
    let mut network = Network::new(small_window(), Weather { loss: 0, repeat: 0, delay: 0 }, 7);
    let text = content(20_000, 3);
    network.carry([&text, b"short"]);
    let before = [network.ends[0].totals(), network.ends[1].totals()];
    let seen = std::mem::take(&mut network.seen);
    assert!(seen.len() > 10);
    for (end, message) in seen {
        let replayed = network.ends[end].receive_message(&message, network.now);
        assert_eq!(replayed, Err(FrameRefusal::Replayed));
    }
    network.take_all();
    assert_eq!(network.received[1], text);
    for (end, before) in network.ends.iter().zip(before) {
        assert_eq!((end.totals().sent, end.totals().received), (before.sent, before.received));
    }
}

#[test]
fn keys_of_another_context_or_end_decrypt_nothing() {
    let (caller, node) = (EphemeralKey::from_secret([1; 32]), EphemeralKey::from_secret([2; 32]));
    let agree = |key: &EphemeralKey, side, other: &EphemeralKey, context: &[u8]| {
        let cipher = key.agree(side, &other.public_text(), context).unwrap();
        StreamState::new(cipher, StreamSettings::default(), Duration::ZERO)
    };
    let third = EphemeralKey::from_secret([3; 32]);
    let mut sender = agree(&caller, StreamSide::Caller, &node, CONTEXT);
    let message = sender.next_message(Duration::ZERO).unwrap();
    for mut other in [
        agree(&node, StreamSide::Node, &caller, b"caller.other.node"),
        agree(&third, StreamSide::Node, &caller, CONTEXT),
        agree(&node, StreamSide::Node, &third, CONTEXT),
        agree(&node, StreamSide::Caller, &caller, CONTEXT),
    ] {
        let opened = other.receive_message(&message, Duration::ZERO);
        assert_eq!(opened, Err(FrameRefusal::Forged));
        // It was not silent.
        other.pass_time(StreamSettings::default().silence);
        assert_eq!(other.early_end(), Some(StreamEnd::Reset(ResetReason::Protocol)));
    }
    let mut right = agree(&node, StreamSide::Node, &caller, CONTEXT);
    assert_eq!(right.receive_message(&message, Duration::ZERO), Ok(()));
    for key in ["", "AAAA", &"A".repeat(43), "no base64!"] {
        assert!(caller.agree(StreamSide::Caller, key, CONTEXT).is_err(), "{key}");
    }
}

#[test]
fn receiver_that_takes_nothing_stops_the_sender_at_the_window() {
    let settings = small_window();
    let [mut caller, mut node] = states(settings);
    let mut now = Duration::ZERO;
    let mut accepted = 0;
    for _ in 0..200 {
        now += Duration::from_millis(10);
        while let Some(message) = node.next_message(now) {
            caller.receive_message(&message, now).unwrap();
        }
        let capacity = caller.send_capacity();
        if capacity > 0 {
            caller.queue_bytes(content(capacity, 0).into(), now);
            accepted += capacity;
        }
        while let Some(message) = caller.next_message(now) {
            node.receive_message(&message, now).unwrap();
        }
    }
    assert_eq!(accepted as u64, settings.window);
    let mut taken = 0;
    while let Some(bytes) = node.take_bytes(now) {
        taken += bytes.len();
    }
    assert_eq!(taken, accepted);
    while let Some(message) = node.next_message(now) {
        caller.receive_message(&message, now).unwrap();
    }
    assert_eq!(caller.send_capacity() as u64, settings.window);
}

#[test]
fn one_direction_ends_while_the_other_goes_on() {
    let mut network = Network::new(small_window(), Weather { loss: 10, repeat: 10, delay: 10 }, 3);
    network.ends[0].end_sending();
    let answer = content(100_000, 5);
    let ends = network.carry([b"", &answer]);
    assert_eq!(ends, [StreamEnd::Complete; 2]);
    assert_eq!(network.received[0], answer);
}

#[test]
fn reset_ends_both_ends_with_its_reason() {
    let [mut caller, mut node] = states(StreamSettings::default());
    node.reset(ResetReason::Stopped);
    assert_eq!(node.ended(Duration::ZERO), None);
    let message = node.next_message(Duration::ZERO).unwrap();
    assert_eq!(node.ended(Duration::ZERO), Some(StreamEnd::Reset(ResetReason::Stopped)));
    caller.receive_message(&message, Duration::ZERO).unwrap();
    let ended = caller.ended(Duration::ZERO);
    assert_eq!(ended, Some(StreamEnd::ResetByPeer(ResetReason::Stopped)));
    assert_eq!(caller.next_message(Duration::ZERO), None);
    assert_eq!(caller.send_capacity(), 0);
}

#[test]
fn silence_and_idleness_end_a_stream() {
    let settings = StreamSettings { idle: Some(Duration::from_secs(30)), ..Default::default() };
    let [mut caller, _] = states(settings);
    let mut now = Duration::ZERO;
    while caller.ended(now).is_none() {
        while caller.next_message(now).is_some() {}
        now = caller.next_deadline().max(now + Duration::from_millis(1));
    }
    assert_eq!(caller.ended(now), Some(StreamEnd::Reset(ResetReason::Idle)));
    assert_eq!(now.as_secs(), 30);
    // Pings keep a stream from being silent, but not from being idle.
    let settings = StreamSettings { silence: Duration::from_secs(6), ..settings };
    let mut network = Network::new(settings, Weather { loss: 0, repeat: 0, delay: 0 }, 1);
    while network.ends[0].ended(network.now).is_none() {
        network.step();
    }
    let ended = network.ends[0].ended(network.now);
    assert_eq!(ended, Some(StreamEnd::Reset(ResetReason::Idle)));
    let mut network = Network::new(
        StreamSettings { idle: None, ..settings },
        Weather { loss: 100, repeat: 0, delay: 0 },
        1,
    );
    while network.ends[1].ended(network.now).is_none() {
        network.step();
    }
    assert_eq!(network.ends[1].ended(network.now), Some(StreamEnd::Reset(ResetReason::Silent)));
    assert_eq!(network.now.as_secs(), 6);
}

#[test]
fn everything_unconfirmed_is_sent_again_after_a_reconnection() {
    let [mut caller, mut node] = states(small_window());
    let now = Duration::ZERO;
    let grant = node.next_message(now).unwrap();
    caller.receive_message(&grant, now).unwrap();
    caller.queue_bytes(content(10_000, 1).into(), now);
    while caller.next_message(now).is_some() {}
    caller.connection_restored(now);
    let mut received = Vec::new();
    while let Some(message) = caller.next_message(now) {
        node.receive_message(&message, now).unwrap();
    }
    while let Some(bytes) = node.take_bytes(now) {
        received.extend_from_slice(&bytes);
    }
    assert_eq!(received, content(10_000, 1));
}

/// A peer with valid keys that breaks the protocol ends its stream, and harms nothing else.
#[test]
fn impossible_frames_reset_the_stream() {
    let data = |offset, length| StreamFrame::Data { offset, bytes: content(length, 0).into() };
    for frames in [
        vec![StreamFrame::State { received: 1, limit: 1 }],
        vec![StreamFrame::End { offset: 5 }, StreamFrame::End { offset: 6 }],
        vec![StreamFrame::End { offset: 5 }, data(3, 5)],
        vec![data(0, 10), StreamFrame::End { offset: 5 }],
        vec![data(10, 10), StreamFrame::End { offset: 15 }],
    ] {
        let (mut cipher, node) = ciphers();
        let mut node = StreamState::new(node, small_window(), Duration::ZERO);
        for frame in &frames {
            let message = cipher.seal_frame(frame).unwrap();
            node.receive_message(&message, Duration::ZERO).unwrap();
        }
        assert!(node.next_message(Duration::ZERO).is_some());
        let ended = node.ended(Duration::ZERO);
        assert_eq!(ended, Some(StreamEnd::Reset(ResetReason::Protocol)), "{frames:?}");
    }
    // Bytes beyond the window are dropped.
    let (mut cipher, node) = ciphers();
    let mut node = StreamState::new(node, small_window(), Duration::ZERO);
    let message = cipher.seal_frame(&data(40_000, 10)).unwrap();
    node.receive_message(&message, Duration::ZERO).unwrap();
    assert_eq!(node.totals().received, 0);
    assert_eq!(node.ended(Duration::ZERO), None);
}

#[test]
fn messages_stay_below_the_limit() {
    let mut network = Network::new(
        StreamSettings { silence: Duration::from_hours(1), ..Default::default() },
        Weather { loss: 0, repeat: 0, delay: 0 },
        1,
    );
    let text = content(1_000_000, 1);
    network.carry([&text, b""]);
    assert_eq!(network.largest, crate::stream::MAX_MESSAGE_BYTES);
    const { assert!(crate::stream::MAX_MESSAGE_BYTES < 64 * 1024) }
}
