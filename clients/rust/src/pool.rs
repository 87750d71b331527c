//! Detects that the pool of a connection pooler has fewer connections than there are workers, so that the waits of the workers hold all
//! of them. Then the worker polls for a while. See "Small pools" in CONTRACT.md.

use std::time::{Duration, Instant};

const FIRST_POLL: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct SmallPool {
    has_polled: bool,
    polls_until: Option<Instant>,
    polls: u32, // in a row
}

impl SmallPool {
    /// Makes the worker poll for a while if an answer was late. `interval`: the shortest heartbeat interval, if there is one.
    pub(crate) fn answered(&mut self, worker: &str, took: Duration, interval: Option<Duration>) {
        let limit = interval.map_or(Duration::from_secs(1), |interval| interval / 4);
        let limit = limit.clamp(Duration::from_millis(250), Duration::from_secs(1));
        if took <= limit {
            return;
        }
        if self.polls_until.is_none() {
            let level = if self.has_polled { log::Level::Info } else { log::Level::Warn };
            log::log!(
                level,
                "{}: answers take {:.1} s; the pool of a connection pooler may have fewer connections than there are workers: \
                 polling instead of waiting",
                worker,
                took.as_secs_f64()
            );
        }
        self.polls_until = Some(Instant::now() + Duration::from_secs_f64(60.0 + 60.0 * rand::random::<f64>()));
        self.has_polled = true;
    }

    pub(crate) fn claimed(&mut self) {
        self.polls = 0;
    }

    /// Returns the pause after an empty claim, or None if the worker waits in the server.
    pub(crate) fn pause(&mut self, worker: &str) -> Option<Duration> {
        let until = self.polls_until?;
        if Instant::now() > until {
            self.polls_until = None;
            self.polls = 0;
            log::info!("{}: answers are fast again: waiting instead of polling", worker);
            return None;
        }
        self.polls += 1;
        Some((FIRST_POLL * (1 << (self.polls - 1).min(10))).min(LONGEST_POLL))
    }
}
