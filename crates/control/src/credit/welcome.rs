//! How large a pool is at first.

/// One credit for each session at the start, so that all can show what load they bring.
///
/// Neither Protego's paper nor Svalinn's says how their pools begin. With fewer credits the last
/// session would wait for thousands of decisions. A session that takes the place of one that left
/// brings none, or a pool would grow with every client that reconnects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Welcome {
    /// The most sessions so far that shared the pool.
    sessions_max: u32,
}

impl Welcome {
    /// The newest of `sessions` takes part from now on: the pool that goes with it.
    pub(crate) fn on_session(&mut self, pool: u32, sessions: u32) -> u32 {
        let first = sessions == 1; // the pool of a server without sessions is as at the start
        let more = first || sessions > self.sessions_max;
        self.sessions_max = if first { 1 } else { self.sessions_max.max(sessions) };
        if more && pool < sessions { pool + 1 } else { pool }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_brings_a_credit_until_all_have_one() {
        let welcome = &mut Welcome::default();
        let all = |welcome: &mut Welcome| {
            (1..=30).fold(10, |pool, sessions| welcome.on_session(pool, sessions))
        };
        assert_eq!(all(welcome), 30);
        assert_eq!(welcome.on_session(20, 30), 20, "one left, and another came");
        assert_eq!(welcome.on_session(20, 31), 21);
        assert_eq!(all(welcome), 30, "all left, and came again");
    }
}
