//! How a handler ends without a result.

use std::any::{type_name, Any};
use std::error::Error as StdError;
use std::fmt::Display;
use std::time::Duration;
use tokio_postgres::error::SqlState;

/// Why a handler has ended without a result. Each error of another type becomes a failure that is retried after the backoff of the
/// job, so handlers can use `?`.
#[derive(Debug)]
pub enum Error {
    /// The attempt has failed.
    Failed(Failure),
    /// The job is returned to its queue, to run again after the delay. The attempt is not counted.
    Snooze(Duration),
    /// The job is returned to its queue, to run again at once. The attempt is not counted.
    Release,
    /// The handler has stopped because the job was canceled or the worker stops ([`crate::Job::check`]).
    Cancelled,
    /// The job belongs to another worker.
    Lost,
    /// The job sleeps or waits, and has been returned to its queue. The handler must return this error.
    Waiting,
}

/// A failed attempt.
#[derive(Debug)]
pub struct Failure {
    pub(crate) class: String,
    pub(crate) message: String,
    pub(crate) stack: String,
    pub(crate) retry_in: Option<Duration>,
    pub(crate) retry: bool,
    /// The transaction of the handler collided with another one.
    pub(crate) collided: Option<String>,
}

impl Error {
    /// A failure that is retried after the backoff of the job.
    pub fn fail(message: impl Display) -> Self {
        Error::Failed(Failure {
            class: String::new(),
            message: message.to_string(),
            stack: String::new(),
            retry_in: None,
            retry: true,
            collided: None,
        })
    }

    /// A failure that is retried after the delay.
    pub fn retry_in(message: impl Display, delay: Duration) -> Self {
        match Self::fail(message) {
            Error::Failed(failure) => Error::Failed(Failure { retry_in: Some(delay), ..failure }),
            other => other,
        }
    }

    /// A failure that is not retried.
    pub fn reject(message: impl Display) -> Self {
        match Self::fail(message) {
            Error::Failed(failure) => Error::Failed(Failure { retry: false, ..failure }),
            other => other,
        }
    }

    pub(crate) fn panicked(value: Box<dyn Any + Send>) -> Self {
        let text = value.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| value.downcast_ref::<String>().cloned()).unwrap_or_default();
        Self::fail(format!("panic: {}", text))
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let class = type_name::<E>().to_string();
        let mut stack = format!("{}: {}", class, error);
        let mut source = error.source();
        while let Some(inner) = source {
            stack += &format!("\ncaused by: {}", inner);
            source = inner.source();
        }
        let of_database = (&error as &dyn Any).downcast_ref::<tokio_postgres::Error>();
        let message = of_database.map_or_else(|| error.to_string(), describe);
        let collided = of_database.and_then(|error| error.code()).filter(|code| is_collision(code)).map(|code| code.code().to_string());
        Error::Failed(Failure { message: format!("{}: {}", class, message), class, stack, retry_in: None, retry: true, collided })
    }
}

pub(crate) fn is_collision(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
}

/// Returns the server's message with its hint, or the driver's message.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(refused) => match refused.hint() {
            Some(hint) => format!("{} HINT: {}", refused.message(), hint),
            None => refused.message().to_string(),
        },
        None => error.to_string(),
    }
}
