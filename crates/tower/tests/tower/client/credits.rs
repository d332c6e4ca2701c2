//! Who may leave, and who waits.

use seawall_control::controller::DropReason;
use seawall_control::request::{Priority, Stage};
use seawall_tower::client::{CallOptions, Config, Dropped, Error, Layer, Refusal};
use tokio::time::Instant;
use tower_layer::Layer as _;

use super::support::{client, get, mock, ms, send, settle};

#[tokio::test(start_paused = true)]
async fn the_first_response_tells_how_many_may_leave() {
    let (client, mut server) = client(Config::default());
    let calls: Vec<_> = (0..5).map(|_| send(&client, get())).collect();
    let mut first = server.arrived().await;
    assert_eq!(first.len(), 1, "it registers the session");
    assert_eq!((first[0].told().demand, first[0].told().ack), (None, None));
    assert_eq!((client.outstanding(), client.pending()), (1, 4));
    first.remove(0).serve("window=2, seq=7");
    let two = server.arrived().await;
    let told: Vec<_> = two.iter().map(|it| (it.told().demand, it.told().ack)).collect();
    assert_eq!(told, [(Some(3), Some(7)), (Some(2), Some(7))]);
    two.into_iter().for_each(|it| it.serve("window=4, seq=8"));
    let rest = server.arrived().await;
    assert_eq!(rest.len(), 2);
    rest.into_iter().for_each(|it| it.serve(""));
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!((client.outstanding(), client.pending()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_credits_holds_nothing_back() {
    let (client, mut server) = client(Config::default());
    let first = send(&client, get());
    server.next().await.serve("");
    first.await.unwrap().unwrap();
    let calls: Vec<_> = (0..100).map(|_| send(&client, get())).collect();
    let all = server.arrived().await;
    assert_eq!(all.len(), 100);
    all.into_iter().for_each(|it| it.serve(""));
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_first_response_does_not_hold_the_others_for_ever() {
    let (client, mut server) = client(Config::default());
    let calls: Vec<_> = (0..3).map(|_| send(&client, get())).collect();
    let begun = Instant::now();
    let first = server.next().await;
    let others = [server.next().await, server.next().await];
    let waited = begun.elapsed();
    assert!(waited >= ms(10) && waited < ms(20), "half of what they may wait: {waited:?}");
    drop((first, others));
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(Error::Inner(_))));
    }
    assert_eq!(client.outstanding(), 0, "the credits are back");
}

#[tokio::test(start_paused = true)]
async fn what_waits_too_long_is_given_up_here() {
    let (client, mut server) = client(Config::default());
    let first = send(&client, get());
    server.next().await.serve("window=1, seq=1");
    first.await.unwrap().unwrap();
    let running = send(&client, get());
    let at_server = server.next().await;
    let begun = Instant::now();
    let late = send(&client, get()).await.unwrap();
    let Err(Error::Refused(refused)) = late else { panic!("{late:?}") };
    assert_eq!(refused.reason, DropReason::Expired);
    assert_eq!(refused.rejected.stage, Stage::CLIENT);
    assert!(refused.rejected.predicted_delay >= ms(20));
    assert!(begun.elapsed() < ms(25), "a fifth of the SLO");
    assert_eq!((server.arrived().await.len(), client.pending()), (0, 0));
    at_server.serve("");
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_is_given_up_may_get_a_response_instead_of_an_error() {
    let config = Config { dropped: Dropped::Response, ..Config::default() };
    let (client, mut server) = client(config);
    let first = send(&client, get());
    server.next().await.serve("window=1, seq=1");
    first.await.unwrap().unwrap();
    let _running = send(&client, get());
    let _at_server = server.next().await;
    let http = send(&client, get());
    let mut call = get();
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let grpc = send(&client, call);
    let http = http.await.unwrap().unwrap();
    assert_eq!(http.status(), 503);
    assert_eq!(Refusal::of(&http).unwrap().rejected.stage, Stage::CLIENT);
    let grpc = grpc.await.unwrap().unwrap();
    assert_eq!(
        (grpc.status().as_u16(), &grpc.headers()["grpc-status"]),
        (200, &"14".parse().unwrap())
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_full_queue_the_oldest_gives_way() {
    let mut config = Config::default();
    config.admission.client.pending_max = 2;
    let (client, mut server) = client(config);
    let _first = send(&client, get());
    let _at_server = server.next().await;
    let calls: Vec<_> = (0..3).map(|_| send(&client, get())).collect();
    settle().await;
    assert_eq!(client.pending(), 2);
    let oldest = calls.into_iter().next().unwrap().await.unwrap();
    let Err(Error::Refused(refused)) = oldest else { panic!("{oldest:?}") };
    assert_eq!(refused.reason, DropReason::QueueFull);
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_dropped_goes_first() {
    let (client, mut server) = client(Config::default());
    let _first = send(&client, get());
    let first = server.next().await;
    let _ordinary = send(&client, get());
    settle().await;
    let mut request = get();
    let options = CallOptions::default().with_droppable(false).with_priority(Priority(3));
    request.extensions_mut().insert(options);
    let _privileged = send(&client, request);
    settle().await;
    first.serve("window=1, seq=1");
    let told = server.next().await.told();
    assert_eq!((told.droppable, told.priority, told.demand), (Some(false), Some(3), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn giving_up_gives_the_place_and_the_credit_back() {
    let (client, mut server) = client(Config::default());
    let running = send(&client, get());
    let at_server = server.next().await;
    let waiting = send(&client, get());
    let next = send(&client, get());
    settle().await;
    waiting.abort();
    settle().await;
    running.abort();
    settle().await;
    assert!(at_server.is_given_up(), "the server is told");
    let told = Instant::now();
    assert_eq!((client.outstanding(), client.pending()), (1, 2));
    let at_server = server.next().await;
    assert!(told.elapsed() >= ms(1) && told.elapsed() < ms(4), "a round trip until it knows");
    assert_eq!((client.outstanding(), client.pending()), (1, 0));
    at_server.serve("window=1, seq=1");
    next.await.unwrap().unwrap();
    assert_eq!((server.arrived().await.len(), client.outstanding()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_credits_asks_once_in_a_while() {
    let (client, mut server) = client(Config::default());
    let first = send(&client, get());
    server.next().await.refuse(", window=0, seq=1");
    assert_eq!(first.await.unwrap().unwrap().status(), 503);
    let begun = Instant::now();
    let second = send(&client, get());
    let third = send(&client, get());
    let asked = server.next().await;
    assert!(begun.elapsed() >= ms(1) && begun.elapsed() < ms(10), "{:?}", begun.elapsed());
    assert_eq!((asked.told().demand, asked.told().ack), (Some(1), Some(1)));
    assert!(server.arrived().await.is_empty(), "one asks");
    asked.serve("window=1, seq=2");
    second.await.unwrap().unwrap();
    server.next().await.serve("");
    third.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_services_of_a_layer_share_one_session() {
    let layer = Layer::new(Config::default()).unwrap();
    let (mock, mut server) = mock();
    let one = layer.layer(mock.clone());
    let other = layer.layer(mock.clone());
    let stranger = Layer::new(Config::default()).unwrap().layer(mock);
    let mut names = Vec::new();
    for client in [&one, &other, &stranger] {
        let call = send(client, get());
        let arrived = server.next().await;
        names.push(arrived.told().client.unwrap());
        arrived.serve("window=1, seq=1");
        call.await.unwrap().unwrap();
    }
    assert_eq!(names[0], names[1]);
    assert_ne!(names[0], names[2]);
    let _running = send(&one, get());
    let _at_server = server.next().await;
    let _waiting = send(&other, get());
    assert!(server.arrived().await.is_empty(), "one credit for both");
    assert_eq!(one.pending(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_client_half_of_a_known_algorithm_decides() {
    let config = Config { algorithm: Some("window".into()), ..Config::default() };
    let (client, mut server) = client(config);
    let calls: Vec<_> = (0..2).map(|_| send(&client, get())).collect();
    let mut one = server.arrived().await;
    assert_eq!(one.len(), 1, "its window has one place at first");
    one.remove(0).serve("");
    server.next().await.serve("");
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let metrics: Vec<_> = client.metrics().iter().map(|(name, _)| name).collect();
    assert_eq!(metrics, ["client_window"]);
}
