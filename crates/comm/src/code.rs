//! The result codes of HCCL.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// What went wrong, with the number that `HcclResult` gives it. Success is no code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum Code {
            $($(#[$doc])* $name = $value,)*
        }

        impl Code {
            /// Every code, by rising number.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The code with this number.
            pub fn from_number(number: i32) -> Option<Code> {
                match number {
                    $($value => Some(Code::$name),)*
                    _ => None,
                }
            }

            /// What it means, in a few words.
            pub fn text(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// An argument has a value that the function does not take.
    Parameter = 1, "parameter error";
    /// A required pointer is null.
    Null = 2, "empty pointer";
    /// Memory is wrong or cannot be used.
    Memory = 3, "memory error";
    /// Something inside failed.
    Internal = 4, "internal error";
    /// This is not supported.
    NotSupported = 5, "not support feature";
    /// There is no such thing.
    NotFound = 6, "not found specific resource";
    /// It cannot be used now.
    Unavailable = 7, "resource unavailable";
    /// A system call failed.
    SystemCall = 8, "call system interface error";
    /// Time ran out.
    Timeout = 9, "timeout";
    /// A file cannot be opened.
    OpenFile = 10, "open file fail";
    /// No TCP connection.
    TcpConnect = 11, "tcp connect fail";
    /// No RoCE connection.
    RoceConnect = 12, "roce connect fail";
    /// A transfer failed.
    TcpTransfer = 13, "tcp transfer fail";
    /// A RoCE transfer failed.
    RoceTransfer = 14, "roce transfer fail";
    /// The runtime failed: a stream, a device.
    Runtime = 15, "call runtime api fail";
    /// The driver failed.
    Driver = 16, "call driver api fail";
    /// The profiler failed.
    Profiling = 17, "call profiling api fail";
    /// CCE failed.
    Cce = 18, "call cce api fail";
    /// The network failed.
    Network = 19, "call network api fail";
    /// Busy: try again.
    Again = 20, "operation repeat";
    /// A peer failed or is gone.
    Remote = 21, "error cqe";
    /// The communicator is suspended.
    Suspending = 22, "communicator is suspending";
    /// A retry failed.
    RetryFailed = 23, "retry constraint not satisfied";
    /// No memory is left.
    OutOfMemory = 24, "out of memory";
    /// An operator asks for the status to be looked at.
    InStatus = 1041, "error in status";
}

/// What a number of `HcclResult` means, as `HcclGetErrorString` tells it.
pub fn error_string(number: i32) -> &'static str {
    match number {
        0 => "no error",
        _ => Code::from_number(number).map_or("unknown error", Code::text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_up_to_24_has_a_text_of_its_own() {
        let mut texts: Vec<_> = (0..=24).map(error_string).collect();
        assert!(texts.iter().all(|text| *text != "unknown error"));
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 25);
        assert_eq!(error_string(25), "unknown error");
        assert_eq!(error_string(-1), "unknown error");
    }
}
