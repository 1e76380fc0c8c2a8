//! The Python module `acl`: what pyACL offers, over the C functions of libascendcl.so.
//!
//! A function reads its arguments (`arguments.rs`), calls its C function without the interpreter's lock, and returns its
//! results with the code last. `functions.txt` is the table of them. The module keeps nothing of its own but the threads
//! of `acl.util` (`util.rs`): callables of allocators belong to the descriptors and registrations of C (`allocator.rs`),
//! which calls them through `trampoline.cpp`.

mod aipp;
mod allocator;
mod arguments;
mod interpreter;
mod library;
mod model_options;
mod models;
mod physical;
mod structs;
mod util;
mod wrappers;

/// A C function of a row written by hand, with its signature.
macro_rules! c_function {
    ($name:ident: fn($($kind:ty),*) $(-> $result:ty)?) => {
        {
            // SAFETY: the library exports this name with this signature.
            #[allow(unused_unsafe, reason = "also called inside unsafe blocks")]
            let function = unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) $(-> $result)?>(
                    crate::library::c_functions().$name,
                )
            };
            function
        }
    };
}
use c_function;

use pyo3::prelude::*;

#[pymodule]
fn acl(module: &Bound<'_, PyModule>) -> PyResult<()> {
    library::open()?;
    // Looked up before there are threads: a fork while one looks it up would leave a child that waits for it.
    interpreter::is_running();
    wrappers::add_acl(module)?;
    let modules = module.py().import("sys")?.getattr("modules")?;
    for (name, add) in [
        ("rt", wrappers::add_rt as fn(&Bound<'_, PyModule>) -> PyResult<()>),
        ("op", wrappers::add_op),
        ("mdl", wrappers::add_mdl),
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
