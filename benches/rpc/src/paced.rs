//! A client that sends by the clock, on one connection, and notes when answers come.
//!
//! Every call has a deadline, which only the server looks at: the client waits for its answer
//! whatever that is, so that all answers are measured.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use parking_lot::Mutex;
use seawall_control::request::Stage;
use seawall_control::wire::{self, RequestOp, ResponseOp, Status};
use seawall_measure::Latencies;

/// Answers that are still to come when the sending ends have this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is sent.
#[derive(Clone, Debug)]
pub struct Paced {
    /// The method that is called.
    pub method: u16,
    /// Its argument.
    pub payload: Vec<u8>,
    /// Calls in a second.
    pub rate: u32,
    /// For so long.
    pub time: Duration,
    /// What each call has left when it is sent.
    pub deadline: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls that were sent.
    pub sent: u64,
    /// Results within the deadline.
    pub in_time: u64,
    /// Results after it.
    pub late: u64,
    /// From sending to result.
    pub served: Latencies,
    /// From sending to refusal, whatever the stage.
    pub refused: Latencies,
    /// How many a stage has refused, and how long after they were sent.
    pub refused_at: BTreeMap<Stage, (u64, Latencies)>,
}

impl Tally {
    /// Refusals at a stage.
    pub fn count_at(&self, stage: Stage) -> u64 {
        self.refused_at.get(&stage).map_or(0, |(count, _)| *count)
    }

    /// Refusals at all stages.
    pub fn refusals(&self) -> u64 {
        self.refused_at.values().map(|(count, _)| count).sum()
    }

    /// Calls that had no answer.
    pub fn unanswered(&self) -> u64 {
        self.sent - self.in_time - self.late - self.refusals()
    }
}

impl Paced {
    /// Sends, and adds what comes of it to `tally`.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or goes away.
    pub fn run(&self, address: SocketAddr, tally: &mut Tally) -> Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let hello = wire::Hello::default().encode();
        stream.write_all(&frame(wire::Request::new(RequestOp::Hello), &hello))?;
        let sent: Arc<Mutex<HashMap<u64, Instant>>> = Arc::default();
        let answers = {
            let (stream, sent, deadline) = (stream.try_clone()?, sent.clone(), self.deadline);
            let tally = std::mem::take(tally);
            thread::spawn(move || read_answers(stream, deadline, &sent, tally))
        };
        let (interval, began) = (Duration::from_secs(1) / self.rate, Instant::now());
        let calls = (self.time.as_secs_f64() * f64::from(self.rate)) as u64;
        for id in 1..=calls {
            let at = began + interval * id as u32;
            thread::sleep(at.saturating_duration_since(Instant::now()));
            let mut request = wire::Request::new(RequestOp::Call);
            (request.claims.id, request.claims.method) = (id, self.method);
            request.claims.deadline = Some(self.deadline);
            sent.lock().insert(id, Instant::now());
            stream.write_all(&frame(request, &self.payload))?;
        }
        let until = Instant::now() + PATIENCE;
        while !sent.lock().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        stream.shutdown(Shutdown::Both)?;
        *tally = answers.join().map_err(|_| anyhow!("the reader panicked"))?;
        tally.sent += calls;
        Ok(())
    }
}

fn read_answers(
    mut stream: TcpStream,
    deadline: Duration,
    sent: &Mutex<HashMap<u64, Instant>>,
    mut tally: Tally,
) -> Tally {
    let mut body = Vec::new();
    loop {
        let mut header = [0; wire::HEADER_LEN];
        if stream.read_exact(&mut header).is_err() {
            return tally;
        }
        let head = wire::Response::decode(&header, u32::MAX).expect("the server sends frames");
        body.resize(head.body_len as usize, 0);
        if stream.read_exact(&mut body).is_err() {
            return tally;
        }
        if head.op != ResponseOp::Reply {
            continue;
        }
        let at = sent.lock().remove(&head.id).expect("each call is answered once");
        let took = at.elapsed();
        if head.status == Status::Rejected {
            tally.refused.record(took);
            let (count, refused) = tally.refused_at.entry(head.stage).or_default();
            *count += 1;
            refused.record(took);
        } else {
            tally.served.record(took);
            let in_time = u64::from(took <= deadline);
            tally.in_time += in_time;
            tally.late += 1 - in_time;
        }
    }
}

fn frame(mut request: wire::Request, body: &[u8]) -> Vec<u8> {
    request.body_len = body.len() as u32;
    let mut bytes = request.encode().to_vec();
    bytes.extend_from_slice(body);
    bytes
}
