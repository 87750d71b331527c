//! Sends heartbeats, progress, and log lines. They have a thread and a connection of their own, so that handlers cannot delay them.

use crate::connection::{pause, Fault, Link};
use crate::job::{Job, Reason};
use crate::sql::sql;
use crate::worker::Shared;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// The minimum time between two calls that send the log lines of running jobs.
const LINES_EVERY: Duration = Duration::from_secs(1);

/// The heartbeats of a worker. The mutex is held while heartbeats are on their way.
pub(crate) struct Heartbeats {
    sending: tokio::sync::Mutex<()>,
    ended: AtomicBool,
}

impl Heartbeats {
    pub(crate) fn new() -> Self {
        Heartbeats { sending: tokio::sync::Mutex::new(()), ended: AtomicBool::new(false) }
    }

    pub(crate) fn start(&self, shared: Arc<Shared>) {
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for heartbeats");
            runtime.block_on(shared.heartbeat_all());
        });
    }

    pub(crate) fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    async fn heartbeat_all(self: Arc<Self>) {
        let mut link = Link::new(&self.connector);
        let mut lines_at = Instant::now();
        let mut tries = 0;
        while !self.heartbeats.ended.load(Ordering::Relaxed) {
            match self.heartbeat_due(&mut link, &mut lines_at).await {
                Ok(()) => tries = 0,
                Err(fault) => {
                    log::warn!("{}: heartbeats failed, trying again: {}", self.options.worker_id, fault.text);
                    pause(tries).await;
                    tries += 1;
                }
            }
            sleep(LOOKS_EVERY).await;
        }
    }

    /// Returns the first error; heartbeats that were not sent stay due. Sends the heartbeats of all jobs before progress, because
    /// progress may fail if its shard is down, and must not delay heartbeats.
    async fn heartbeat_due(&self, link: &mut Link, lines_at: &mut Instant) -> Result<(), Fault> {
        let _sending = self.heartbeats.sending.lock().await;
        let (mut due, mut reported, mut progressed, mut talkative) = (vec![], vec![], vec![], vec![]);
        for job in self.held() {
            let lost = job.reason() == Some(Reason::Lost);
            let mut state = job.state.lock().unwrap();
            let is_due = state.beat_at.elapsed() >= self.interval(&job);
            let live = !state.reporting && !state.committing && !lost;
            if is_due && state.reporting && !lost {
                state.beat_at = Instant::now();
                reported.push(job.clone());
            }
            if live && is_due {
                due.push(job.clone());
            }
            if live && !state.lines.is_empty() {
                talkative.push(job.clone());
            }
            if live && state.progress.is_some() && (is_due || state.beat_at.elapsed() > Duration::from_millis(500)) {
                progressed.push(job.clone());
            }
        }
        if !due.is_empty() {
            self.heartbeat_together(link, due).await?;
        }
        for job in &reported {
            self.heartbeat_briefly(link, job).await?;
        }
        for job in &progressed {
            self.heartbeat_with_progress(link, job).await?;
        }
        if !talkative.is_empty() && lines_at.elapsed() >= LINES_EVERY {
            *lines_at = Instant::now();
            self.send_lines_on(link, &talkative).await?;
        }
        Ok(())
    }

    async fn heartbeat_together(&self, link: &mut Link, due: Vec<Job>) -> Result<(), Fault> {
        let ids: Vec<i64> = due.iter().map(|job| job.id).collect();
        let leases: Vec<i64> = due.iter().map(|job| job.lease).collect();
        let begun = Instant::now();
        // The rows are in the order of the ids.
        let rows = link
            .query(&sql!("SELECT state FROM jobq_heartbeat_many({}::bigint[], {}::bigint[], {}::jsonb)", ids, leases, self.info))
            .await?;
        self.answered(begun.elapsed());
        for (job, row) in due.iter().zip(&rows) {
            heard(job, row.get(0).unwrap_or("lost"));
        }
        Ok(())
    }

    /// Keeps the lease of a job whose report is in flight, and ignores the answer, because the report finds out the same. Waits only
    /// briefly, because an unanswered report may still lock the row, and the heartbeats of other jobs must not wait.
    async fn heartbeat_briefly(&self, link: &mut Link, job: &Job) -> Result<(), Fault> {
        let statement = sql!(
            "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true)) SELECT jobq_heartbeat({}, {}) FROM briefly",
            job.id, job.lease
        );
        match link.query(&statement).await {
            Err(fault) if fault.broken => Err(fault),
            _ => Ok(()),
        }
    }

    async fn heartbeat_with_progress(&self, link: &mut Link, job: &Job) -> Result<(), Fault> {
        // Read here, because an earlier report may have sent it.
        let progress = job.state.lock().unwrap().progress.clone();
        let progress = match progress {
            Some(progress) => progress,
            None => return Ok(()),
        };
        let answer = link.value(&sql!("SELECT jobq_heartbeat({}, {}, {}::jsonb)", job.id, job.lease, progress)).await;
        let state = match answer {
            Err(fault) if fault.broken => return Err(fault),
            Err(fault) => {
                log::warn!("{}: progress of job {} was refused: {}", self.options.worker_id, job.id, fault.text);
                None
            }
            Ok(state) => Some(state.unwrap_or_else(|| "lost".into())),
        };
        let mut known = job.state.lock().unwrap();
        if known.progress.as_ref() == Some(&progress) {
            known.progress = None;
        }
        drop(known);
        if let Some(state) = state {
            heard(job, &state);
        }
        Ok(())
    }

    /// Sends the lines of jobs. If the server rejects them, logs this and drops the lines. Returns an error only if the connection is
    /// broken; then the lines stay with their jobs.
    async fn send_lines_on(&self, link: &mut Link, jobs: &[Job]) -> Result<(), Fault> {
        let (mut ids, mut leases, mut texts, mut levels, mut ago) = (vec![], vec![], vec![], vec![], vec![]);
        let mut sent = HashMap::new();
        for job in jobs {
            let state = job.state.lock().unwrap();
            sent.insert(job.lease, state.lines.len());
            for line in &state.lines {
                ids.push(job.id);
                leases.push(job.lease);
                texts.push(line.text.clone());
                levels.push(line.level);
                ago.push(line.at.elapsed().as_secs_f64());
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let statement = |texts: &Vec<String>| {
            sql!(
                "SELECT jobq_write_log({}::bigint[], {}::bigint[], {}::text[], {}::text[], {}::float8[])",
                ids, leases, texts, levels, ago
            )
        };
        let mut answer = link.query(&statement(&texts)).await;
        if matches!(&answer, Err(fault) if fault.code == "22P05") {
            answer = link.query(&statement(&texts.iter().map(|text| ascii(text)).collect())).await;
        }
        match answer {
            Err(fault) if fault.broken => return Err(fault),
            Err(fault) => log::warn!("{}: log lines of {} jobs were refused: {}", self.options.worker_id, jobs.len(), fault.text),
            Ok(_) => {}
        }
        for job in jobs {
            job.state.lock().unwrap().lines.drain(..sent[&job.lease]);
        }
        Ok(())
    }

    /// Sends the lines that are left before a statement that ends the attempt.
    pub(crate) async fn send_lines(&self, jobs: &[Job]) {
        let mut link = self.reports.lock().await;
        for tries in 0..2 {
            if self.send_lines_on(&mut link, jobs).await.is_ok() {
                return;
            }
            pause(tries).await;
        }
    }

    /// Waits for the answer to heartbeats that are on their way.
    pub(crate) async fn set_committing(&self, job: &Job, committing: bool) {
        let _sending = self.heartbeats.sending.lock().await;
        job.state.lock().unwrap().committing = committing;
    }
}

fn heard(job: &Job, state: &str) {
    let mut known = job.state.lock().unwrap();
    known.beat_at = Instant::now();
    let reporting = known.reporting;
    drop(known);
    match state {
        _ if reporting => {}
        "held" | "finished" => {}
        "cancel" => job.stop(Reason::Cancel),
        _ => job.stop(Reason::Lost),
    }
}

/// Replaces what an encoding may lack.
pub(crate) fn ascii(text: &str) -> String {
    text.chars().map(|char| if char.is_ascii() { char } else { '?' }).collect()
}
