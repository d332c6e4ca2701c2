//! The native protocol's frames. WIRE.md is the normative text; its golden frames are tests here.
//!
//! Every frame is a header of 64 bytes and a body. Decoding copies nothing: it checks a header in
//! place and tells where the body's parts lie.
//!
//! ```text
//!  0        8        16       24       32       40       48       56       64
//!  ├ SWRQ v o f┤ len m p a┤   id   ┤ dem  bud┤ dl  h  p┤ sent_at┤ start  ┤ten  ack┤  request
//!  ├ SWRS v o s g┤ len f l┤   id   ┤ win  seq┤ pd   qd ┤ ra   sv┤ sent_at┤   0    ┤  response
//! ```

mod error;
mod fields;
mod hello;
mod request;
mod response;

pub use error::DecodeError;
pub use fields::{Entries, MAX_ENTRY, push_entry};
pub use hello::{Hello, Settings};
pub use request::{Layout, Request, RequestOp};
pub use response::{Response, ResponseOp, Status};

/// Length of every header, in bytes.
pub const HEADER_LEN: usize = 64;

/// The protocol version that this code speaks.
pub const VERSION: u8 = 1;

/// Reads `N` bytes at `at` of a header.
fn bytes<const N: usize>(header: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    core::array::from_fn(|i| header[at + i])
}

/// Takes a header off the front of `input`, or says how many bytes are missing.
fn header(input: &[u8], magic: [u8; 4]) -> Result<&[u8; HEADER_LEN], DecodeError> {
    // A wrong magic is told as soon as it shows: a stranger's first bytes end the connection.
    let seen = input.len().min(4);
    if input.first_chunk() != Some(&magic) && input[..seen] != magic[..seen] {
        let mut found = [0; 4];
        found[..seen].copy_from_slice(&input[..seen]);
        return Err(DecodeError::BadMagic { found });
    }
    let Some(header) = input.first_chunk::<HEADER_LEN>() else {
        return Err(DecodeError::Incomplete { missing: HEADER_LEN - input.len() });
    };
    match header[4] {
        VERSION => Ok(header),
        version => Err(DecodeError::BadVersion { version }),
    }
}
