//! Random sequences of frames, valid and not: whatever comes, the books balance.

use std::collections::BTreeMap;

use seawall_control::Rng;
use seawall_control::wire::{Hello, Request, RequestOp, ResponseOp, Status};
use seawall_rpc::{Server, ServerConfig};

use crate::support::raw::{Raw, call, frame, hello_frame, short};
use crate::support::{Bystander, ECHO, GROW, PANIC, SLEEP, SPIN, balanced, config, router};

/// Sequences for each server.
const SEQUENCES: u64 = 150;

/// One step of a client that does what comes to its mind. Gives bytes, and counts the calls among them.
fn step(rng: &mut Rng, next_id: &mut u64) -> Vec<u8> {
    let method = [ECHO, SLEEP, SPIN, GROW, PANIC, 99][rng.below(6) as usize];
    let payload = match method {
        SPIN => vec![0],
        GROW => (rng.below(30_000) as u32).to_le_bytes().to_vec(),
        _ => vec![5; rng.below(300) as usize],
    };
    let some_id = rng.below(*next_id + 2);
    match rng.below(100) {
        0..60 => {
            *next_id += 1;
            call(*next_id, method, &payload)
        }
        60..72 => short(RequestOp::Cancel, some_id),
        72..80 => {
            let demand = rng.next_u64() as u32;
            let window_ack = rng.below(5) as u32;
            Request { demand, window_ack, ..Request::new(RequestOp::Demand) }.encode().to_vec()
        }
        80..88 => {
            let mut request = Request { extension: true, ..Request::new(RequestOp::Call) };
            *next_id += 1;
            (request.claims.id, request.claims.method) = (*next_id, ECHO);
            (request.claims.droppable, request.claims.priority.0) = (rng.chance(0.5), 0);
            let block = (rng.below(20) as u32).to_le_bytes();
            frame(request, &[&block[..], &payload[..], &[0; 20]].concat())
        }
        88..90 => call(some_id, method, &payload), // perhaps in use
        90 => hello_frame(&Hello::default()),
        91..93 => short(RequestOp::Goodbye, 0),
        93 => (0..rng.below(100)).map(|_| rng.next_u64() as u8).collect(),
        94..97 => {
            // One byte of a header changed, which may or may not matter.
            let mut bytes = call(some_id, method, &payload);
            bytes[rng.below(64) as usize] = rng.next_u64() as u8;
            bytes
        }
        _ => Vec::new(),
    }
}

/// Checks that no call has two replies, and gives how many have one.
fn replies_are_single(answers: &[crate::support::raw::Answer]) -> usize {
    let mut seen = BTreeMap::<u64, u32>::new();
    for answer in answers.iter().filter(|answer| answer.head.op == ResponseOp::Reply) {
        *seen.entry(answer.head.id).or_default() += 1;
    }
    seen.len()
}

async fn play(server: &Server, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut client = Raw::connect(server.address()).await;
    if rng.chance(0.95) {
        client = client.greet(&Hello::default()).await;
    }
    let mut next_id = 0;
    for _ in 0..rng.below(12) {
        let burst: Vec<u8> =
            (0..1 + rng.below(8)).flat_map(|_| step(&mut rng, &mut next_id)).collect();
        // Cut where it hurts.
        let mut rest = &burst[..];
        while !rest.is_empty() {
            let cut = 1 + rng.below(rest.len() as u64) as usize;
            client.send(&rest[..cut]).await;
            rest = &rest[cut..];
            if rng.chance(0.3) {
                tokio::task::yield_now().await;
            }
        }
    }
    match rng.below(4) {
        0 => drop(client),
        1 => client.reset(),
        _ => {
            // Everything that still sleeps is cancelled, so that the goodbye can be kept.
            let cancels = (0..=next_id).flat_map(|id| short(RequestOp::Cancel, id));
            client.send(&cancels.collect::<Vec<u8>>()).await;
            client.send(&short(RequestOp::Goodbye, 0)).await;
            replies_are_single(&client.rest().await);
        }
    }
}

async fn play_all(mut config: ServerConfig, seeds: std::ops::Range<u64>) {
    config.limits.violations = 10;
    config.limits.outstanding = 16;
    // A sequence may end within a frame, with a header that announces what never comes.
    config.limits.frame_timeout = std::time::Duration::from_millis(200);
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for seed in seeds {
        play(&server, seed).await;
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert!(stats.requests > 100 && stats.closed.len() > 3, "{stats:?}");
}

#[tokio::test]
async fn random_sequences_under_credits() {
    play_all(config("breakwater"), 0..SEQUENCES).await;
}

#[tokio::test]
async fn random_sequences_with_threads_of_their_own() {
    let mut config = config("none");
    (config.threads.workers, config.threads.dispatchers) = (2, 2);
    play_all(config, 1_000..1_000 + SEQUENCES).await;
}
