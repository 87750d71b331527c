//! Enqueues jobs.

use serde_json::Value;
use tokio_postgres::{Error, GenericClient};

/// The id of an enqueued job. If the unique key was taken, it is the id of the job that has it, and `is_new` is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    pub id: i64,
    pub is_new: bool,
}

/// Enqueues jobs in one statement, and returns one result per job, in the same order. In a transaction, the jobs are enqueued when the
/// transaction commits. Each spec is an object with the keys of jobq_enqueue_jobs, such as `queue`, `kind`, `payload`, and `run_at`;
/// use `serde_json::json!` or a struct that implements `Serialize`.
pub async fn enqueue(client: &(impl GenericClient + Sync), specs: &[Value]) -> Result<Vec<Enqueued>, Error> {
    let text = Value::from(specs).to_string();
    let rows = client.query("SELECT job_id, is_new FROM jobq_enqueue_jobs($1::text::jsonb)", &[&text]).await?;
    Ok(rows.iter().map(|row| Enqueued { id: row.get(0), is_new: row.get(1) }).collect())
}
