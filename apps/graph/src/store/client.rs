//! The two requests that graphs make of stores, in the stores' own words.

use std::io;
use std::net::SocketAddr;

use seawall_measure::graph::Store;
use seawall_sync::Pool;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

/// Connections to a store: enough for all threads of memcached, and redis has one thread.
const CONNECTIONS: u32 = 8;

/// Longest value, and most values of a reply: what is more is not ours.
const LENGTH_MAX: usize = 1 << 20;
const VALUES_MAX: usize = 1_000;

/// The key that all requests ask for.
const KEY: &str = "seawall";

/// Bytes of each value: a post of DeathStarBench has 256 characters.
const VALUE: [u8; 256] = [b'v'; 256];

/// Values in a page of a timeline.
const PAGE: usize = 10;

/// Why a store gave no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The connection failed.
    #[error("the store: {0}")]
    Io(#[from] io::Error),
    /// It answered something else.
    #[error("the store said {0:?}")]
    Unexpected(String),
}

/// A client of one store.
#[derive(Debug)]
pub struct StoreClient {
    store: Store,
    connections: Pool<Connection, io::Error>,
}

type Connection = BufStream<TcpStream>;

impl StoreClient {
    /// A client of the store at an address, to which it connects when it is first asked.
    pub fn new(store: Store, address: SocketAddr) -> Self {
        let connections = Pool::new(CONNECTIONS, move || async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(BufStream::new(stream))
        });
        Self { store, connections }
    }

    /// Writes what [`get`](Self::get) will find.
    ///
    /// # Errors
    ///
    /// If the store does not take it.
    pub async fn fill(&self) -> Result<(), StoreError> {
        let mut connection = self.connections.get_plain().await?;
        match self.store {
            Store::Redis => {
                for member in 0..PAGE {
                    let member = format!("post-{member:0256}");
                    let score = member.len().to_string();
                    send(&mut connection, &["ZADD", KEY, &score, &member]).await?;
                    let line = line(&mut connection).await?;
                    if !line.starts_with(':') {
                        return Err(StoreError::Unexpected(line));
                    }
                }
            }
            _ => {
                let head = format!("set {KEY} 0 0 {}\r\n", VALUE.len());
                connection.write_all(head.as_bytes()).await?;
                connection.write_all(&VALUE).await?;
                connection.write_all(b"\r\n").await?;
                connection.flush().await?;
                let line = line(&mut connection).await?;
                if line != "STORED" {
                    return Err(StoreError::Unexpected(line));
                }
            }
        }
        Ok(())
    }

    /// One request, a get of memcached or a range of redis; gives how many values came.
    ///
    /// # Errors
    ///
    /// If the store does not answer as it should.
    pub async fn get(&self) -> Result<usize, StoreError> {
        let mut connection = self.connections.get_plain().await?;
        let asked = match self.store {
            Store::Redis => range(&mut connection).await,
            _ => get(&mut connection).await,
        };
        if asked.is_err() {
            // Nobody knows what else it has to say.
            connection.discard();
        }
        asked
    }
}

async fn get(connection: &mut Connection) -> Result<usize, StoreError> {
    connection.write_all(format!("get {KEY}\r\n").as_bytes()).await?;
    connection.flush().await?;
    let head = line(connection).await?;
    if head == "END" {
        return Ok(0);
    }
    let mut words = head.split(' ');
    let (Some("VALUE"), Some(Ok(length))) = (words.next(), words.nth(2).map(str::parse)) else {
        return Err(StoreError::Unexpected(head));
    };
    value(connection, length).await?;
    match line(connection).await? {
        end if end == "END" => Ok(1),
        other => Err(StoreError::Unexpected(other)),
    }
}

async fn range(connection: &mut Connection) -> Result<usize, StoreError> {
    send(connection, &["ZREVRANGE", KEY, "0", &(PAGE - 1).to_string()]).await?;
    let head = line(connection).await?;
    let count = head.strip_prefix('*').and_then(|count| count.parse().ok());
    let count = count.filter(|count| *count <= VALUES_MAX);
    let Some(count) = count else { return Err(StoreError::Unexpected(head)) };
    for _ in 0..count {
        let head = line(connection).await?;
        let length = head.strip_prefix('$').and_then(|length| length.parse().ok());
        let Some(length) = length else { return Err(StoreError::Unexpected(head)) };
        value(connection, length).await?;
    }
    Ok(count)
}

/// A command of redis, as an array of strings.
async fn send(connection: &mut Connection, words: &[&str]) -> io::Result<()> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    connection.write_all(text.as_bytes()).await?;
    connection.flush().await
}

/// A value and the end of its line.
async fn value(connection: &mut Connection, length: usize) -> Result<(), StoreError> {
    if length > LENGTH_MAX {
        return Err(StoreError::Unexpected(format!("a value of {length} bytes")));
    }
    let mut value = vec![0; length + 2];
    connection.read_exact(&mut value).await?;
    if value.ends_with(b"\r\n") {
        Ok(())
    } else {
        Err(StoreError::Unexpected("a value that does not end where it should".into()))
    }
}

async fn line(connection: &mut Connection) -> Result<String, StoreError> {
    let mut line = Vec::new();
    connection.take(4_096).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    match line.strip_suffix(b"\r\n").map(str::from_utf8) {
        Some(Ok(text)) => Ok(text.to_owned()),
        _ => Err(StoreError::Unexpected(String::from_utf8_lossy(&line).into_owned())),
    }
}
