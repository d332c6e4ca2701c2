//! Which processors a server and its load have.

use anyhow::{Context, Result};

use crate::pin;

/// The processors of server and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The server's.
    pub server: usize,
    /// The load's.
    pub load: usize,
    /// How far apart they are.
    pub apart: Apart,
}

/// How far apart server and load are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Each has a core of its own.
    Cores,
    /// Each has a hardware thread of the same core.
    Threads,
    /// There is one processor for both.
    Not,
}

impl Cores {
    /// Chooses among those that there are, and keeps this process to that of the load.
    ///
    /// # Errors
    ///
    /// If the system does not say which there are, or lets nobody choose.
    pub fn keep() -> Result<Self> {
        let cores = Self::look()?;
        pin::to_core(cores.load)?;
        Ok(cores)
    }

    /// Chooses among those that there are.
    ///
    /// # Errors
    ///
    /// If the system does not say which there are.
    pub fn look() -> Result<Self> {
        Self::choose(&pin::available(), pin::siblings)
            .context("the system does not say which cores there are")
    }

    /// The first of the processors is the server's. The load's is one of another core than
    /// [`siblings`](crate::pin::siblings) of the server's, if there is one.
    pub fn choose(available: &[usize], siblings: fn(usize) -> Vec<usize>) -> Option<Self> {
        let (&server, others) = available.split_first()?;
        let same_core = siblings(server);
        let other_core = others.iter().find(|processor| !same_core.contains(processor));
        let (load, apart) = match (other_core, others.first()) {
            (Some(&load), _) => (load, Apart::Cores),
            (None, Some(&load)) => (load, Apart::Threads),
            (None, None) => (server, Apart::Not),
        };
        Some(Self { server, load, apart })
    }

    /// What a reader of the numbers should know of it.
    pub fn note(&self) -> Option<&'static str> {
        match self.apart {
            Apart::Cores => None,
            Apart::Threads => Some(
                "Server and load are two hardware threads of the only core, so each slows the \
                 other down.",
            ),
            Apart::Not => Some("Server and load share the only core, so each disturbs the other."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_load_are_as_far_apart_as_can_be() {
        let pairs = |processor| vec![processor / 2 * 2, processor / 2 * 2 + 1];
        let choose = |available: &[usize]| {
            let cores = Cores::choose(available, pairs)?;
            Some((cores.server, cores.load, cores.apart))
        };
        assert_eq!(choose(&[0, 1, 2, 3]), Some((0, 2, Apart::Cores)));
        assert_eq!(choose(&[1, 2]), Some((1, 2, Apart::Cores)));
        assert_eq!(choose(&[2, 3]), Some((2, 3, Apart::Threads)));
        assert_eq!(choose(&[3]), Some((3, 3, Apart::Not)));
        assert_eq!(choose(&[]), None);
    }
}
