//! A request at a replica, until its response has ended, one way or another.

use std::sync::Arc;

use super::body::Upload;
use crate::clock;
use crate::upstream::{Sender, Upstream};

/// A request that was given to a replica. Dropping it tells that nobody wants the rest.
#[derive(Debug)]
pub(super) struct Exchange {
    upstream: Arc<Upstream>,
    replica: usize,
    worker: usize,
    sender: Option<Sender>,
    upload: Option<Arc<Upload>>,
    has_ended: bool,
}

impl Exchange {
    /// A request is about to be sent to a replica.
    pub(super) fn begin(upstream: &Arc<Upstream>, replica: usize, worker: usize) -> Self {
        upstream.on_submit(replica);
        Self {
            upstream: upstream.clone(),
            replica,
            worker,
            sender: None,
            upload: None,
            has_ended: false,
        }
    }

    /// It is on its way by `sender`; `upload` tells how far its body is.
    pub(super) fn sent(&mut self, sender: Sender, upload: Option<Arc<Upload>>) {
        self.sender = Some(sender);
        self.upload = upload;
    }

    /// The response has come to its end.
    pub(super) fn finish(&mut self) {
        let is_sent = self.upload.as_ref().is_none_or(|upload| upload.ended().is_some());
        // A connection on which a request is still on its way is of no use to another one.
        if let Some(sender) = self.sender.take().filter(|_| is_sent) {
            self.upstream.replicas()[self.replica].pool(self.worker).give_back(sender);
        }
        self.end();
    }

    /// The connection speaks another protocol now, and is nobody's any more.
    pub(super) fn switch(mut self) {
        self.end();
    }

    /// The replica was lost before the response had ended.
    pub(super) fn break_off(&mut self) {
        self.upstream.on_lost(clock::now(), self.replica);
        self.end();
    }

    fn end(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            self.upstream.on_end(self.replica);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end();
    }
}
