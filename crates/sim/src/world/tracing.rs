//! A line for each event, for those who want to see what happened, or that it happened again.

use std::io::Write;

use seawall_control::Instant;

use super::Event;

#[derive(Default)]
pub(super) struct Trace<'a>(Option<&'a mut dyn Write>);

impl<'a> Trace<'a> {
    pub(super) fn to(out: &'a mut dyn Write) -> Self {
        Self(Some(out))
    }

    pub(super) fn event(&mut self, at: Instant, event: &Event) {
        if let Some(out) = &mut self.0
            && writeln!(out, "{} {event:?}", at.as_nanos()).is_err()
        {
            // Nobody reads it any more.
            self.0 = None;
        }
    }
}
