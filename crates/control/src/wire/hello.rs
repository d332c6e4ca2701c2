//! What client and server tell each other before the first call.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::fields::{MAX_TEXT, cut, text};
use super::{DecodeError, Entries, push_entry};
use crate::request::Stage;
use crate::time::micros_u32;

/// Body of the hello frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// What the client calls itself, for logs; not believed for anything.
    pub name: String,
    /// Proof of identity, if the listener asks for tokens.
    pub token: Option<Vec<u8>>,
    /// Another server refused the calls of this session and hands them on (spill-over, Svalinn
    /// §3.3): whoever refuses them now hands them to nobody.
    pub spills: bool,
}

impl Hello {
    const NAME: u16 = 1;
    const TOKEN: u16 = 2;
    const SPILLS: u16 = 3;

    /// Longest name and token, in bytes.
    pub const MAX_LEN: usize = MAX_TEXT;

    /// The body as it goes on the wire; name and token are cut to [`MAX_LEN`](Self::MAX_LEN).
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::new();
        push_entry(&mut block, Self::NAME, cut(&self.name).as_bytes());
        if let Some(token) = &self.token {
            push_entry(&mut block, Self::TOKEN, &token[..token.len().min(Self::MAX_LEN)]);
        }
        if self.spills {
            push_entry(&mut block, Self::SPILLS, &[]);
        }
        block
    }

    /// Reads a body. A name that is not UTF-8 is repaired, one that is too long is cut, entries
    /// that are not known are skipped.
    ///
    /// # Errors
    ///
    /// [`DecodeError::BadBlock`] for entries that reach beyond the body, and for a token that is
    /// longer than [`MAX_LEN`](Self::MAX_LEN): a part of it would prove nothing.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut hello = Self::default();
        for entry in Entries::new(body) {
            match entry? {
                (Self::NAME, name) => hello.name = text(name),
                (Self::TOKEN, token) if token.len() > Self::MAX_LEN => {
                    return Err(DecodeError::BadBlock);
                }
                (Self::TOKEN, token) => hello.token = Some(token.to_vec()),
                (Self::SPILLS, _) => hello.spills = true,
                _ => {}
            }
        }
        Ok(hello)
    }
}

/// Body of the settings frame: what the client must know to keep to the server's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the algorithm whose client half is to be used.
    pub algorithm: String,
    /// Largest body that the server reads, in bytes.
    pub body_max: u32,
    /// Most calls that one session may have outstanding, whatever its window.
    pub outstanding_max: u32,
    /// The latency that counts as good, from which clients derive how long requests may wait.
    pub slo: Duration,
    /// Names of the server's own stages, by number.
    pub stages: Vec<(Stage, String)>,
}

impl Settings {
    const ALGORITHM: u16 = 1;
    const BODY_MAX: u16 = 2;
    const OUTSTANDING_MAX: u16 = 3;
    const SLO_US: u16 = 4;
    const STAGE: u16 = 5;

    /// The body as it goes on the wire; names are cut to 4096 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::new();
        push_entry(&mut block, Self::ALGORITHM, cut(&self.algorithm).as_bytes());
        push_entry(&mut block, Self::BODY_MAX, &self.body_max.to_le_bytes());
        push_entry(&mut block, Self::OUTSTANDING_MAX, &self.outstanding_max.to_le_bytes());
        push_entry(&mut block, Self::SLO_US, &micros_u32(self.slo).to_le_bytes());
        for (stage, name) in &self.stages {
            let mut value = Vec::from([stage.0]);
            value.extend_from_slice(cut(name).as_bytes());
            push_entry(&mut block, Self::STAGE, &value);
        }
        block
    }

    /// Reads a body. Text that is not UTF-8 is repaired, text that is too long is cut, entries that
    /// are not known are skipped.
    ///
    /// # Errors
    ///
    /// [`DecodeError::BadBlock`] for entries that reach beyond the body or have a wrong length.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let number = |value: &[u8]| {
            value.try_into().map(u32::from_le_bytes).map_err(|_| DecodeError::BadBlock)
        };
        let mut settings = Self::default();
        for entry in Entries::new(body) {
            match entry? {
                (Self::ALGORITHM, name) => settings.algorithm = text(name),
                (Self::BODY_MAX, value) => settings.body_max = number(value)?,
                (Self::OUTSTANDING_MAX, value) => settings.outstanding_max = number(value)?,
                (Self::SLO_US, value) => {
                    settings.slo = Duration::from_micros(u64::from(number(value)?));
                }
                (Self::STAGE, value) => {
                    let (stage, name) = value.split_first().ok_or(DecodeError::BadBlock)?;
                    settings.stages.push((Stage(*stage), text(name)));
                }
                _ => {}
            }
        }
        Ok(settings)
    }
}
