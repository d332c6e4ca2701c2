//! Connections that tonic knows through TLS.

use http::Extensions;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::certificate::certificate_names;
use super::io::{Connection, Io};

/// What tonic says of a connection with TLS: its `TlsConnectInfo`. It has a name only where tonic
/// is told whose cryptography to use, which is the program's own choice.
type Info = <TlsStream<Io> as Connected>::ConnectInfo;

/// The connection below TLS, if tonic has told of one, with the names in its client's certificate.
///
/// A certificate that rustls tells of has passed its verifier. tonic tells of the connection as
/// such only where it has accepted TLS itself; this it tells of streams that come with TLS, too.
pub(super) fn connection(extensions: &Extensions) -> Option<&Connection> {
    let info = extensions.get::<Info>()?;
    let connection = info.get_ref();
    connection.set_certificate_with(|| {
        let certificates = info.peer_certs();
        let own = certificates.as_ref().and_then(|chain| chain.first());
        own.map_or_else(Vec::new, |own| certificate_names(own))
    });
    Some(connection)
}
