//! New connections to a replica.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::config::{self, Endpoint, Protocol};
use crate::listen::prepare;
use crate::tls::{self, H2, TlsError};

/// Why there is no connection.
#[derive(Clone, Debug, Error)]
pub(crate) enum ConnectError {
    /// Its name has no address.
    #[error("{name} has no address: {problem}")]
    Name { name: String, problem: String },
    /// Nobody listens there.
    #[error("the connection was refused")]
    Refused,
    /// It took too long.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// The system or the network.
    #[error("no connection: {0}")]
    Failed(String),
    /// The other side is not who it should be, or speaks no TLS that we do.
    #[error("no TLS: {0}")]
    Tls(String),
    /// The first exchange of HTTP went wrong.
    #[error("no HTTP: {0}")]
    Http(String),
}

/// Opens connections to one replica.
pub(crate) struct Dialer {
    endpoint: Endpoint,
    /// Host and port, for requests that name none.
    authority: String,
    tls: Option<Tls>,
}

struct Tls {
    name: ServerName<'static>,
    /// For what requests usually need.
    usual: TlsConnector,
    /// For those that need HTTP/1.1.
    http1: TlsConnector,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialer").field(&self.endpoint.to_string()).finish()
    }
}

impl Dialer {
    pub(crate) fn new(endpoint: &Endpoint, config: &config::Upstream) -> Result<Self, TlsError> {
        let tls = if endpoint.tls {
            let name = config.tls.server_name.as_ref().unwrap_or(&endpoint.host);
            let name = ServerName::try_from(name.clone()).map_err(|_| TlsError::Config {
                key: "tls.server_name".into(),
                problem: format!("\"{name}\" cannot be in a certificate"),
            })?;
            let usual = tls::connector(&config.tls, config.protocol)?;
            let http1 = tls::connector(&config.tls, Protocol::Http1)?;
            Some(Tls { name, usual, http1 })
        } else {
            None
        };
        let named = endpoint.to_string();
        let authority = named.rsplit_once('/').map_or(named.as_str(), |(_, end)| end).to_owned();
        Ok(Self { endpoint: endpoint.clone(), authority, tls })
    }

    /// Host and port, as they stand in the address.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The addresses that the replica's name has now.
    pub(crate) async fn addresses(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let problem = match lookup_host((host.as_str(), *port)).await {
            Ok(found) => {
                let found: Vec<_> = found.collect();
                if !found.is_empty() {
                    return Ok(found);
                }
                "it is unknown".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Err(ConnectError::Name { name: host.clone(), problem })
    }

    /// A new connection, and whether HTTP/2 was agreed on (without TLS nothing is).
    pub(crate) async fn dial(
        &self,
        needs_http1: bool,
        patience: Duration,
    ) -> Result<(Stream, bool), ConnectError> {
        match timeout(patience, self.dial_patiently(needs_http1)).await {
            Ok(dialed) => dialed,
            Err(_) => Err(ConnectError::TimedOut(patience)),
        }
    }

    async fn dial_patiently(&self, needs_http1: bool) -> Result<(Stream, bool), ConnectError> {
        let tcp = self.dial_tcp().await?;
        let Some(Tls { name, usual, http1 }) = &self.tls else {
            return Ok((Stream::Tcp(tcp), false));
        };
        let connector = if needs_http1 { http1 } else { usual };
        let tls = connector.connect(name.clone(), tcp).await;
        let tls = tls.map_err(|error| ConnectError::Tls(error.to_string()))?;
        let is_http2 = tls.get_ref().1.alpn_protocol() == Some(H2);
        Ok((Stream::Tls(Box::new(tls)), is_http2))
    }

    /// Connects to the first of the replica's addresses that takes it.
    async fn dial_tcp(&self) -> Result<TcpStream, ConnectError> {
        let mut last = ConnectError::Refused;
        for address in self.addresses().await? {
            let connected = TcpStream::connect(address).await;
            match connected.and_then(|tcp| prepare(&tcp).map(|()| tcp)) {
                Ok(tcp) => return Ok(tcp),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    last = ConnectError::Refused;
                }
                Err(error) => last = ConnectError::Failed(error.to_string()),
            }
        }
        Err(last)
    }
}

/// A connection to a replica.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of whichever stream it is.
macro_rules! on {
    ($self:expr, $method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Stream::Tcp(tcp) => Pin::new(tcp).$method($($argument),*),
            Stream::Tls(tls) => Pin::new(&mut **tls).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(self, poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on!(self, poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on!(self, poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self, poll_shutdown(cx))
    }
}
