//! Those who compete: each a server on one core and a client on another.

mod echo;
mod host;
mod seawall;
mod tonic;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::closed_loop::{self, Load, Sample};
use crate::cores::Cores;

/// A way to make calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Contestant {
    /// Length-prefixed frames over TCP, and nothing else.
    #[serde(rename = "echo")]
    Echo,
    /// Seawall's RPC without admission control.
    #[value(name = "seawall/none")]
    #[serde(rename = "seawall/none")]
    SeawallNone,
    /// Seawall's RPC with Breakwater's credits.
    #[value(name = "seawall/breakwater")]
    #[serde(rename = "seawall/breakwater")]
    SeawallBreakwater,
    /// Unary gRPC over HTTP/2 without TLS.
    #[serde(rename = "tonic")]
    Tonic,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Echo, Self::SeawallNone, Self::SeawallBreakwater, Self::Tonic];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::SeawallNone => "seawall/none",
            Self::SeawallBreakwater => "seawall/breakwater",
            Self::Tonic => "tonic",
        }
    }

    /// Starts the server, connects, makes calls on the current runtime, and ends both.
    ///
    /// `around` is told when the time that counts begins and ends.
    ///
    /// # Errors
    ///
    /// What kept the server from starting, the client from connecting, or all calls from succeeding.
    pub async fn turn(self, load: &Load, cores: &Cores, around: impl FnMut()) -> Result<Sample> {
        match self {
            Self::Echo => {
                let server = cores.on_server(echo::serve)?;
                let client = echo::Client::connect(server.address()).await?;
                closed_loop::run(client, load, around).await
            }
            Self::SeawallNone | Self::SeawallBreakwater => {
                let algorithm = self.name().trim_start_matches("seawall/");
                let server = cores.on_server(|| seawall::serve(algorithm))?;
                let client = seawall::Client::connect(server.address()).await?;
                closed_loop::run(client, load, around).await
            }
            Self::Tonic => {
                let server = cores.on_server(tonic::serve)?;
                let client = tonic::Client::connect(server.address()).await?;
                closed_loop::run(client, load, around).await
            }
        }
    }
}
