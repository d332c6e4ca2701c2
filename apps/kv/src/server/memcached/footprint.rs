//! What a command touches, and so which commands of a connection may not overtake each other.
//!
//! memcached carries out one command of a connection after the other. Workers here take several at
//! once, which nobody can tell as long as those that touch the same key, one of them to change it,
//! keep their order. Commands on different keys may take effect in any order.

use bytes::Bytes;

use crate::protocol::{Command, Keys};

/// Keys of one lookup that are compared one by one. A longer one counts as touching everything, so
/// that a line of keys cannot keep a reading thread busy.
const COMPARED_MAX: usize = 32;

/// The items that a command reads or changes.
#[derive(Debug)]
pub(super) struct Footprint {
    items: Items,
    changes: bool,
}

#[derive(Debug)]
enum Items {
    None,
    One(Bytes),
    /// At most [`COMPARED_MAX`].
    Many(Keys),
    All,
}

impl Footprint {
    pub(super) fn of(command: &Command) -> Self {
        let read = |items| Self { items, changes: false };
        let change = |items| Self { items, changes: true };
        match command {
            Command::Get { keys, .. } => read(Items::of(keys)),
            Command::Gat { keys, .. } => change(Items::of(keys)),
            Command::Store { key, .. }
            | Command::StoreTooLarge { key, .. }
            | Command::Delete { key, .. }
            | Command::Arithmetic { key, .. }
            | Command::Touch { key, .. } => change(Items::One(key.clone())),
            Command::Stats { .. } => read(Items::All),
            Command::FlushAll { .. } => change(Items::All),
            Command::Version | Command::Verbosity { .. } | Command::Quit => read(Items::None),
        }
    }

    /// True when the two commands must take effect in their order.
    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
        (self.changes || other.changes) && self.items.meet(&other.items)
    }
}

impl Items {
    fn of(keys: &Keys) -> Self {
        let more_than = |count| keys.iter().nth(count).is_some();
        if more_than(COMPARED_MAX) { Self::All } else { Self::Many(keys.clone()) }
    }

    fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => false,
            // Two lookups, one of which touches: rare, and not worth a comparison of all pairs.
            (Self::All, _) | (_, Self::All) | (Self::Many(_), Self::Many(_)) => true,
            (Self::One(one), Self::One(other)) => one == other,
            (Self::One(one), Self::Many(many)) | (Self::Many(many), Self::One(one)) => {
                many.iter().any(|key| key == one)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::protocol::Parser;

    fn footprint(line: &str) -> Footprint {
        let mut input = BytesMut::from(format!("{line}\r\n").as_str());
        Footprint::of(&Parser::new(100).next(&mut input).unwrap().unwrap())
    }

    fn conflict(one: &str, other: &str) -> bool {
        let (one, other) = (footprint(one), footprint(other));
        assert_eq!(one.conflicts_with(&other), other.conflicts_with(&one));
        one.conflicts_with(&other)
    }

    #[test]
    fn only_changes_of_the_same_item_conflict() {
        assert!(conflict("set a 0 0 1\r\nx", "get a"));
        assert!(conflict("set a 0 0 1\r\nx", "delete a"));
        assert!(conflict("set a 0 0 101", "get a")); // too large, which deletes
        assert!(conflict("incr a 1", "get b a c"));
        assert!(conflict("touch a 5", "gat 5 a"));
        assert!(!conflict("set a 0 0 1\r\nx", "get b"));
        assert!(!conflict("incr a 1", "get b c"));
        assert!(!conflict("get a", "get a b"));
    }

    #[test]
    fn some_commands_touch_everything_or_nothing() {
        assert!(conflict("flush_all", "get a"));
        assert!(conflict("flush_all", "set a 0 0 1\r\nx"));
        assert!(conflict("stats", "set a 0 0 1\r\nx"));
        assert!(!conflict("stats", "get a"));
        assert!(!conflict("version", "flush_all"));
        assert!(!conflict("verbosity 1", "set a 0 0 1\r\nx"));
    }

    #[test]
    fn long_lookups_are_not_compared() {
        let keys = |count| "k ".repeat(count);
        let get = |count| format!("get {}", keys(count));
        assert!(!conflict(&get(COMPARED_MAX), "delete a"));
        assert!(conflict(&get(COMPARED_MAX + 1), "delete a"));
        assert!(!conflict(&get(COMPARED_MAX + 1), "get a"));
        assert!(conflict(&format!("gat 5 {}", keys(2)), "get a b"));
    }
}
