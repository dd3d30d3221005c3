//! A server that stops in lame duck mode loses no message: its clients move to another server, and each gets every message once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_bus::{Bus, BusSubscription};
use muster_tests::cluster::{Cluster, SERVER_NAMES};
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_tests::organisation::{Organisation, options};
use muster_tests::poll_until_ok;
use tokio::time::timeout;

const SUBJECT: &str = "test.numbers";
/// Pause between two messages.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(1);
/// Messages that are received on one server before the test goes on.
const MESSAGES_PER_SERVER: u32 = 300;

/// A connection to this server, which knows the addresses of the others.
async fn connect_to(organisation: &Organisation, cluster: &Cluster, server: &str) -> Bus {
    let user = organisation.unrestricted_user("test");
    loop {
        // Addresses are tried in random order.
        let bus = options(cluster, &user).connect().await.unwrap();
        if bus.server_name() == server {
            return bus;
        }
        bus.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_leave_a_lame_server_without_loss_or_repetition() {
    let organisation = Organisation::new(&[]);
    let cluster = Cluster::start(&organisation).await;
    let [one, two, three] = SERVER_NAMES;
    let receiver = connect_to(&organisation, &cluster, one).await;
    let publisher = connect_to(&organisation, &cluster, three).await;
    let mut numbers = receiver.subscribe(SUBJECT).await.unwrap();
    let mut idle = receiver.subscribe("test.idle").await.unwrap();
    receiver.confirm_delivery().await.unwrap();
    let mark = receiver.mark_connection();

    let is_done = Arc::new(AtomicBool::new(false));
    let publishing = tokio::spawn(publish_numbers(publisher.clone(), Arc::clone(&is_done)));
    let mut expected = 0;
    receive_on(&receiver, &mut numbers, one, &mut expected).await;
    cluster.enter_lame_duck_mode(0);
    // The next server is one of two; `three` must not be lame, because the publisher is there.
    let next = receive_after_move(&receiver, &mut numbers, one, &mut expected).await;
    if next == two {
        cluster.enter_lame_duck_mode(1);
        assert_eq!(receive_after_move(&receiver, &mut numbers, two, &mut expected).await, three);
    }
    is_done.store(true, Ordering::Release);
    let count = publishing.await.unwrap();
    while expected < count {
        receive_number(&mut numbers, &mut expected).await;
    }
    assert_eq!(receiver.disturbed_since(mark), None);
    publisher.publish("test.idle", "x".into()).await.unwrap();
    let message = timeout(NETWORK_TIMEOUT, idle.next()).await.unwrap().unwrap();
    assert_eq!(message.payload().as_ref(), b"x");
    // A subscription that was moved is drained like others.
    publisher.publish(SUBJECT, format!("{expected}").into()).await.unwrap();
    publisher.confirm_delivery().await.unwrap();
    receiver.drain_subscription(&mut numbers).await.unwrap();
    receive_number(&mut numbers, &mut expected).await;
    assert!(numbers.next().await.is_none());
}

/// The only server asks its clients to leave: they stay until it ends, and connect again when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_of_a_single_lame_server_stays() {
    let organisation = Organisation::new(&[]);
    let mut server = organisation.start_broker().await;
    let user = organisation.unrestricted_user("test");
    let bus = options(&server, &user).connect().await.unwrap();
    let mut messages = bus.subscribe(SUBJECT).await.unwrap();
    bus.confirm_delivery().await.unwrap();
    server.enter_lame_duck_mode();
    poll_until_ok("the client notices", NETWORK_TIMEOUT, async || {
        bus.is_moving().then_some(()).ok_or("not moving")
    })
    .await;
    bus.publish(SUBJECT, "before".into()).await.unwrap();
    let message = timeout(NETWORK_TIMEOUT, messages.next()).await.unwrap().unwrap();
    assert_eq!(message.payload().as_ref(), b"before");
    server.kill();
    bus.wait_disconnected().await;
    server.revive().await;
    bus.wait_connected().await;
    bus.publish(SUBJECT, "after".into()).await.unwrap();
    let message = timeout(NETWORK_TIMEOUT, messages.next()).await.unwrap().unwrap();
    assert_eq!(message.payload().as_ref(), b"after");
}

/// Publishes 0, 1, 2 and so on. Returns how many.
async fn publish_numbers(publisher: Bus, is_done: Arc<AtomicBool>) -> u32 {
    let mut interval = tokio::time::interval(PUBLISH_INTERVAL);
    let mut number = 0;
    while !is_done.load(Ordering::Acquire) {
        interval.tick().await;
        publisher.publish(SUBJECT, format!("{number}").into()).await.unwrap();
        number += 1;
    }
    number
}

async fn receive_number(numbers: &mut BusSubscription, expected: &mut u32) {
    let message = timeout(NETWORK_TIMEOUT, numbers.next()).await.unwrap().unwrap();
    assert_eq!(message.payload().as_ref(), expected.to_string().as_bytes());
    *expected += 1;
}

async fn receive_on(
    receiver: &Bus,
    numbers: &mut BusSubscription,
    server: &str,
    expected: &mut u32,
) {
    for _ in 0..MESSAGES_PER_SERVER {
        receive_number(numbers, expected).await;
    }
    assert_eq!(receiver.server_name(), server);
}

/// Receives until the connection to this server is closed, and then on the next one. Returns its name.
async fn receive_after_move(
    receiver: &Bus,
    numbers: &mut BusSubscription,
    former: &str,
    expected: &mut u32,
) -> String {
    while receiver.server_name() == former || receiver.is_moving() {
        receive_number(numbers, expected).await;
    }
    let next = receiver.server_name();
    receive_on(receiver, numbers, &next, expected).await;
    next
}
