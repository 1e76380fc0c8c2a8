//! The Python module `acl`: what pyACL offers, over the C functions of libascendcl.so.
//!
//! It holds no state of the runtime and computes nothing: a function reads its arguments (`arguments.rs`), calls its
//! C twin, and returns its results with the code last. `functions.txt` is the table of them. Callables of the user
//! are kept in `seats.rs` and called from `trampoline.cpp`.

mod allocator;
mod arguments;
mod endings;
mod interpreter;
mod library;
mod physical;
mod seats;
mod structs;
mod trampoline;
mod util;
mod wrappers;

/// A C function of a row written by hand, with its signature.
macro_rules! twin {
    ($name:ident: fn($($kind:ty),*) $(-> $result:ty)?) => {
        {
            // SAFETY: the library exports this name with this signature.
            #[allow(unused_unsafe, reason = "also called inside unsafe blocks")]
            let function = unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) $(-> $result)?>(
                    crate::library::twins().$name,
                )
            };
            function
        }
    };
}
use twin;

use pyo3::prelude::*;

#[pymodule]
fn acl(module: &Bound<'_, PyModule>) -> PyResult<()> {
    library::open()?;
    wrappers::add_acl(module)?;
    let modules = module.py().import("sys")?.getattr("modules")?;
    for (name, add) in [
        ("rt", wrappers::add_rt as fn(&Bound<'_, PyModule>) -> PyResult<()>),
        ("op", wrappers::add_op),
        ("util", wrappers::add_util),
    ] {
        let full = format!("acl.{name}");
        let inner = PyModule::new(module.py(), &full)?;
        add(&inner)?;
        module.add(name, &inner)?;
        modules.set_item(full, &inner)?;
    }
    Ok(())
}
