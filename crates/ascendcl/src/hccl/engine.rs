//! Where the engine of communicators is: a library beside this one, opened when ranks are connected for the first time.

use cairn_comm::Error;
use cairn_comm::engine::gloo::Gloo;
use cairn_comm::engine::{Engine, OpenEngine};
use std::sync::Arc;

/// Opens the engine; without its library, communicators of several ranks are not supported.
pub fn opener() -> OpenEngine {
    Box::new(|| match Gloo::open_beside() {
        Ok(engine) => Ok(Arc::new(engine) as Arc<dyn Engine>),
        Err(error) => Err(Error::unsupported(error.text)),
    })
}
