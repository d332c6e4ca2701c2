//! What a server does about clients that break the rules, cannot keep up, or are gone.
//!
//! Each fault ends in a refusal or in a closed connection with a counted reason; a client that
//! keeps to the rules gets all its replies meanwhile; and the books balance afterwards.

mod bad_frames;
mod crowds;
mod floods;
mod guests;
mod handlers;
mod lifecycle;
mod sequences;
mod shutdown;
mod timeouts;
mod unread;
mod vanished;
mod windows;
