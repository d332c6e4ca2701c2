//! Frames from client to server.

use core::ops::Range;
use core::time::Duration;

use super::{DecodeError, Entries, HEADER_LEN, VERSION, bytes, header};
use crate::request::{Claims, Priority, Tenant};
use crate::time::micros_u32;

const MAGIC: [u8; 4] = *b"SWRQ";

const DROPPABLE: u16 = 1 << 0;
const DEADLINE: u16 = 1 << 1;
const BUDGET: u16 = 1 << 2;
const EXTENSION: u16 = 1 << 3;
// Bit 4, `more`, is reserved for streams of frames; it and all above must be zero in version 1.
const KNOWN: u16 = DROPPABLE | DEADLINE | BUDGET | EXTENSION;

/// Tag of the extension entry that adds up the execution at earlier services.
const UPSTREAM_EXEC: u16 = 3;

/// Bytes of an extension block that holds this entry and no other, its length included.
const EXTENSION_LEN: usize = 4 + 2 + 2 + 4;

/// What a client's frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestOp {
    /// The first frame: versions, identity. Its body is a [`Hello`](super::Hello).
    Hello = 0,
    /// A request; its body is an optional extension block and the payload.
    Call = 1,
    /// Tells the demand without a request. No body.
    Demand = 2,
    /// The call with this id is no longer wanted. No body; the call still gets its one reply.
    Cancel = 3,
    /// The client will send nothing more, and leaves once all its calls are answered. No body.
    Goodbye = 4,
}

impl RequestOp {
    const ALL: [Self; 5] = [Self::Hello, Self::Call, Self::Demand, Self::Cancel, Self::Goodbye];
}

/// Header of a client's frame, and the length of its extension block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it is for.
    pub op: RequestOp,
    /// The request's own fields; times at the precision of the wire, microseconds.
    pub claims: Claims,
    /// Requests that still wait at the client.
    pub demand: u32,
    /// The newest window that the client has applied.
    pub window_ack: u32,
    /// True when the body starts with an extension block.
    pub extension: bool,
    /// Bytes that follow the header: extension block and payload together.
    pub body_len: u32,
}

/// Where the parts of a complete frame lie, counted from the frame's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The entries of the extension block; empty without one.
    pub extension: Range<usize>,
    /// The payload.
    pub payload: Range<usize>,
}

impl Request {
    /// A frame without body, deadline or budget.
    pub fn new(op: RequestOp) -> Self {
        let claims = Claims::default();
        Self { op, claims, demand: 0, window_ack: 0, extension: false, body_len: 0 }
    }

    /// The header as it goes on the wire.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let claims = &self.claims;
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let flags = flag(claims.droppable, DROPPABLE)
            | flag(claims.deadline.is_some(), DEADLINE)
            | flag(claims.budget.is_some(), BUDGET)
            | flag(self.extension, EXTENSION);
        let mut out = [0; HEADER_LEN];
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = self.op as u8;
        out[6..8].copy_from_slice(&flags.to_le_bytes());
        out[8..12].copy_from_slice(&self.body_len.to_le_bytes());
        out[12..14].copy_from_slice(&claims.method.to_le_bytes());
        out[14] = claims.priority.0;
        out[15] = claims.attempt;
        out[16..24].copy_from_slice(&claims.id.to_le_bytes());
        out[24..28].copy_from_slice(&self.demand.to_le_bytes());
        out[28..32].copy_from_slice(&micros_u32(claims.budget.unwrap_or_default()).to_le_bytes());
        out[32..36].copy_from_slice(&micros_u32(claims.deadline.unwrap_or_default()).to_le_bytes());
        out[36..38].copy_from_slice(&claims.upscale_hops.to_le_bytes());
        out[38..40].copy_from_slice(&claims.path.to_le_bytes());
        out[40..48].copy_from_slice(&claims.sent_at_ns.to_le_bytes());
        out[48..56].copy_from_slice(&claims.start_time_ns.to_le_bytes());
        out[56..60].copy_from_slice(&claims.tenant.0.to_le_bytes());
        out[60..64].copy_from_slice(&self.window_ack.to_le_bytes());
        out
    }

    /// Reads the header at the front of `input`.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Incomplete`] until 64 bytes are there; all others are the sender's fault.
    pub fn decode(input: &[u8], body_max: u32) -> Result<Self, DecodeError> {
        let header = header(input, MAGIC)?;
        let op = *RequestOp::ALL
            .get(usize::from(header[5]))
            .ok_or(DecodeError::BadOp { op: header[5] })?;
        let flags = u16::from_le_bytes(bytes(header, 6));
        if flags & !KNOWN != 0 {
            return Err(DecodeError::ReservedFlag { flags });
        }
        let body_len = u32::from_le_bytes(bytes(header, 8));
        if body_len > body_max {
            return Err(DecodeError::TooLarge { len: body_len, max: body_max });
        }
        let micros = |at| Duration::from_micros(u64::from(u32::from_le_bytes(bytes(header, at))));
        let claims = Claims {
            id: u64::from_le_bytes(bytes(header, 16)),
            method: u16::from_le_bytes(bytes(header, 12)),
            priority: Priority(header[14]),
            tenant: Tenant(u32::from_le_bytes(bytes(header, 56))),
            attempt: header[15],
            droppable: flags & DROPPABLE != 0,
            deadline: (flags & DEADLINE != 0).then(|| micros(32)),
            budget: (flags & BUDGET != 0).then(|| micros(28)),
            upscale_hops: u16::from_le_bytes(bytes(header, 36)),
            path: u16::from_le_bytes(bytes(header, 38)),
            start_time_ns: u64::from_le_bytes(bytes(header, 48)),
            upstream_exec: Duration::ZERO, // an extension
            sent_at_ns: u64::from_le_bytes(bytes(header, 40)),
        };
        Ok(Self {
            op,
            claims,
            demand: u32::from_le_bytes(bytes(header, 24)),
            window_ack: u32::from_le_bytes(bytes(header, 60)),
            extension: flags & EXTENSION != 0,
            body_len,
        })
    }

    /// Length of the whole frame, header included; saturates where `usize` has 32 bits.
    pub const fn frame_len(&self) -> usize {
        HEADER_LEN.saturating_add(self.body_len as usize)
    }

    /// The extension block of a call, length first, if its claims need one. It stands ahead of the
    /// payload; its bytes count in [`body_len`](Self::body_len).
    pub fn extension_block(&self) -> Option<[u8; EXTENSION_LEN]> {
        let micros = micros_u32(self.claims.upstream_exec);
        if micros == 0 {
            return None;
        }
        let mut block = [0; EXTENSION_LEN];
        block[..4].copy_from_slice(&(EXTENSION_LEN as u32 - 4).to_le_bytes());
        block[4..6].copy_from_slice(&UPSTREAM_EXEC.to_le_bytes());
        block[6..8].copy_from_slice(&4_u16.to_le_bytes());
        block[8..].copy_from_slice(&micros.to_le_bytes());
        Some(block)
    }

    /// Reads the claims that are entries of the extension block, whose bytes these are. Other
    /// entries are skipped.
    ///
    /// # Errors
    ///
    /// [`DecodeError::BadBlock`] if the block is malformed, or an entry has another length than its
    /// tag says.
    pub fn read_extension(&mut self, block: &[u8]) -> Result<(), DecodeError> {
        for entry in Entries::new(block) {
            let (tag, value) = entry?;
            if tag == UPSTREAM_EXEC {
                let micros = value.try_into().map_err(|_| DecodeError::BadBlock)?;
                let micros = u64::from(u32::from_le_bytes(micros));
                self.claims.upstream_exec = Duration::from_micros(micros);
            }
        }
        Ok(())
    }

    /// Where extension entries and payload lie in `frame`, which holds the whole frame.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Incomplete`] if `frame` is shorter than [`frame_len`](Self::frame_len);
    /// [`DecodeError::BadBlock`] if the extension block exceeds the body.
    pub fn layout(&self, frame: &[u8]) -> Result<Layout, DecodeError> {
        let end = self.frame_len();
        if frame.len() < end {
            return Err(DecodeError::Incomplete { missing: end - frame.len() });
        }
        if !self.extension {
            return Ok(Layout { extension: HEADER_LEN..HEADER_LEN, payload: HEADER_LEN..end });
        }
        let body = &frame[HEADER_LEN..end];
        let (len, rest) = body.split_first_chunk::<4>().ok_or(DecodeError::BadBlock)?;
        let len = u32::from_le_bytes(*len) as usize;
        if len > rest.len() {
            return Err(DecodeError::BadBlock);
        }
        let start = HEADER_LEN + 4;
        Ok(Layout { extension: start..start + len, payload: start + len..end })
    }
}
