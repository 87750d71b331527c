//! The job that a handler receives.

use crate::error::Error;
use crate::sql::sql;
use crate::worker::Shared;
use serde::Serialize;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio_postgres::{Client, SimpleQueryRow, Transaction};

/// Why a handler should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The job was canceled.
    Cancel,
    /// The job belongs to another worker.
    Lost,
    /// The worker stops, and the grace period is over.
    Stopping,
}

/// The job that a handler receives. The fields are the columns that the claim returned. Clones share the progress and the log.
#[derive(Clone)]
pub struct Job {
    pub id: i64,
    pub lease: i64,
    pub queue: String,
    pub kind: String,
    /// The JSON text of the payload.
    pub payload: String,
    pub attempt: i32,
    pub max_attempts: i32,
    pub priority: i32,
    pub version: i32,
    pub run_at: SystemTime,
    pub created_at: SystemTime,
    /// The JSON text of the last progress of an earlier attempt.
    pub progress: Option<String>,
    /// The JSON text of the metadata.
    pub metadata: Option<String>,
    pub(crate) heartbeat_seconds: f64,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) reason: Arc<watch::Sender<Option<Reason>>>,
    pub(crate) shared: Arc<Shared>,
}

/// A line for the log of the job.
pub(crate) struct Line {
    pub(crate) level: &'static str,
    pub(crate) text: String,
    pub(crate) at: Instant,
}

pub(crate) struct State {
    pub(crate) progress: Option<String>, // not sent yet
    pub(crate) lines: Vec<Line>,         // not sent yet
    pub(crate) beat_at: Instant,
    pub(crate) reporting: bool,
    /// An open transaction may have locked the row of the job, so a heartbeat would wait for its end.
    pub(crate) committing: bool,
    pub(crate) done: bool, // by completing()
}

/// The maximum number of lines of a job that are kept until they are sent.
const MOST_LINES: usize = 500;

pub(crate) const CLAIMED_COLUMNS: &str = "id, lease, queue, kind, payload, attempt, max_attempts, priority, version, \
    extract(epoch FROM run_at), extract(epoch FROM created_at), progress, metadata, heartbeat_seconds";

impl Job {
    /// Reads a row with CLAIMED_COLUMNS.
    pub(crate) fn of_row(row: &SimpleQueryRow, shared: &Arc<Shared>) -> Self {
        let text = |column| row.get(column).map(String::from);
        let number = |column| row.get(column).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        let id = |column| row.get(column).and_then(|value| value.parse::<i64>().ok()).unwrap_or(0);
        let state = State {
            progress: None,
            lines: Vec::new(),
            beat_at: Instant::now(),
            reporting: false,
            committing: false,
            done: false,
        };
        Job {
            id: id(0),
            lease: id(1),
            queue: text(2).unwrap_or_default(),
            kind: text(3).unwrap_or_default(),
            payload: text(4).unwrap_or_default(),
            attempt: number(5) as i32,
            max_attempts: number(6) as i32,
            priority: number(7) as i32,
            version: number(8) as i32,
            run_at: time_of(number(9)),
            created_at: time_of(number(10)),
            progress: text(11),
            metadata: text(12),
            heartbeat_seconds: number(13),
            state: Arc::new(Mutex::new(state)),
            reason: Arc::new(watch::channel(None).0),
            shared: shared.clone(),
        }
    }

    /// Returns why the handler should stop, or None.
    pub fn reason(&self) -> Option<Reason> {
        *self.reason.borrow()
    }

    /// Returns an error if the handler should stop.
    pub fn check(&self) -> Result<(), Error> {
        match self.reason() {
            None => Ok(()),
            Some(Reason::Lost) => Err(Error::Lost),
            Some(_) => Err(Error::Cancelled),
        }
    }

    /// Returns when the handler should stop, for `tokio::select!`.
    pub async fn stopped(&self) -> Reason {
        let mut reason = self.reason.subscribe();
        loop {
            if let Some(found) = *reason.borrow_and_update() {
                return found;
            }
            if reason.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn stop(&self, reason: Reason) {
        self.reason.send_if_modified(|known| {
            let changes = known.is_none() || reason == Reason::Lost && *known != Some(Reason::Lost);
            if changes {
                *known = Some(reason);
            }
            changes
        });
    }

    /// Stores the progress of the job, which the worker sends with a heartbeat within about a second.
    pub fn set_progress(&self, value: &impl Serialize) -> Result<(), Error> {
        self.state.lock().unwrap().progress = Some(serde_json::to_string(value)?);
        Ok(())
    }

    /// Writes a line of the level `info` to the log of the job. The worker sends the lines with the next heartbeat, and the last lines
    /// before the report.
    pub fn log(&self, text: impl Into<String>) {
        self.log_at("info", text)
    }

    /// Writes a line of the level `debug`, `info`, `warning`, or `error` to the log of the job.
    pub fn log_at(&self, level: &'static str, text: impl Into<String>) {
        let mut state = self.state.lock().unwrap();
        let full = state.lines.len() == MOST_LINES;
        let line = match full {
            true => Line { level: "warning", text: "lines were left out, because there were too many between two heartbeats".into(), at: Instant::now() },
            false => Line { level, text: text.into(), at: Instant::now() },
        };
        if full {
            state.lines.pop();
        }
        state.lines.push(line);
    }

    /// Opens a connection for the handler, which closes when it is dropped.
    pub async fn connect(&self) -> Result<Client, Error> {
        Ok((self.shared.connector)().await?)
    }

    /// Completes the job in the handler's transaction, and commits the transaction. The result becomes the result of the job. If the
    /// lease is lost, everything is rolled back, and the error is [`Error::Lost`].
    pub async fn complete_with(&self, transaction: Transaction<'_>, result: &impl Serialize) -> Result<(), Error> {
        self.shared.send_lines(std::slice::from_ref(self)).await;
        let statement = sql!("SELECT jobq_complete({}, {}, {}::jsonb, must_hold => true)", self.id, self.lease, serde_json::to_string(result)?);
        self.commit(transaction, &statement).await?;
        self.state.lock().unwrap().done = true;
        Ok(())
    }

    /// Begins a durable step. Returns the saved result if an earlier attempt has finished the step, and otherwise None. Then the handler
    /// runs the step in a transaction, and calls [`Job::step_done`].
    pub async fn step(&self, client: &Client, name: &str) -> Result<Option<Value>, Error> {
        let statement = sql!("SELECT state, result FROM jobq_step({}, {}, {})", self.id, self.lease, name);
        let (state, saved) = self.ask(client, &statement).await?;
        Ok(Some(saved).filter(|_| state == "done"))
    }

    /// Saves the result of a step in its transaction, and commits the transaction. If the lease is lost, everything is rolled back, and
    /// the error is [`Error::Lost`].
    pub async fn step_done(&self, transaction: Transaction<'_>, name: &str, result: &impl Serialize) -> Result<Value, Error> {
        let text = serde_json::to_string(result)?;
        let statement = sql!("SELECT result FROM jobq_step_done({}, {}, {}, {}::jsonb)", self.id, self.lease, name, text);
        let saved = self.commit(transaction, &statement).await?;
        Ok(saved.as_deref().map(serde_json::from_str).transpose()?.unwrap_or(Value::Null))
    }

    /// Returns the payload of a signal. The job occupies no worker while it waits: until the signal arrives, the error is
    /// [`Error::Waiting`], and the job runs again later.
    pub async fn wait_for(&self, client: &Client, event: &str) -> Result<Value, Error> {
        let statement = sql!("SELECT state, payload FROM jobq_await({}, {}, {})", self.id, self.lease, event);
        Ok(self.ask(client, &statement).await?.1)
    }

    /// Returns Ok if the delay of this name is over. Before, the error is [`Error::Waiting`], and the job runs again when the delay is
    /// over.
    pub async fn sleep(&self, client: &Client, name: &str, delay: Duration) -> Result<(), Error> {
        let statement = sql!("SELECT jobq_sleep({}, {}, {}, {})", self.id, self.lease, name, delay);
        self.ask(client, &statement).await.map(|_| ())
    }

    /// Returns the state of a step or wait, and its saved JSON.
    pub(crate) async fn ask(&self, client: &Client, statement: &str) -> Result<(String, Value), Error> {
        self.shared.send_lines(std::slice::from_ref(self)).await;
        let messages = client.simple_query(statement).await?;
        let row = messages.into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.ok_or(Error::Lost)?;
        let saved = if row.len() > 1 { row.get(1).map(serde_json::from_str).transpose()? } else { None };
        match row.get(0).unwrap_or("lost") {
            "waiting" => Err(Error::Waiting),
            "lost" => Err(Error::Lost),
            "cancel" | "cancelled" => {
                self.stop(Reason::Cancel);
                Err(Error::Cancelled)
            }
            state => Ok((state.to_string(), saved.unwrap_or(Value::Null))),
        }
    }

    /// Executes the last statement of a transaction, and commits it. Meanwhile, no heartbeat of the job is sent, because it would wait
    /// for the end of the transaction.
    pub(crate) async fn commit(&self, transaction: Transaction<'_>, last: &str) -> Result<Option<String>, Error> {
        self.shared.set_committing(self, true).await;
        let committed = async {
            let rows = transaction.simple_query(last).await?;
            transaction.commit().await?;
            Ok::<_, tokio_postgres::Error>(rows)
        };
        let committed = committed.await;
        self.shared.set_committing(self, false).await;
        match committed {
            Ok(rows) => Ok(rows.into_iter().find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(String::from),
                _ => None,
            })),
            Err(error) if error.code().map_or(false, |code| code.code() == "JQ001") => Err(Error::Lost),
            Err(error) => Err(error.into()),
        }
    }
}

fn time_of(epoch: f64) -> SystemTime {
    let micros = (epoch.abs() * 1e6).round();
    let distance = Duration::from_micros(if micros.is_finite() { micros as u64 } else { 0 });
    let time = if epoch < 0.0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}
