//! Reads, answers, writes.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, TcpStream};

use super::super::host::Host;
use super::frames::Framed;

/// Starts a server.
pub(in super::super) fn serve() -> io::Result<Host> {
    Host::start(accept)
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    loop {
        let (tcp, _) = listener.accept().await?;
        tokio::spawn(answer(tcp));
    }
}

async fn answer(tcp: TcpStream) -> io::Result<()> {
    let mut framed = Framed::new(tcp)?;
    poll_fn(|cx| turn(&mut framed, cx)).await
}

/// Answers all that has come in one write; a client that does not read is not read from.
fn turn(framed: &mut Framed, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        std::task::ready!(framed.poll_write(cx))?;
        if std::task::ready!(framed.poll_read(cx))? == 0 {
            return Poll::Ready(Ok(()));
        }
        framed.echo()?;
    }
}
