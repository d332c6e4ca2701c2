//! Lists of sessions from which a random one is picked in constant time.

use alloc::vec::Vec;

/// The lists that a session can be on, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// No credits, nothing in the server, and the client is known to hold requests back.
    Hungry = 0,
    /// No credits, nothing in the server, and no known demand.
    Quiet = 1,
    /// Unused credits, and nothing in the server.
    Idle = 2,
}

/// Where a session stands: on which list, and where in it.
pub(super) type Place = Option<(List, u32)>;

/// All lists. Each session keeps its own [`Place`], so that leaving a list needs no search.
#[derive(Debug, Default)]
pub(super) struct Rosters {
    lists: [Vec<u32>; 3],
}

impl Rosters {
    /// Puts the session in `slot` at the end of `list`, and gives its place.
    pub(super) fn enter(&mut self, list: List, slot: u32) -> Place {
        let members = &mut self.lists[list as usize];
        members.push(slot);
        Some((list, members.len() as u32 - 1))
    }

    /// Takes a place out of its list. The last member moves there: its slot and new place, if it is
    /// not the one that left, must be told to it.
    #[must_use]
    pub(super) fn leave(&mut self, place: (List, u32)) -> Option<(u32, Place)> {
        let (list, index) = place;
        let members = &mut self.lists[list as usize];
        members.swap_remove(index as usize);
        members.get(index as usize).map(|moved| (*moved, Some(place)))
    }

    /// The sessions on `list`, in no order that means anything.
    pub(super) fn members(&self, list: List) -> &[u32] {
        &self.lists[list as usize]
    }
}
