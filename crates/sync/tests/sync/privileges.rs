//! Requests that must not be dropped, from the wire to a lock: all of them are served under an
//! overload in which others are refused, ahead of them, and no more at once than may be.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_control::request::{Rejected, Stage};
use seawall_rpc::{
    CallError, ClientConfig, Context, Known, Request, Router, Server, ServerConfig, Session, Status,
};
use seawall_sync::Mutex;

const STAGE: Stage = Stage(16);
const TOKEN: &str = "sixteen bytes or more";
const CALLS: u32 = 1_000;

/// One of so many calls must not be dropped.
const PRIVILEGED_EVERY: u32 = 50;

/// Who has had the lock, in order.
type Turns = Arc<Mutex<Vec<bool>>>;

/// A method that needs one lock, and notes whether its caller must not be dropped.
fn router(turns: &Turns) -> Router {
    let turns = turns.clone();
    Router::new().method(1, "note", move |ctx: Context, _| {
        let turns = turns.clone();
        async move {
            let mut turns = turns.lock(&ctx).await?;
            turns.push(!ctx.claims().droppable);
            Ok::<_, Status>(Bytes::new())
        }
    })
}

/// A server that believes who has the token, and in which nobody waits for long.
fn start(turns: &Turns, privileged_max: u32) -> Server {
    let known = Known {
        name: "payments".into(),
        token: Some(TOKEN.into()),
        not_droppable: true,
        ..Known::default()
    };
    let listen = ([127, 0, 0, 1], 0).into();
    let mut config = ServerConfig { listen, ..ServerConfig::default() };
    config.admission.algorithm = "none".into();
    config.admission.credit.privileged_max = privileged_max;
    config.limits.outstanding = CALLS;
    config.trust.identities = vec![known];
    Server::start(config, router(turns)).unwrap()
}

async fn connect(server: &Server, token: Option<&str>) -> Session {
    let config = ClientConfig { token: token.map(Into::into), ..ClientConfig::default() };
    Session::connect(server.address(), &config).await.unwrap()
}

fn note(droppable: bool, budget: Duration) -> Request {
    Request { droppable, budget: Some(budget), ..Request::new(1, "") }
}

/// Waits until `condition` holds, for half a minute at most.
async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("what was waited for did not happen");
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn all_that_must_not_be_dropped_are_served_and_ahead_of_the_others() {
    block_on(async {
        let turns = Turns::new(Mutex::new(Vec::new()).at(STAGE, "turns"));
        let server = start(&turns, 64);
        let session = connect(&server, Some(TOKEN)).await;
        let holder = turns.try_lock().unwrap();
        let mut calls = Vec::new();
        for number in 0..CALLS {
            // Half of the others cannot wait at all, and are refused before they run.
            let privileged = number % PRIVILEGED_EVERY == PRIVILEGED_EVERY - 1;
            let budget =
                if number % 2 == 0 { Duration::from_secs(600) } else { Duration::from_nanos(1) };
            let call = session.call(note(!privileged, budget));
            calls.push((privileged, call));
        }
        let refused = CALLS / 2 - CALLS / PRIVILEGED_EVERY;
        until(|| server.stats().refused() == u64::from(refused)).await;
        let waiting = u64::from(CALLS - refused);
        until(|| u64::from(turns.snapshot().waiters) == waiting).await;
        drop(holder);

        let mut served = [0; 2];
        for (privileged, call) in calls {
            match call.await {
                Ok(_) => served[usize::from(privileged)] += 1,
                Err(CallError::Rejected(Rejected { .. })) if !privileged => {}
                Err(error) => panic!("privileged: {privileged}; {error}"),
            }
        }
        assert_eq!(served, [CALLS / 2, CALLS / PRIVILEGED_EVERY]);
        // Ahead of all who could wait, but for the one in seventeen who is not passed over.
        let turns = turns.try_lock().unwrap();
        let last = turns.iter().rposition(|privileged| *privileged).unwrap() as u32;
        assert_eq!(last, CALLS / PRIVILEGED_EVERY);
        let others = turns.iter().position(|privileged| !privileged);
        assert_eq!(others, Some(16));
    });
}

#[test]
fn more_than_may_be_are_refused_at_entry_and_strangers_have_no_privilege() {
    block_on(async {
        let turns = Turns::new(Mutex::new(Vec::new()).at(STAGE, "turns"));
        let server = start(&turns, 5);
        let (known, stranger) = (connect(&server, Some(TOKEN)).await, connect(&server, None).await);
        let holder = turns.try_lock().unwrap();
        let call = |session: &Session| session.call(note(false, Duration::from_nanos(1)));
        let mut calls: Vec<_> = (0..20).map(|_| call(&known)).collect();
        until(|| server.stats().refusals.get(&Stage::ADMISSION) == Some(&15)).await;
        // What a stranger claims is struck out: it is refused like everybody who cannot wait.
        let CallError::Rejected(_) = call(&stranger).await.unwrap_err() else { panic!("refused") };
        assert_eq!(server.stats().privilege_violations, 1);
        until(|| turns.snapshot().waiters == 5).await;
        drop(holder);
        let mut served = 0;
        for call in calls.drain(..) {
            match call.await {
                Ok(_) => served += 1,
                Err(CallError::Rejected(rejected)) => assert_eq!(rejected.stage, Stage::ADMISSION),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(served, 5);
        // Once those are gone, others may come.
        assert!(call(&known).await.is_ok());
    });
}
