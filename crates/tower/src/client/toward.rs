//! A client that is made to call one server.

use std::task::{Context, Poll};

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};
use thiserror::Error;
use tower_service::Service;

/// Sends all requests to one origin, whatever theirs is: for clients that connect to whom the
/// request names, such as hyper-util's, of which [`Replicas`](super::Replicas) need one for each
/// replica. Their clones may share a pool of connections.
#[derive(Clone, Debug)]
pub struct Toward<S> {
    inner: S,
    scheme: Scheme,
    authority: Authority,
}

/// What was given is no origin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no origin; allowed is a scheme and an authority, as http://127.0.0.1:8080")]
pub struct OriginError(String);

impl<S> Toward<S> {
    /// Sends to `origin`, such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    ///
    /// `origin` lacks a scheme or an authority, or has a path.
    pub fn new(inner: S, origin: &str) -> Result<Self, OriginError> {
        let wrong = || OriginError(origin.to_owned());
        let parts = origin.parse::<Uri>().map_err(|_| wrong())?.into_parts();
        if !matches!(parts.path_and_query.as_ref().map(PathAndQuery::as_str), None | Some("/")) {
            return Err(wrong());
        }
        let scheme = parts.scheme.ok_or_else(wrong)?;
        Ok(Self { inner, scheme, authority: parts.authority.ok_or_else(wrong)? })
    }
}

impl<S, B> Service<Request<B>> for Toward<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from_parts(parts).expect("all three parts are there");
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn sent(origin: &str, uri: &'static str) -> Result<String, OriginError> {
        let echo = tower::service_fn(|request: Request<()>| async move {
            Ok::<_, std::convert::Infallible>(request.uri().to_string())
        });
        let request = Request::builder().uri(uri).body(()).unwrap();
        Ok(Toward::new(echo, origin)?.call(request).now_or_never().unwrap().unwrap())
    }

    #[test]
    fn the_origin_is_replaced_and_the_path_stays() {
        let origin = "http://127.0.0.1:81";
        assert_eq!(sent(origin, "/a/b?c=d").unwrap(), "http://127.0.0.1:81/a/b?c=d");
        assert_eq!(sent(origin, "https://example.org/x").unwrap(), "http://127.0.0.1:81/x");
        assert_eq!(sent("https://h/", "http://g").unwrap(), "https://h/");
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for bad in ["", "127.0.0.1:80", "/x", "http://h/x", "http:///"] {
            assert!(sent(bad, "/").unwrap_err().to_string().contains(bad), "{bad}");
        }
    }
}
