//! What is unusual and legal: cancels that cross replies, early goodbyes, empty payloads.

use std::time::Duration;

use seawall_control::Rng;
use seawall_control::wire::{Hello, Request, RequestOp, ResponseOp, Status, push_entry};
use seawall_rpc::{Request as OurRequest, Server};
use tokio::io::AsyncWriteExt;

use crate::support::raw::{Raw, call, frame, hello_frame, short};
use crate::support::{
    Bystander, ECHO, SLEEP, SPIN, balanced, closed, config, gauge, router, session, until,
};

#[tokio::test]
async fn cancels_of_what_is_not_outstanding_are_ignored() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut client = Raw::open(server.address()).await;
    client.send(&short(RequestOp::Cancel, 77)).await; // never sent
    client.send(&call(1, ECHO, b"one")).await;
    assert_eq!(client.reply(1).await.text(), "one");
    client.send(&short(RequestOp::Cancel, 1)).await; // already answered
    client.send(&call(1, ECHO, b"two")).await; // the number is free again
    assert_eq!(client.reply(1).await.text(), "two");
    client.send(&short(RequestOp::Goodbye, 0)).await;
    let replies = client.rest().await.into_iter().filter_map(|answer| answer.status());
    assert_eq!(replies.count(), 0, "nothing was answered twice");
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!((stats.cancellations, stats.closed["left"]), (0, 2));
}

#[tokio::test]
async fn a_call_that_is_cancelled_twice_is_answered_once() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut client = Raw::open(server.address()).await;
    client.send(&call(5, SLEEP, b"")).await;
    until(|| server.stats().outstanding == 1).await;
    let twice = [short(RequestOp::Cancel, 5), short(RequestOp::Cancel, 5)];
    client.send(&twice.concat()).await;
    assert_eq!(client.reply(5).await.status(), Some(Status::Cancelled));
    client.send(&short(RequestOp::Goodbye, 0)).await;
    assert!(client.rest().await.iter().all(|answer| answer.status().is_none()));
    assert_eq!(balanced(&server).await.cancellations, 1);
}

#[tokio::test]
async fn calls_and_cancels_in_one_segment_are_all_answered_once() {
    // A rapid reset: calls that are cancelled before they could begin still hold their credits
    // until they are answered, so that nobody gains by it.
    let server = Server::start(config("none"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut client = Raw::open(server.address()).await;
    let (rounds, batch) = (20, 100);
    for round in 0..rounds {
        let ids = round * batch..(round + 1) * batch;
        let pair = |id| [call(id, SLEEP, b""), short(RequestOp::Cancel, id)].concat();
        client.send(&ids.clone().flat_map(pair).collect::<Vec<u8>>()).await;
        let mut answered = Vec::new();
        while answered.len() < batch as usize {
            let answer = client.next().await.unwrap();
            assert_eq!(answer.status(), Some(Status::Cancelled));
            answered.push(answer.head.id);
        }
        answered.sort_unstable();
        assert_eq!(answered, ids.collect::<Vec<_>>());
    }
    drop(client);
    bystander.leave().await;
    assert_eq!(balanced(&server).await.cancellations, rounds * batch);
}

#[tokio::test]
async fn cancels_that_race_with_replies_lose_nothing() {
    let mut config = config("breakwater");
    (config.threads.workers, config.threads.dispatchers) = (2, 2);
    let server = Server::start(config, router()).unwrap();
    let sessions = [session(&server).await, session(&server).await];
    let mut rng = Rng::new(7);
    for _ in 0..200 {
        let mut calls = Vec::new();
        for session in &sessions {
            let methods = [(ECHO, 0), (SPIN, 0), (SLEEP, 0), (ECHO, 2_000)];
            for (method, len) in methods {
                calls.push(session.call(OurRequest::new(method, vec![0; len.max(1)])));
            }
        }
        // Dropped in any order, some at once and some when others were answered.
        while !calls.is_empty() {
            let call = calls.swap_remove(rng.below(calls.len() as u64) as usize);
            if rng.chance(0.3) {
                _ = tokio::time::timeout(Duration::from_micros(rng.below(300)), call).await;
            }
        }
    }
    for session in &sessions {
        until(|| session.outstanding() == 0 && session.pending() == 0).await;
        assert_eq!(session.call(OurRequest::new(ECHO, "fine")).await.unwrap().payload, "fine");
    }
    drop(sessions);
    assert_eq!(balanced(&server).await.window_violations, 0);
}

#[tokio::test]
async fn a_goodbye_waits_for_the_calls_before_it_and_ignores_what_follows() {
    let server = Server::start(config("none"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for garbage in
        [call(9, ECHO, b"too late"), b"garbage".to_vec(), call(9, ECHO, b"")[..6].to_vec()]
    {
        let mut client = Raw::open(server.address()).await;
        let calls: Vec<u8> = (0..5).flat_map(|id| call(id, SPIN, &[2])).collect();
        let before = server.stats();
        client.send(&[calls, short(RequestOp::Goodbye, 0), garbage].concat()).await;
        let answers = client.rest().await;
        let statuses: Vec<_> =
            answers.iter().map(|answer| (answer.head.id, answer.status())).collect();
        assert_eq!(statuses, (0..5).map(|id| (id, Some(Status::Ok))).collect::<Vec<_>>());
        until(|| closed(&server, "left") > before.closed.get("left").copied().unwrap_or(0)).await;
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!(stats.closed["left"], 4);
    assert_eq!(stats.requests, stats.completions);
}

#[tokio::test]
async fn a_client_that_goes_after_its_goodbye_is_not_waited_for() {
    // The handler would run for ever, and nobody is left to read its reply.
    let server = Server::start(config("breakwater"), router()).unwrap();
    for end in ["close", "reset"] {
        let before = server.stats().cancellations;
        let mut client = Raw::open(server.address()).await;
        client.send(&[call(1, SLEEP, b""), short(RequestOp::Goodbye, 0)].concat()).await;
        until(|| server.stats().outstanding == 1).await;
        match end {
            "close" => drop(client),
            _ => client.reset(),
        }
        until(|| server.stats().cancellations == before + 1).await;
    }
    assert_eq!(balanced(&server).await.closed["gone"], 2);
}

#[tokio::test]
async fn a_client_that_closes_its_end_is_gone() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut client = Raw::open(server.address()).await;
    client.send(&call(1, SLEEP, b"")).await;
    until(|| server.stats().outstanding == 1).await;
    client.tcp.shutdown().await.unwrap();
    assert_eq!(client.rest().await, []);
    let stats = balanced(&server).await;
    assert_eq!((stats.closed["gone"], stats.cancellations), (1, 1));
}

#[tokio::test]
async fn demand_without_a_call_is_heard() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut client = Raw::open(server.address()).await;
    let demand = Request { demand: 40, ..Request::new(RequestOp::Demand) };
    client.send(&demand.encode()).await;
    let answer = client.next().await.unwrap();
    assert_eq!(answer.head.op, ResponseOp::Credit);
    assert!(answer.window().unwrap() > 0, "{answer:?}");
    assert!(gauge(&server.stats(), "credits_issued").unwrap() > 0.0);
    // Demands that say nothing new do no harm.
    client.send(&demand.encode().repeat(1_000)).await;
    client.send(&call(1, ECHO, b"x")).await;
    assert_eq!(client.reply(1).await.text(), "x");
    drop(client);
    assert_eq!(balanced(&server).await.window_violations, 0);
}

#[tokio::test]
async fn a_large_call_may_come_right_behind_the_hello() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut client = Raw::connect(server.address()).await;
    let payload = [7; 20 << 10]; // more than a hello may have
    client.send(&[hello_frame(&Hello::default()), call(1, ECHO, &payload)].concat()).await;
    assert_eq!(client.reply(1).await.body, payload);
}

#[tokio::test]
async fn nothing_is_a_legal_payload() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut client = Raw::open(server.address()).await;
    client.send(&call(1, ECHO, b"")).await;
    let answer = client.reply(1).await;
    assert_eq!((answer.status(), answer.body.len()), (Some(Status::Ok), 0));
}

#[tokio::test]
async fn an_extension_block_does_not_reach_the_handler() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut client = Raw::open(server.address()).await;
    let mut block = Vec::new();
    push_entry(&mut block, 1, b"trace context");
    push_entry(&mut block, 40_000, &[1; 300]);
    for (id, block) in [(1, block), (2, Vec::new())] {
        for (id, payload) in [(2 * id, &b"payload"[..]), (2 * id + 1, b"")] {
            let mut request = Request::new(RequestOp::Call);
            (request.claims.id, request.claims.method) = (id, ECHO);
            request.extension = true;
            let len = (block.len() as u32).to_le_bytes();
            client.send(&frame(request, &[&len, &block[..], payload].concat())).await;
            assert_eq!(client.reply(id).await.body, payload);
        }
    }
}

#[tokio::test]
async fn what_an_operation_does_not_use_is_ignored() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut hello = Request::new(RequestOp::Hello);
    (hello.claims.id, hello.demand, hello.extension) = (7, 7, true);
    let mut client = Raw::connect(server.address()).await;
    let body = [Hello::default().encode(), vec![99, 0, 1, 0, 5]].concat(); // an unknown entry
    client.send(&frame(hello, &body)).await;
    assert_eq!(client.next().await.unwrap().head.op, ResponseOp::Settings);
    // Bodies where there should be none are skipped.
    for op in [RequestOp::Cancel, RequestOp::Demand] {
        client.send(&frame(Request::new(op), &[9; 100_000])).await;
    }
    client.send(&call(1, ECHO, b"in step")).await;
    assert_eq!(client.reply(1).await.text(), "in step");
    client.send(&frame(Request::new(RequestOp::Goodbye), b"so long")).await;
    client.rest().await;
    assert_eq!(balanced(&server).await.closed["left"], 1);
}
