//! Workers and producers for jobq, the job queue in PostgreSQL, on tokio-postgres. See README.md in this directory.
//!
//! A worker uses one connection to claim jobs and to wait for them, one connection for heartbeats, which has a thread of its own so that
//! handlers cannot block it, and one connection for reports.

mod claims;
mod connection;
mod enqueue;
mod error;
mod heartbeats;
mod job;
mod options;
mod pool;
mod reports;
mod sql;
mod worker;

pub use connection::{config_of_environment, no_tls, Connector};
pub use enqueue::{enqueue, Enqueued};
pub use error::Error;
pub use job::{Job, Reason};
pub use options::Options;
pub use worker::Worker;
