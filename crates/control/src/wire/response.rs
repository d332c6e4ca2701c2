//! Frames from server to client.

use core::time::Duration;

use super::{DecodeError, HEADER_LEN, VERSION, bytes, header};
use crate::controller::Feedback;
use crate::request::Stage;
use crate::time::micros_u32;

const MAGIC: [u8; 4] = *b"SWRS";

const WINDOW: u16 = 1 << 0;
const LEVEL: u16 = 1 << 1;

/// What a server's frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResponseOp {
    /// Answers the hello. Its body is a [`Settings`](super::Settings).
    Settings = 0,
    /// The one terminal reply of a call.
    Reply = 1,
    /// Tells about admission although no reply is due. No body.
    Credit = 2,
    /// The server will take no more calls on this session. Its body is a reason, UTF-8.
    Goaway = 3,
}

impl ResponseOp {
    const ALL: [Self; 4] = [Self::Settings, Self::Reply, Self::Credit, Self::Goaway];
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Served; the body is the result.
    Ok = 0,
    /// A stage refused it in time. No body: the client keeps what it sent.
    Rejected = 1,
    /// The client cancelled it, or its deadline passed while it ran. No body.
    Cancelled = 2,
    /// The application or the server failed it; the body is a code (2 bytes) and a message, UTF-8.
    Error = 3,
}

impl Status {
    const ALL: [Self; 4] = [Self::Ok, Self::Rejected, Self::Cancelled, Self::Error];
}

/// Header of a server's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// What it is for.
    pub op: ResponseOp,
    /// How the call ended.
    pub status: Status,
    /// Where it was refused.
    pub stage: Stage,
    /// Bytes that follow the header.
    pub body_len: u32,
    /// What the client is told about admission.
    pub feedback: Feedback,
    /// Number of the call that it answers.
    pub id: u64,
    /// For a refusal: the wait that the stage predicted.
    pub predicted_delay: Duration,
    /// The server's queueing delay when the frame left.
    pub queue_delay: Duration,
    /// For a refusal: when to come back, zero if unknown.
    pub retry_after: Duration,
    /// From the start of the handler to its end.
    pub service: Duration,
    /// The request's send time, echoed: nanoseconds of the client's realtime clock.
    pub sent_at_ns: u64,
}

impl Response {
    /// A successful frame without body and news.
    pub fn new(op: ResponseOp) -> Self {
        Self {
            op,
            status: Status::Ok,
            stage: Stage::NONE,
            body_len: 0,
            feedback: Feedback::None,
            id: 0,
            predicted_delay: Duration::ZERO,
            queue_delay: Duration::ZERO,
            retry_after: Duration::ZERO,
            service: Duration::ZERO,
            sent_at_ns: 0,
        }
    }

    /// The header as it goes on the wire.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let (flags, level, size, seq) = match self.feedback {
            Feedback::None => (0, 0, 0, 0),
            Feedback::Window { size, seq } => (WINDOW, 0, size, seq),
            Feedback::Level(level) => (LEVEL, level, 0, 0),
        };
        let mut out = [0; HEADER_LEN];
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = self.op as u8;
        out[6] = self.status as u8;
        out[7] = self.stage.0;
        out[8..12].copy_from_slice(&self.body_len.to_le_bytes());
        out[12..14].copy_from_slice(&flags.to_le_bytes());
        out[14..16].copy_from_slice(&level.to_le_bytes());
        out[16..24].copy_from_slice(&self.id.to_le_bytes());
        out[24..28].copy_from_slice(&size.to_le_bytes());
        out[28..32].copy_from_slice(&seq.to_le_bytes());
        out[32..36].copy_from_slice(&micros_u32(self.predicted_delay).to_le_bytes());
        out[36..40].copy_from_slice(&micros_u32(self.queue_delay).to_le_bytes());
        out[40..44].copy_from_slice(&micros_u32(self.retry_after).to_le_bytes());
        out[44..48].copy_from_slice(&micros_u32(self.service).to_le_bytes());
        out[48..56].copy_from_slice(&self.sent_at_ns.to_le_bytes());
        out
    }

    /// Reads the header at the front of `input`.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Incomplete`] until 64 bytes are there; all others are the sender's fault.
    pub fn decode(input: &[u8], body_max: u32) -> Result<Self, DecodeError> {
        let header = header(input, MAGIC)?;
        let op = *ResponseOp::ALL
            .get(usize::from(header[5]))
            .ok_or(DecodeError::BadOp { op: header[5] })?;
        let status = *Status::ALL
            .get(usize::from(header[6]))
            .ok_or(DecodeError::BadStatus { status: header[6] })?;
        let body_len = u32::from_le_bytes(bytes(header, 8));
        if body_len > body_max {
            return Err(DecodeError::TooLarge { len: body_len, max: body_max });
        }
        let flags = u16::from_le_bytes(bytes(header, 12));
        let feedback = match flags {
            0 => Feedback::None,
            WINDOW => Feedback::Window {
                size: u32::from_le_bytes(bytes(header, 24)),
                seq: u32::from_le_bytes(bytes(header, 28)),
            },
            LEVEL => Feedback::Level(u16::from_le_bytes(bytes(header, 14))),
            // Both at once too: an algorithm speaks of windows or of levels.
            _ => return Err(DecodeError::ReservedFlag { flags }),
        };
        let micros = |at| Duration::from_micros(u64::from(u32::from_le_bytes(bytes(header, at))));
        Ok(Self {
            op,
            status,
            stage: Stage(header[7]),
            body_len,
            feedback,
            id: u64::from_le_bytes(bytes(header, 16)),
            predicted_delay: micros(32),
            queue_delay: micros(36),
            retry_after: micros(40),
            service: micros(44),
            sent_at_ns: u64::from_le_bytes(bytes(header, 48)),
        })
    }

    /// Length of the whole frame, header included; saturates where `usize` has 32 bits.
    pub const fn frame_len(&self) -> usize {
        HEADER_LEN.saturating_add(self.body_len as usize)
    }
}
