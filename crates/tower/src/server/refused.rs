//! How a handler says that a stage has refused its request.

use std::fmt;

use http::{Response, StatusCode};
use seawall_control::request::Rejected;

/// A stage, such as a lock of `seawall-sync`, has refused the request before it had an effect.
///
/// As a response of the handler it tells the layer, which writes what clients are told: status,
/// `Retry-After` or its counterpart in gRPC, and the `seawall` field. With the feature `axum` it is
/// a response; with `tonic` it turns into a `tonic::Status`; for hyper there is
/// [`response`](Self::response).
///
/// ```
/// use seawall_control::request::Rejected;
/// use seawall_tower::{Context, server::Refused};
/// # use seawall_sync::Mutex;
///
/// async fn stock(ctx: &Context, goods: &Mutex<u32>) -> Result<String, Refused> {
///     Ok(format!("{} left", goods.lock(ctx).await?))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Rejected);

impl Refused {
    /// A response without a body that tells the layer.
    pub fn response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Rejected> for Refused {
    fn from(rejected: Rejected) -> Self {
        Self(rejected)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Refused {
    fn into_response(self) -> axum::response::Response {
        self.response()
    }
}

#[cfg(feature = "tonic")]
impl From<Refused> for tonic::Status {
    /// `UNAVAILABLE`, with the field in its metadata: the layer knows it by that, also in the
    /// trailers of a stream.
    fn from(refused: Refused) -> Self {
        let mut metadata = tonic::metadata::MetadataMap::new();
        let value = super::answer::field_of(&refused.0).to_string();
        let value = value.parse().expect("a structured field is printable");
        metadata.insert(seawall_control::fields::NAME, value);
        Self::with_metadata(tonic::Code::Unavailable, refused.to_string(), metadata)
    }
}
