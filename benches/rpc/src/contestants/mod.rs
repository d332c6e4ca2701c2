//! Those who compete: each a server on one core and a client on another.

mod echo;
mod host;
mod seawall;
mod tonic;

use std::fmt;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use self::seawall::Kind;
use crate::closed_loop::{self, Load, Sample};
use crate::cores::Cores;

/// A way to make calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// Length-prefixed frames over TCP, and nothing else.
    Echo,
    /// Seawall's RPC without admission control.
    SeawallNone,
    /// Seawall's RPC with Breakwater's credits.
    SeawallBreakwater,
    /// Seawall's RPC without admission control, with a dispatcher beside its worker.
    SeawallDispatcher,
    /// The same with a guardian, the patrol.
    SeawallGuarded,
    /// Unary gRPC over HTTP/2 without TLS.
    Tonic,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Echo,
        Self::SeawallNone,
        Self::SeawallBreakwater,
        Self::SeawallDispatcher,
        Self::SeawallGuarded,
        Self::Tonic,
    ];

    /// Starts the server, connects, makes calls on the current runtime, and ends both.
    ///
    /// `around` is told when the time that counts begins and ends.
    ///
    /// # Errors
    ///
    /// What kept the server from starting, the client from connecting, or every call from
    /// succeeding.
    pub async fn turn(self, load: &Load, cores: &Cores, around: impl FnMut()) -> Result<Sample> {
        match self {
            Self::Echo => {
                let server = cores.on_server(echo::serve)?;
                let client = echo::Client::connect(server.address()).await?;
                closed_loop::run(client, load, around).await
            }
            Self::SeawallNone => seawall(Kind::Plain("none"), load, cores, around).await,
            Self::SeawallBreakwater => {
                seawall(Kind::Plain("breakwater"), load, cores, around).await
            }
            Self::SeawallDispatcher => seawall(Kind::Dispatcher, load, cores, around).await,
            Self::SeawallGuarded => seawall(Kind::Guarded, load, cores, around).await,
            Self::Tonic => {
                let server = cores.on_server(tonic::serve)?;
                let client = tonic::Client::connect(server.address()).await?;
                closed_loop::run(client, load, around).await
            }
        }
    }
}

async fn seawall(kind: Kind, load: &Load, cores: &Cores, around: impl FnMut()) -> Result<Sample> {
    let server = cores.on_server(|| seawall::serve(kind))?;
    let client = seawall::Client::connect(server.address()).await?;
    closed_loop::run(client, load, around).await
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Echo => "echo",
            Self::SeawallNone => "seawall-none",
            Self::SeawallBreakwater => "seawall-breakwater",
            Self::SeawallDispatcher => "seawall-dispatcher",
            Self::SeawallGuarded => "seawall-guarded",
            Self::Tonic => "tonic",
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::future::join_all;

    use super::*;
    use crate::closed_loop::Caller;

    /// Calls with payloads of all kinds of lengths at once, and compares what comes back.
    async fn check(caller: impl Caller) {
        let payloads = [0, 1, 64, 5_000, 200_000].map(|len| Bytes::from(vec![len as u8; len]));
        let calls = payloads.iter().map(|payload| {
            let (mut caller, payload) = (caller.clone(), payload.clone());
            async move { caller.call(payload).await.unwrap() }
        });
        assert!(join_all(calls).await == payloads);
    }

    fn run(check: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(check);
    }

    #[test]
    fn echo_gives_back_what_it_got() {
        run(async {
            let server = echo::serve().unwrap();
            check(echo::Client::connect(server.address()).await.unwrap()).await;
        });
    }

    #[test]
    fn seawall_gives_back_what_it_got() {
        run(async {
            for kind in [Kind::Plain("none"), Kind::Plain("breakwater"), Kind::Dispatcher] {
                let server = seawall::serve(kind).unwrap();
                check(seawall::Client::connect(server.address()).await.unwrap()).await;
            }
        });
    }

    #[test]
    fn tonic_gives_back_what_it_got() {
        run(async {
            let server = tonic::serve().unwrap();
            check(tonic::Client::connect(server.address()).await.unwrap()).await;
        });
    }
}
