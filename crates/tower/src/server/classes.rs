//! Under which class a request is measured.

use std::fmt;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Uri};
use seawall_control::request::Class;

/// A request but for its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its target.
    pub uri: &'a Uri,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// What those in front of the layer know of it.
    pub extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    pub(super) fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

type By = dyn Fn(&Head<'_>) -> Class + Send + Sync;

/// A table of routes and the classes of their requests, or a function that knows.
///
/// ```
/// use seawall_control::request::Class;
/// use seawall_tower::server::Classes;
///
/// let classes = Classes::new()
///     .route("GET /orders/{id}", Class(1))
///     .route("/reports/*", Class(2))
///     .name(Class(1), "orders")
///     .name(Class(2), "reports");
/// ```
#[derive(Clone, Default)]
pub struct Classes {
    routes: Vec<(Route, Class)>,
    by: Option<Arc<By>>,
    names: [Option<String>; Class::COUNT],
}

impl Classes {
    /// All requests are of the default class.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests for `route` are of `class`: a path, in which `{…}` stands for one segment and `*`
    /// at the end for all that follow, after a method and a space if only that is meant. Of several
    /// routes that fit the first counts.
    #[must_use]
    pub fn route(mut self, route: &str, class: Class) -> Self {
        self.routes.push((Route::new(route), class));
        self
    }

    /// `by` tells the class of requests that no route fits.
    #[must_use]
    pub fn by(mut self, by: impl Fn(&Head<'_>) -> Class + Send + Sync + 'static) -> Self {
        self.by = Some(Arc::new(by));
        self
    }

    /// Calls a class `name` in metrics. Beyond [`Class::COUNT`] classes the last name counts for
    /// all that share its row.
    #[must_use]
    pub fn name(mut self, class: Class, name: impl Into<String>) -> Self {
        self.names[class.row()] = Some(name.into());
        self
    }

    /// The class of a request.
    pub(super) fn of(&self, head: &Head<'_>) -> Class {
        let fits = |(route, _): &&(Route, Class)| route.fits(head.method, head.uri.path());
        match (self.routes.iter().find(fits), &self.by) {
            (Some((_, class)), _) => *class,
            (None, Some(by)) => by(head),
            (None, None) => Class::default(),
        }
    }

    pub(super) fn names(&self) -> &[Option<String>; Class::COUNT] {
        &self.names
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classes").field("routes", &self.routes).finish_non_exhaustive()
    }
}

/// A method, if only one is meant, and the segments of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    method: Option<String>,
    segments: Vec<Segment>,
    /// Whatever follows is meant, too.
    is_open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Any,
    Fixed(String),
}

impl Route {
    fn new(route: &str) -> Self {
        let (method, path) = match route.split_once(' ') {
            Some((method, path)) => (Some(method.to_owned()), path),
            None => (None, route),
        };
        let (path, is_open) = match path.strip_suffix("/*") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let segment = |text: &str| match text {
            _ if text.starts_with('{') && text.ends_with('}') => Segment::Any,
            _ => Segment::Fixed(text.to_owned()),
        };
        Self { method, segments: path.split('/').map(segment).collect(), is_open }
    }

    fn fits(&self, method: &Method, path: &str) -> bool {
        let mut found = path.split('/');
        self.method.as_ref().is_none_or(|wanted| method == wanted.as_str())
            && self.segments.iter().all(|wanted| {
                found.next().is_some_and(|found| match wanted {
                    Segment::Any => !found.is_empty(),
                    Segment::Fixed(wanted) => found == wanted,
                })
            })
            && (self.is_open || found.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(classes: &Classes, method: &str, uri: &str) -> u8 {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        classes.of(&Head::of(&request)).0
    }

    #[test]
    fn the_first_route_that_fits_counts() {
        let classes = Classes::new()
            .route("GET /orders/{id}", Class(1))
            .route("/orders/*", Class(2))
            .route("/", Class(3))
            .by(|head| Class(if head.headers.is_empty() { 4 } else { 5 }));
        for (method, uri, expected) in [
            ("GET", "/orders/42", 1),
            ("GET", "http://shop/orders/42?x=/y", 1),
            ("POST", "/orders/42", 2),
            ("GET", "/orders/42/lines/7", 2),
            ("GET", "/orders", 2),
            ("GET", "/orders/", 2),
            ("GET", "/", 3),
            ("GET", "/other", 4),
        ] {
            assert_eq!(class(&classes, method, uri), expected, "{method} {uri}");
        }
        assert_eq!(class(&Classes::new(), "GET", "/"), 0);
    }
}
