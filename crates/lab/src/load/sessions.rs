//! Sessions with the servers, and what to do when there is none.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use nix::errno::Errno;
use seawall_rpc::{Client, ClientConfig, ConnectError, Session, clock};

/// Connections under way at the same time: enough to be quick, few enough for any server's backlog.
const AT_ONCE: usize = 256;

/// Opens a session.
///
/// # Errors
///
/// Why it could not be opened, and what to do.
pub(super) async fn connect(server: SocketAddr, config: &ClientConfig) -> Result<Session> {
    Session::connect(server, config).await.map_err(|error| explain(server, error))
}

/// Opens one session with each of `servers`, in their order.
///
/// # Errors
///
/// Which session could not be opened, why, and what to do.
pub(super) async fn open(
    servers: impl IntoIterator<Item = SocketAddr>,
    config: &ClientConfig,
) -> Result<Vec<Session>> {
    let servers: Vec<SocketAddr> = servers.into_iter().collect();
    let mut sessions = Vec::with_capacity(servers.len());
    for batch in servers.chunks(AT_ONCE) {
        let connecting: Vec<_> = batch
            .iter()
            .map(|&server| {
                let config = config.clone();
                tokio::spawn(async move { connect(server, &config).await })
            })
            .collect();
        for session in connecting {
            let session = session.await.context("connecting was given up")?;
            let number = sessions.len() + 1;
            let which = || format!("session {number} of {}", servers.len());
            sessions.push(session.with_context(which)?);
        }
    }
    Ok(sessions)
}

/// Opens clients that have a session with each of `servers`.
///
/// # Errors
///
/// Which client could not connect to all servers.
pub(super) async fn open_clients(
    servers: &[SocketAddr],
    count: usize,
    config: &ClientConfig,
) -> Result<Vec<Client>> {
    // What is wrong with a server is told by a session of its own.
    drop(open(servers.iter().copied(), config).await?);
    let mut clients = Vec::with_capacity(count);
    for number in 1..=count {
        let client = Client::new(servers.iter().copied(), config.clone());
        let until = clock::now() + config.connect_timeout;
        while client.sessions().len() < servers.len() {
            if clock::now() > until {
                bail!("client {number} of {count} cannot connect to all servers");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        clients.push(client);
    }
    Ok(clients)
}

/// The error with what to do about it, where that can be told.
fn explain(server: SocketAddr, error: ConnectError) -> Error {
    let kind = match &error {
        ConnectError::Io(error) => Some(error.kind()),
        _ => None,
    };
    let files = [Errno::EMFILE, Errno::ENFILE].map(|errno| Some(errno as i32));
    let advice = match (&error, kind) {
        (ConnectError::Io(error), _) if files.contains(&error.raw_os_error()) => {
            "ask for fewer --sessions, or raise the limit of open files (`ulimit -n`)"
        }
        (_, Some(io::ErrorKind::ConnectionRefused)) => {
            return anyhow!(
                "nobody listens at {server}; start a server, for example with `seawall serve \
                 synthetic --listen {server}`, or check host and port"
            );
        }
        (_, Some(io::ErrorKind::InvalidData)) => "is TLS what this port speaks?",
        (_, Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)) => {
            "the server closed it: it may be full, or speak TLS (see --tls-authorities)"
        }
        (ConnectError::Protocol(_), _) => {
            "check the port; a server with TLS needs --tls-authorities"
        }
        (ConnectError::Timeout { .. }, _) => "check host and port, and whether the server is alive",
        _ => return Error::new(error).context(format!("no session with {server}")),
    };
    anyhow!("no session with {server}: {error}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn open_all(servers: &[SocketAddr]) -> Result<Vec<Session>> {
        let runtime = crate::load::engine::runtime().unwrap();
        runtime.block_on(open(servers.iter().copied(), &ClientConfig::default()))
    }

    /// An address at which nobody listens.
    fn deserted() -> SocketAddr {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
    }

    #[test]
    fn an_error_names_the_session_and_says_what_to_do() {
        let server = deserted();
        let error = format!("{:#}", open_all(&[server, server, server]).unwrap_err());
        let expected = format!("session 1 of 3: nobody listens at {server}; start a server");
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn a_later_session_is_named_as_well() {
        let config = seawall_rpc::ServerConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            ..Default::default()
        };
        let server = seawall_rpc::Server::start(config, seawall_rpc::Router::new()).unwrap();
        let error = open_all(&[server.address(), server.address(), deserted()]).unwrap_err();
        assert!(format!("{error:#}").starts_with("session 3 of 3: "), "{error:#}");
    }

    #[test]
    fn who_speaks_something_else_is_told() {
        let protocol = seawall_control::wire::Response::decode(b"HTTP/1.1 400 Bad Request", 1);
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        let error = explain(server, protocol.unwrap_err().into()).to_string();
        assert!(error.contains("127.0.0.1:80") && error.contains("--tls-authorities"), "{error}");
        let full = io::Error::from(Errno::EMFILE);
        assert!(explain(server, full.into()).to_string().contains("`ulimit -n`"));
        let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(explain(server, closed.into()).to_string().contains("TLS"));
    }
}
