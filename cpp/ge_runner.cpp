// libge_runner.so: the C++ classes of ge:: and gert::, over the private C bridge of libascendcl.so.
//
// Built by `cargo xtask toolkit` with the old string ABI, without a SONAME, and never unloaded. It
// keeps no state but the creator registry; everything else is a handle into libascendcl.so. For now
// it defines nothing: it exists so that its names load.
