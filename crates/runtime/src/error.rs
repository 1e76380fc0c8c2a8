//! What can go wrong, with the values that were wrong. One place maps each to its code.

use std::fmt;

/// A failure as the user sees it: CANN's code, and a sentence that names the wrong value and what to do.
/// Expected outcomes (a queue is empty, a pool is full) are enums elsewhere, not this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The number the C ABI returns.
    pub code: Code,
    /// The sentence `aclGetRecentErrMsg` gives.
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text)
    }
}

impl std::error::Error for Error {}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// The codes of CANN that the runtime gives.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code {
            $($(#[$doc])* $name = $value,)*
        }
    };
}

codes! {
    /// An argument is null, or outside what the function takes.
    InvalidParam = 100000,
    /// `aclInit` was called before.
    RepeatInitialize = 100002,
    /// The configuration file cannot be read.
    InvalidFile = 100003,
    /// The configuration file is not JSON.
    ParseFile = 100006,
    /// A key of the configuration file has a bad value.
    FileAttrInvalid = 100008,
    /// There is no operator of this name.
    OperatorNotFound = 100024,
    /// `aclFinalize` without `aclInit`.
    RepeatFinalize = 100037,
    /// A runtime argument has a bad value.
    RtParamInvalid = 107000,
    /// No such device.
    InvalidDeviceId = 107001,
    /// The thread has no current context.
    ContextNull = 107002,
    /// The stream belongs to another context.
    StreamContext = 107003,
    /// An event has no usable time.
    EventTimestampInvalid = 107006,
    /// The end event came before the start event.
    EventTimestampReversal = 107007,
    /// Not a live handle of the expected kind.
    InvalidHandle = 107017,
    /// A wait in a stream ran out of time.
    WaitTimeout = 107019,
    /// A system parameter was read before it was set.
    SysParamNotSet = 107021,
    /// The stream was aborted.
    StreamAbort = 107023,
    /// Cairn does not support this.
    FeatureNotSupport = 207000,
    /// Out of memory.
    MemoryAllocation = 207001,
    /// Memory that is freed was damaged.
    MemoryFree = 207002,
    /// This process may not do that.
    NotPermitted = 207006,
    /// Too many events.
    NoEventResource = 207007,
    /// Too many streams on the device.
    NoStreamResource = 207008,
    /// Too many notifies.
    NoNotifyResource = 207009,
    /// A host range is registered already.
    HostAlreadyRegistered = 507910,
    /// A host range is not registered.
    HostNotRegistered = 507911,
    /// An operator's argument is null.
    OperatorNull = 161001,
    /// An operator's argument has a value it does not take.
    OperatorInvalid = 161002,
    /// The runtime failed under a function of aclnn: a stream, a device, memory.
    OperatorRuntime = 361001,
    /// There is no kernel for an operator.
    OperatorKernel = 561003,
    /// `aclInit` was not called.
    Uninitialized = 145001,
    /// The path of a model cannot be read.
    ModelPath = 145002,
    /// No loaded model has this id.
    ModelId = 145003,
    /// A data set does not fit the model, or memory for it is too small.
    ModelInput = 145000,
    /// The bytes are no model.
    ModelParse = 145006,
    /// Sizes that do not fit a gear, or the gear's own input.
    ModelShape = 145012,
    /// No gear of the model has these sizes.
    ModelGear = 145013,
    /// An image to be prepared has no batch.
    AippBatch = 145014,
    /// The model prepares no images.
    AippAbsent = 145015,
    /// The model prepares images in another way.
    AippMode = 145016,
    /// Memory of the device for a model cannot be had.
    ModelMemory = 245000,
    /// The graph of a model cannot be loaded.
    ModelGraph = 545002,
    /// The constants of a model cannot be loaded.
    ModelWeight = 545003,
    /// The kernels of a model cannot be loaded: it was compiled for an NPU.
    ModelKernel = 545005,
    /// No bundle of models has this id.
    BundleId = 148053,
    /// The function cannot be called in this state, or for this object.
    ApiNotSupported = 200001,
    /// A value does not fit the caller's struct.
    StorageOverLimit = 300000,
    /// `max_opqueue_num` of the configuration file is no number.
    InvalidMaxOpqueue = 148048,
    /// An internal failure; the message says what.
    Internal = 500000,
    /// An execution failed, for example because a user's allocator gave no memory.
    GeFailure = 500002,
    /// The runtime cannot serve this process or object any more.
    RtInternal = 507000,
    /// An operator failed while it ran.
    OperatorException = 507015,
    /// What the driver of a device refuses.
    Driver = 507899,
    /// Waiting for a stream ran out of time.
    StreamSyncTimeout = 507046,
    /// Waiting for an event ran out of time.
    EventSyncTimeout = 507047,
    /// A peer failed, or is gone.
    SuspectRemote = 507057,
}

impl Error {
    /// The error for a panic inside Cairn.
    pub fn internal(panic: &(dyn std::any::Any + Send)) -> Error {
        let message = panic.downcast_ref::<&str>().copied();
        let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = format!("internal error (please report): {}", message.unwrap_or("no text"));
        Error::new(Code::Internal, text)
    }

    /// An error with this code and sentence.
    pub fn new(code: Code, text: impl Into<String>) -> Error {
        Error { code, text: text.into() }
    }

    /// A required pointer is null.
    pub fn null(parameter: &str) -> Error {
        Error::new(Code::InvalidParam, format!("the argument {parameter} is null"))
    }

    /// An argument that the function does not take (100000).
    pub fn invalid(text: impl Into<String>) -> Error {
        Error::new(Code::InvalidParam, text)
    }

    /// A value the runtime refuses (107000).
    pub fn refused(text: impl Into<String>) -> Error {
        Error::new(Code::RtParamInvalid, text)
    }

    /// The thread has no device yet.
    pub fn no_context() -> Error {
        Error::new(
            Code::ContextNull,
            "this thread has no current context: call aclrtSetDevice or aclrtSetCurrentContext first",
        )
    }

    /// A device id that does not exist.
    pub fn device(id: i64, count: usize) -> Error {
        let text = match count {
            0 => {
                format!("device {id} does not exist: ASCEND_RT_VISIBLE_DEVICES hides every device")
            }
            _ => format!("device {id} does not exist: valid ids are 0 to {}", count - 1),
        };
        Error::new(Code::InvalidDeviceId, text)
    }

    /// An environment variable with a value that cannot be used.
    pub fn setting(name: &str, value: &str, expected: String) -> Error {
        Error::new(
            Code::InvalidParam,
            format!("{name}={value} cannot be used: expected {expected}"),
        )
    }
}

/// The result of everything that can fail with a code.
pub type Result<T> = std::result::Result<T, Error>;
