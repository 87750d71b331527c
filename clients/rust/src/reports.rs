//! Reports how handlers have ended.

use crate::connection::{pause, Fault};
use crate::error::{Error, Failure};
use crate::heartbeats::ascii;
use crate::job::{Job, Reason};
use crate::sql::sql;
use crate::worker::Shared;
use serde_json::json;
use std::time::Instant;

/// The maximum number of times that the worker gives a job back because the job's own transaction collided with another one. The next
/// collision counts as a failed attempt, so that a job that always collides ends.
const MOST_COLLISIONS: u32 = 10;
/// The server accepts 16,384 bytes of details. JSON needs at most six bytes per character.
const LONGEST_STACK: usize = 2500;

impl Shared {
    /// Reports the outcome of a handler.
    pub(crate) async fn conclude(&self, job: &Job, outcome: Result<Option<String>, Error>) {
        let (done, progress) = {
            let mut state = job.state.lock().unwrap();
            if std::mem::replace(&mut state.reporting, true) {
                return;
            }
            (state.done, state.progress.take())
        };
        if done || matches!(outcome, Err(Error::Waiting)) {
            return;
        }
        let reason = job.reason();
        if reason == Some(Reason::Lost) || matches!(outcome, Err(Error::Lost)) {
            log::warn!("{}: job {} of kind {:?}: the lease is lost", self.options.worker_id, job.id, job.kind);
            return;
        }
        if let Some(progress) = progress {
            let statement = sql!("SELECT jobq_heartbeat({}, {}, {}::jsonb) IN ('held', 'cancel')", job.id, job.lease, progress);
            self.report(job, "progress", &statement).await.ok();
        }
        self.send_lines(std::slice::from_ref(job)).await;
        let release = sql!("SELECT jobq_release({}, {})", job.id, job.lease);
        let (what, refused, failure) = match outcome {
            Ok(result) => {
                let complete = sql!("SELECT jobq_complete({}, {}, {}::jsonb)", job.id, job.lease, result);
                ("result", self.report(job, "completed", &complete).await, None)
            }
            Err(Error::Snooze(delay)) => {
                let snooze = sql!("SELECT jobq_snooze({}, {}, {})", job.id, delay, job.lease);
                ("snooze", self.report(job, "snoozed", &snooze).await, None)
            }
            Err(Error::Release) => ("release", self.report(job, "released", &release).await, None),
            Err(Error::Cancelled) if reason == Some(Reason::Stopping) => ("release", self.report(job, "released", &release).await, None),
            Err(Error::Failed(failure)) if self.gives_back(job, &failure) => {
                ("release", self.report(job, "released", &release).await, None)
            }
            Err(Error::Failed(failure)) => ("failure", self.fail(job, &failure).await, Some(failure)),
            Err(Error::Cancelled) | Err(Error::Lost) | Err(Error::Waiting) => {
                ("failure", self.fail(job, &plain_failure("cancelled".into())).await, None)
            }
        };
        let refused = match refused {
            Ok(()) => return,
            Err(fault) => fault,
        };
        let mut again = plain_failure(format!("the {} was refused: {}", what, refused.text));
        if let Some(failure) = failure {
            again.retry_in = failure.retry_in;
            again.retry = failure.retry;
        }
        if self.fail(job, &again).await.is_err() && again.retry_in.take().is_some() {
            self.fail(job, &again).await.ok(); // the server may have rejected the delay
        }
    }

    async fn fail(&self, job: &Job, failure: &Failure) -> Result<(), Fault> {
        let (id, cancelled) = (&self.options.worker_id, failure.message == "cancelled");
        if cancelled {
            log::info!("{}: job {} of kind {:?}, attempt {}: cancelled", id, job.id, job.kind, job.attempt);
        } else {
            log::error!("{}: job {} of kind {:?}, attempt {}, has failed: {}", id, job.id, job.kind, job.attempt, failure.message);
        }
        let shown = self.options.error_details && !failure.class.is_empty();
        let details = shown.then(|| json!({"class": shortened(&failure.class, 100), "stack": shortened(&failure.stack, LONGEST_STACK)}).to_string());
        let details = details.map(|text| text.replace("\\u0000", "\\\\0"));
        let statement = |message: &str, details: Option<&String>| {
            sql!(
                "SELECT jobq_fail({}, {}, {}, {}, {}, {}::jsonb) IS NOT NULL",
                job.id, job.lease, message, failure.retry_in, failure.retry, details
            )
        };
        let mut answer = self.report(job, "failed", &statement(&failure.message, details.as_ref())).await;
        if matches!(&answer, Err(fault) if ["22P05", "22021"].contains(&fault.code.as_str())) {
            let details = details.as_ref().map(|text| ascii(text));
            answer = self.report(job, "failed", &statement(&ascii(&failure.message), details.as_ref())).await;
        }
        if answer.is_err() && details.is_some() {
            answer = self.report(job, "failed", &statement(&failure.message, None)).await;
        }
        answer
    }

    /// Returns whether the job runs again without counting the attempt, because its own transaction collided with another one.
    fn gives_back(&self, job: &Job, failure: &Failure) -> bool {
        let mut collisions = self.collisions.lock().unwrap();
        let number = collisions.get(&job.id).copied().unwrap_or(0) + 1;
        let code = match &failure.collided {
            Some(code) if number <= MOST_COLLISIONS => code,
            _ => {
                collisions.remove(&job.id);
                return false;
            }
        };
        if collisions.len() > 1000 {
            collisions.clear(); // most are of jobs that other workers have completed
        }
        collisions.insert(job.id, number);
        log::warn!(
            "{}: job {} of kind {:?}: its transaction collided with another one (SQLSTATE {}), so it is given back: {} of {} times",
            self.options.worker_id, job.id, job.kind, code, number, MOST_COLLISIONS
        );
        true
    }

    /// Sends a report until the server answers. Returns the error with which the server rejects it.
    pub(crate) async fn report(&self, job: &Job, what: &str, statement: &str) -> Result<(), Fault> {
        let id = &self.options.worker_id;
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.send_report(job, statement).await;
            match answer {
                Err(fault) if fault.broken => {
                    log::warn!("{}: the connection is broken: {}", id, fault.text);
                    if self.is_late() {
                        self.could_not_report(job);
                        return Ok(());
                    }
                    pause(tries - 1).await;
                }
                Err(fault) => {
                    log::warn!("{}: job {}: the report was refused: {}: {}", id, job.id, what, fault.text);
                    return Err(fault);
                }
                // gone: the queue keeps no finished jobs
                Ok(state) if state.is_empty() || state == "finished" || state == "gone" && tries > 1 => {
                    if what == "released" {
                        log::info!("{}: job {} of kind {:?}: released", id, job.id, job.kind);
                    }
                    return Ok(());
                }
                Ok(_) => {
                    log::warn!("{}: job {} of kind {:?}: the lease is lost", id, job.id, job.kind);
                    return Ok(());
                }
            }
        }
    }

    /// Returns an empty text if the report was taken, and otherwise the state of the job: maybe an earlier try has succeeded, but its
    /// answer was lost.
    async fn send_report(&self, job: &Job, statement: &str) -> Result<String, Fault> {
        let mut link = self.reports.lock().await;
        let begun = Instant::now();
        let taken = link.value(statement).await;
        self.answered(begun.elapsed());
        if taken?.as_deref() == Some("t") {
            return Ok(String::new());
        }
        let state = link.value(&sql!("SELECT jobq_heartbeat({}, {})", job.id, job.lease)).await?;
        Ok(state.unwrap_or_else(|| "lost".into()))
    }

    /// Executes a statement until the server answers, and returns its value.
    pub(crate) async fn report_value(&self, statement: &str) -> Result<Option<String>, Fault> {
        let mut tries = 0;
        loop {
            let answer = self.reports.lock().await.value(statement).await;
            match answer {
                Err(fault) if fault.broken && !self.is_late() => pause(tries).await,
                answer => return answer,
            }
            tries += 1;
        }
    }

    /// Returns whether the time for the last reports is over.
    fn is_late(&self) -> bool {
        self.give_up_at.lock().unwrap().map_or(false, |at| at < Instant::now())
    }
}

fn plain_failure(message: String) -> Failure {
    Failure { class: String::new(), message, stack: String::new(), retry_in: None, retry: true, collided: None }
}

/// Removes the middle of a long text.
fn shortened(text: &str, longest: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= longest {
        return text.into();
    }
    let half = longest / 2;
    let (begin, end) = (&chars[..half], &chars[chars.len() - half..]);
    format!("{}... {} characters left out ...{}", begin.iter().collect::<String>(), chars.len() - 2 * half, end.iter().collect::<String>())
}
