//! Where to listen.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, de};

/// Reads an address to listen at.
///
/// # Errors
///
/// Says how one is written.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no address to listen at; {HOW}"))
}

const HOW: &str = "write ADDRESS:PORT in digits, such as 0.0.0.0:8000 or 127.0.0.1:9117";

/// An address in a configuration.
struct Written(SocketAddr);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Visitor).map(Self)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = SocketAddr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an address in quotes: {HOW}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SocketAddr, E> {
        address(text).map_err(E::custom)
    }
}

/// For `#[serde(deserialize_with)]`.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    Written::deserialize(deserializer).map(|written| written.0)
}

/// The same where there may be none.
pub(super) fn read_option<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    Ok(Option::<Written>::deserialize(deserializer)?.map(|written| written.0))
}
