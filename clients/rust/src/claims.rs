//! Claims jobs, and waits for them.

use crate::connection::{pause, Fault, Link, ANSWERED_WITHIN};
use crate::job::{Job, CLAIMED_COLUMNS};
use crate::sql::sql;
use crate::worker::Shared;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time between two checks for jobs of the queues that the worker does not claim.
const LOOKS_EVERY: Duration = Duration::from_secs(600);

/// What the task that claims remembers.
struct Claims {
    link: Link,
    wait: Duration,
    wait_was_canceled: bool,
    look_at: Option<Instant>, // None: never again
}

impl Shared {
    /// Claims until the worker stops. Returns an error if the server refuses a claim.
    pub(crate) async fn claim_all(self: Arc<Self>, link: Link, wait: Duration) -> Result<(), String> {
        let mut claims = Claims { link, wait, wait_was_canceled: false, look_at: Some(Instant::now()) };
        let mut stopping = self.stopping.subscribe();
        let mut tries = 0;
        while !self.is_stopping() {
            let room = self.options.slots - self.in_hand();
            if room == 0 {
                tokio::select! { _ = self.slot_free.notified() => {}, _ = stopping.changed() => {} }
                continue;
            }
            match self.claim(&mut claims, room).await {
                Ok(()) => tries = 0,
                Err(fault) if fault.broken => {
                    log::warn!("{}: no connection for claims, trying again: {}", self.options.worker_id, fault.text);
                    tokio::select! { _ = pause(tries) => {}, _ = stopping.changed() => {} }
                    tries += 1;
                }
                Err(fault) => return Err(format!("the claim was refused: {}", fault.text)),
            }
        }
        Ok(())
    }

    /// Claims jobs, and starts their handlers. If there are none, waits until there may be some.
    async fn claim(self: &Arc<Self>, claims: &mut Claims, room: usize) -> Result<(), Fault> {
        self.look_for_others(claims).await;
        let begun = Instant::now();
        let options = &self.options;
        let rows = claims
            .link
            .query(&sql!(
                "SELECT {} FROM jobq_claim_any({}::text[], {}, {}, {}::text[], heartbeat_timeout => {}, worker_info => {}::jsonb)",
                Columns, options.queues, options.worker_id, room, self.kinds, options.heartbeat_timeout, self.info
            ))
            .await?;
        self.answered(begun.elapsed());
        for row in &rows {
            self.begin(Job::of_row(row, self));
        }
        if !rows.is_empty() {
            self.pool.lock().unwrap().claimed();
            return Ok(());
        }
        let poll = self.pool.lock().unwrap().pause(&options.worker_id);
        if let Some(poll) = poll {
            let mut stopping = self.stopping.subscribe();
            tokio::select! { _ = sleep(poll) => {}, _ = stopping.changed() => {} }
            return Ok(());
        }
        let wait = sql!(
            "CALL jobq_wait_any({}::text[], {}, {}::text[], worker_id => {}, batch => {}, worker_info => {}::jsonb)",
            options.queues, claims.wait, self.kinds, options.worker_id, room, self.info
        );
        match claims.link.query_within(ANSWERED_WITHIN + claims.wait, &wait).await {
            Err(fault) if fault.code == "57014" => {
                if !std::mem::replace(&mut claims.wait_was_canceled, true) {
                    let setting = claims.link.value("SHOW statement_timeout").await.ok().flatten().unwrap_or_default();
                    log::warn!(
                        "{}: the server canceled a wait: {}. The setting statement_timeout of this role or database is {}, and wait_timeout is {:?}.",
                        options.worker_id, fault.text, setting, claims.wait
                    );
                }
                Ok(())
            }
            answer => answer.map(|_| ()),
        }
    }

    /// Logs which jobs wait in the queues that have no kind, or a kind without a handler here. Reads at most a thousand jobs of each
    /// lane. If the role cannot read the tables, only the first check runs.
    async fn look_for_others(&self, claims: &mut Claims) {
        match claims.look_at {
            Some(at) if at <= Instant::now() => claims.look_at = Some(Instant::now() + LOOKS_EVERY),
            _ => return,
        }
        let found = claims
            .link
            .value(&sql!(
                "SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind)
                 FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
                       FROM jobq.lane_directory d WHERE d.queue = ANY ({}::text[]) AND d.kind <> ALL ({}::text[]) GROUP BY d.kind) counted
                 WHERE n > 0",
                self.options.queues, self.kinds
            ))
            .await;
        match found {
            Ok(Some(found)) => log::warn!(
                "{}: jobs that this worker does not claim are waiting in queues {:?}: {}",
                self.options.worker_id, self.options.queues, found
            ),
            Err(fault) if fault.code == "42501" => claims.look_at = None,
            _ => {} // the claim notices a broken connection
        }
    }
}

/// The columns of a claimed job, for sql!().
struct Columns;
impl crate::sql::Literal for Columns {
    fn literal(&self) -> String {
        CLAIMED_COLUMNS.into()
    }
}
