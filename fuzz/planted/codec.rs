//! The codec with a bug: an extension block may be one byte longer than what is left of the body,
//! if the call is a retry.

use seawall_control::wire::{DecodeError, HEADER_LEN, Layout, Request};

pub(super) fn layout(request: &Request, frame: &[u8]) -> Result<Layout, DecodeError> {
    let (start, end) = (HEADER_LEN + 4, request.frame_len());
    match request.layout(frame) {
        Err(DecodeError::BadBlock) if request.claims.attempt > 0 && start <= end => {
            let len = [0, 1, 2, 3].map(|i| frame[HEADER_LEN + i]);
            if start + u32::from_le_bytes(len) as usize == end + 1 {
                return Ok(Layout { extension: start..end + 1, payload: end..end });
            }
            Err(DecodeError::BadBlock)
        }
        layout => layout,
    }
}
