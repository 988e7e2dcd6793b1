//! The routes of a group. To axum all handlers are one type: its code around each type of a handler would be a third of the
//! compiler's work on this crate.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    handler::Handler,
    http::Method,
    response::Response,
    routing::{self, MethodRouter},
};
use futures_util::future::BoxFuture;

use super::{server::Shared, unknown::Unknown};

/// The routes of a group, by path.
pub struct Routes(Router<Shared>);

impl Routes {
    pub fn new() -> Self {
        Self(Router::new())
    }

    pub fn route(self, path: &str, methods: Methods) -> Self {
        Self(self.0.route(path, methods.0))
    }
}

impl From<Routes> for Router<Shared> {
    fn from(routes: Routes) -> Self {
        routes.0
    }
}

/// The handlers of one path, by method.
pub struct Methods(MethodRouter<Shared>);

macro_rules! methods {
    ($($name:ident)*) => {
        $(
            pub fn $name<H: Handler<T, Shared>, T: 'static>(handler: H) -> Methods {
                Methods(routing::$name(AnyHandler::new(handler)))
            }
        )*

        impl Methods {
            $(
                pub fn $name<H: Handler<T, Shared>, T: 'static>(self, handler: H) -> Self {
                    Self(self.0.$name(AnyHandler::new(handler)))
                }
            )*
        }
    };
}

methods!(get post put patch delete);

/// A handler of any type.
#[derive(Clone)]
struct AnyHandler(Arc<dyn Fn(Request, Shared) -> BoxFuture<'static, Response> + Send + Sync>);

impl AnyHandler {
    fn new<H: Handler<T, Shared>, T: 'static>(handler: H) -> Self {
        Self(Arc::new(move |mut request, server| {
            let handler = handler.clone();
            if matches!(*request.method(), Method::GET | Method::HEAD) {
                return Box::pin(handler.call(request, server)) as BoxFuture<'static, Response>;
            }
            let unknown = Unknown::default();
            request.extensions_mut().insert(unknown.clone());
            Box::pin(async move {
                let mut response = handler.call(request, server).await;
                unknown.tell(&mut response);
                response
            })
        }))
    }
}

impl Handler<(), Shared> for AnyHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, server: Shared) -> Self::Future {
        (self.0)(request, server)
    }
}
