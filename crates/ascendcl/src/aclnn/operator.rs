//! One operator's two functions: what they share, and the macro that makes them.

use super::argument::CallArguments;
use super::executor::{self, Executor};
use super::{exports, nn_not_null, with_aclnn_code};
use crate::abi::{aclOpExecutor, aclrtStream};
use crate::code::aclnnStatus;
use crate::door::{self, EntryPoint, runtime, write};
use cairn_exec::{CallKind, Execution, SizesCallback, refusal};
use cairn_ops::{Row, rows};
use cairn_runtime::error::{Error, Result};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// An operator of the table at this door.
pub struct Operator {
    /// The function's name: `aclnnAdd`.
    pub name: &'static str,
    /// The name of the function of its first phase.
    first_name: &'static str,
    row_name: &'static str,
    parameters: &'static [&'static str],
    row: OnceLock<&'static Row>,
    first_counts: [AtomicU64; 2],
    counts: [AtomicU64; 2],
}

/// Every operator that this library exports.
pub fn every_operator() -> impl Iterator<Item = &'static Operator> {
    exports::OPERATORS.iter().copied()
}

impl Operator {
    /// An operator by the name of its row; the names of its functions and parameters are for messages.
    pub const fn new(
        row_name: &'static str,
        name: &'static str,
        first_name: &'static str,
        parameters: &'static [&'static str],
    ) -> Operator {
        Operator {
            name,
            first_name,
            row_name,
            parameters,
            row: OnceLock::new(),
            first_counts: [const { AtomicU64::new(0) }; 2],
            counts: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// How often it was submitted, and how often one of its functions failed.
    pub fn figures(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
        (load(&self.counts[0]), load(&self.first_counts[1]) + load(&self.counts[1]))
    }

    fn row(&self) -> Result<&'static Row> {
        if let Some(row) = self.row.get() {
            return Ok(row);
        }
        let row = rows().get(self.row_name).copied().ok_or_else(|| {
            Error::invalid(format!("the table has no operator {}", self.row_name))
        })?;
        Ok(self.row.get_or_init(|| row))
    }

    fn plan(&'static self, arguments: CallArguments) -> Result<Executor> {
        let CallArguments { args, origins, outputs, deferred } = arguments;
        let plan = self.row()?.plan(self.parameters, args);
        let plan = plan.map_err(|error| refusal(CallKind::Aclnn, self.name, &error))?;
        let on_sizes: Option<SizesCallback> = (!outputs.is_empty()).then(|| -> SizesCallback {
            Box::new(move |argument, dims| {
                for (_, tensor) in outputs.iter().filter(|(index, _)| *index == argument) {
                    tensor.resize(dims);
                }
            })
        });
        Ok(Executor::new(self, Execution::new(self.name, plan, on_sizes), origins, deferred))
    }

    /// The first phase: plans the call that `gather` brings. Size and executor are 0 and null after a
    /// failure.
    ///
    /// # Safety
    /// `size` and `executor` are null or point to writable memory.
    pub unsafe fn first_phase(
        &'static self,
        size: *mut u64,
        executor: *mut *mut aclOpExecutor,
        gather: &mut dyn FnMut(&mut CallArguments) -> Result<()>,
    ) -> aclnnStatus {
        let entry_point = EntryPoint { name: self.first_name, counts: &self.first_counts };
        let mut body = || -> Result<()> {
            nn_not_null(size, "workspaceSize")?;
            nn_not_null(executor, "executor")?;
            // SAFETY: not null, and the caller vouches for the rest.
            unsafe {
                write(size, "workspaceSize", 0)?;
                write(executor, "executor", null_mut())?;
            }
            let mut arguments = CallArguments::with_capacity(self.parameters.len());
            gather(&mut arguments)?;
            let planned = self.plan(arguments)?;
            let bytes = planned.execution.workspace() as u64;
            let handle = executor::give(planned)?;
            // SAFETY: as before.
            unsafe {
                write(size, "workspaceSize", bytes)?;
                write(executor, "executor", handle)
            }
        };
        door::status(entry_point, || body().map_err(with_aclnn_code))
    }

    /// The second phase: submits what the first planned, and ends an executor that is not repeatable.
    pub fn second_phase(
        &'static self,
        workspace: *mut c_void,
        size: u64,
        executor: *mut aclOpExecutor,
        stream: aclrtStream,
    ) -> aclnnStatus {
        let entry_point = EntryPoint { name: self.name, counts: &self.counts };
        door::status(entry_point, || {
            let body = || -> Result<()> {
                let planned = executor::take(executor, self)?;
                let stream = runtime()?.stream(stream as usize)?;
                planned.submit(&stream, workspace as usize, size)
            };
            body().map_err(with_aclnn_code)
        })
    }
}

/// Defines the two functions of each operator: after the prefix of the functions' names the row's name, then every
/// parameter with a name for the function, its own name, and its C type.
macro_rules! operators {
    ($($prefix:literal: $($row:ident($($arg:ident $text:literal: $type:ty),* $(,)?);)*)*) => {
        $($(
            #[allow(non_upper_case_globals)]
            static $row: Operator = Operator::new(
                stringify!($row),
                concat!($prefix, stringify!($row)),
                concat!($prefix, stringify!($row), "GetWorkspaceSize"),
                &[$($text),*],
            );

            const _: () = {
                #[unsafe(export_name = concat!($prefix, stringify!($row), "GetWorkspaceSize"))]
                unsafe extern "C" fn first(
                    $($arg: $type,)*
                    size: *mut u64,
                    executor: *mut *mut aclOpExecutor,
                ) -> aclnnStatus {
                    // SAFETY: the user passes pointers to the results, and texts that end with NUL.
                    unsafe {
                        $row.first_phase(size, executor, &mut |arguments| {
                            $(arguments.add($arg, $text)?;)*
                            Ok(())
                        })
                    }
                }

                #[unsafe(export_name = concat!($prefix, stringify!($row)))]
                unsafe extern "C" fn second(
                    workspace: *mut c_void,
                    size: u64,
                    executor: *mut aclOpExecutor,
                    stream: aclrtStream,
                ) -> aclnnStatus {
                    $row.second_phase(workspace, size, executor, stream)
                }
            };
        )*)*

        /// Every operator, by name.
        pub static OPERATORS: &[&Operator] = &[$($(&$row),*),*];
    };
}
pub(super) use operators;
