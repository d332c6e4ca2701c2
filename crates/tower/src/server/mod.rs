//! The server side: who is let in, and what is told to those who are not.
