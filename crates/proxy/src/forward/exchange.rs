//! A request at a replica, until its response has ended, one way or another.

use std::sync::Arc;

use hyper::HeaderMap;
use seawall_control::gate::End;
use seawall_tower::clock;

use super::body::Upload;
use super::deadline::Deadline;
use crate::admit::Permit;
use crate::upstream::{Attempt, Sender, Upstream};

/// A request that was given to a replica. Dropping it tells that nobody wants the rest.
#[derive(Debug)]
pub(super) struct Exchange {
    upstream: Arc<Upstream>,
    replica: usize,
    worker: usize,
    deadline: Deadline,
    sender: Option<Sender>,
    upload: Option<Arc<Upload>>,
    has_ended: bool,
    /// The place that the request has, while this is about the response that is passed on.
    permit: Option<Permit>,
    /// How it will have ended, if nothing goes wrong.
    end: End,
}

impl Exchange {
    /// A request is about to be sent to a replica.
    pub(super) fn begin(
        upstream: &Arc<Upstream>,
        replica: usize,
        worker: usize,
        deadline: Deadline,
    ) -> Self {
        upstream.on_submit(replica);
        Self {
            upstream: upstream.clone(),
            replica,
            worker,
            deadline,
            sender: None,
            upload: None,
            has_ended: false,
            permit: None,
            end: End::Served,
        }
    }

    /// It is on its way by `sender`; `upload` tells how far its body is.
    pub(super) fn sent(&mut self, sender: Sender, upload: Option<Arc<Upload>>) {
        self.sender = Some(sender);
        self.upload = upload;
    }

    /// The response is passed on: the request's place is free when it has ended.
    pub(super) fn keep(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// Says in headers, or in trailers, what the client is to be told of its credits.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        if let Some(permit) = &self.permit {
            permit.tell(headers);
        }
    }

    /// The response says that it is no result, or that of a failure.
    pub(super) fn will_end(&mut self, end: End) {
        self.end = end;
    }

    /// The response has come to its end.
    pub(super) fn finish(&mut self) {
        let is_sent = self.upload.as_ref().is_none_or(|upload| upload.ended().is_some());
        // A connection on which a request is still on its way is of no use to another one.
        if let Some(sender) = self.sender.take().filter(|_| is_sent) {
            self.upstream.replicas()[self.replica].pool(self.worker).give_back(sender);
        }
        self.free(self.end);
        self.end();
    }

    /// The connection speaks another protocol now, and is nobody's any more.
    pub(super) fn switch(mut self) {
        self.free(End::Served);
        self.end();
    }

    /// The replica was lost before the response had ended, or has let go of it at its deadline.
    pub(super) fn break_off(&mut self) {
        let now = clock::now();
        if self.deadline.is_over(now) {
            self.free(End::Cancelled);
        } else {
            self.upstream.on_lost(now, self.replica, Attempt::Lost);
            self.free(End::Failed);
        }
        self.end();
    }

    fn free(&mut self, end: End) {
        if let Some(mut permit) = self.permit.take() {
            permit.end(end);
        }
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
