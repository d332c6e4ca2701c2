//! Random sequences of frames, valid and not: whatever comes, the books balance.

use std::time::Duration;

use seawall_control::Rng;
use seawall_control::wire::{Hello, Request, RequestOp, ResponseOp, push_entry};
use seawall_rpc::{Server, ServerConfig};
use tokio::io::AsyncWriteExt;

use crate::support::raw::{Raw, call, frame, hello_frame, short};
use crate::support::{Bystander, ECHO, GROW, PANIC, SLEEP, SPIN, balanced, config, router, until};

/// Sequences for each server.
const SEQUENCES: u64 = 150;

/// A client that sends whatever comes to its mind.
struct Mind {
    rng: Rng,
    /// The newest number given to a call.
    newest: u64,
    /// Calls sent.
    calls: u64,
    /// True as long as it kept to the rules, but for its window.
    orderly: bool,
}

impl Mind {
    fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), newest: 0, calls: 0, orderly: true }
    }

    /// The next bytes to send.
    fn step(&mut self) -> Vec<u8> {
        let some_id = self.rng.below(self.newest + 2);
        match self.rng.below(200) {
            0..120 => self.call(),
            120..144 => short(RequestOp::Cancel, some_id),
            144..160 => {
                let (demand, window_ack) = (self.rng.next_u64() as u32, self.rng.below(5) as u32);
                Request { demand, window_ack, ..Request::new(RequestOp::Demand) }.encode().to_vec()
            }
            160..180 => self.call_with_extension(),
            180..184 => Vec::new(),
            offence => {
                self.orderly = false;
                self.offend(offence, some_id)
            }
        }
    }

    fn call(&mut self) -> Vec<u8> {
        (self.newest, self.calls) = (self.newest + 1, self.calls + 1);
        let method = [ECHO, SLEEP, SPIN, GROW, PANIC, 99][self.rng.below(6) as usize];
        let payload = match method {
            SPIN => vec![0],
            GROW => (self.rng.below(30_000) as u32).to_le_bytes().to_vec(),
            _ => vec![5; self.rng.below(300) as usize],
        };
        call(self.newest, method, &payload)
    }

    fn call_with_extension(&mut self) -> Vec<u8> {
        (self.newest, self.calls) = (self.newest + 1, self.calls + 1);
        let mut request = Request { extension: true, ..Request::new(RequestOp::Call) };
        (request.claims.id, request.claims.method) = (self.newest, ECHO);
        (request.claims.droppable, request.claims.priority.0) = (self.rng.chance(0.5), 0);
        let mut block = Vec::new();
        push_entry(&mut block, 40_000, &vec![9; self.rng.below(20) as usize]);
        let len = block.len() as u32;
        frame(request, &[&len.to_le_bytes()[..], &block, b"payload"].concat())
    }

    fn offend(&mut self, offence: u64, some_id: u64) -> Vec<u8> {
        self.calls += 1; // at most
        match offence {
            184..188 => call(some_id, ECHO, b"perhaps in use"),
            188..190 => hello_frame(&Hello::default()),
            190..194 => short(RequestOp::Goodbye, 0),
            194 => (0..self.rng.below(100)).map(|_| self.rng.next_u64() as u8).collect(),
            _ => {
                // One byte of the header changed, which may or may not matter.
                let mut bytes = call(some_id, ECHO, b"changed");
                bytes[self.rng.below(64) as usize] = self.rng.next_u64() as u8;
                bytes
            }
        }
    }
}

/// Plays one sequence on a connection of its own, and ends it in one way or another.
async fn play(server: &Server, seed: u64) {
    let mut mind = Mind::new(seed);
    let mut client = Raw::connect(server.address()).await;
    if mind.rng.chance(0.95) {
        client = client.greet(&Hello::default()).await;
    } else {
        mind.orderly = false;
    }
    for _ in 0..mind.rng.below(12) {
        let burst: Vec<u8> = (0..=mind.rng.below(8)).flat_map(|_| mind.step()).collect();
        // Cut where it hurts.
        let mut rest = &burst[..];
        while !rest.is_empty() {
            let cut = 1 + mind.rng.below(rest.len() as u64) as usize;
            client.send(&rest[..cut]).await;
            rest = &rest[cut..];
            if mind.rng.chance(0.3) {
                tokio::task::yield_now().await;
            }
        }
    }
    match mind.rng.below(4) {
        0 => drop(client),
        1 => client.reset(),
        _ => {
            // Everything that still sleeps is cancelled, so that the goodbye can be kept.
            let cancels = (0..=mind.newest).flat_map(|id| short(RequestOp::Cancel, id));
            client.send(&cancels.collect::<Vec<u8>>()).await;
            client.send(&short(RequestOp::Goodbye, 0)).await;
            if !mind.orderly {
                // What it sent may be waited for in vain otherwise.
                _ = client.tcp.shutdown().await;
            }
            let answers = client.rest().await;
            let replies = answers.iter().filter(|answer| answer.status().is_some()).count() as u64;
            assert!(replies <= mind.calls, "seed {seed}: more replies than calls");
            let sent_away = answers.last().is_some_and(|last| last.head.op == ResponseOp::Goaway);
            if mind.orderly && !sent_away {
                assert_eq!(replies, mind.calls, "seed {seed}: one reply for each call");
            }
        }
    }
}

async fn play_all(mut config: ServerConfig, seeds: std::ops::Range<u64>) {
    config.limits.violations = 10;
    config.limits.outstanding = 16;
    // A sequence may end within a frame whose header announces what never comes.
    config.limits.frame_timeout = Duration::from_millis(200);
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for seed in seeds {
        play(&server, seed).await;
    }
    until(|| server.stats().sessions == 1).await;
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
