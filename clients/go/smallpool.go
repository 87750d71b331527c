package jobq

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	shortWait   = 2 * time.Second // the length of waits that cannot be woken or that use a pooler
	firstPoll   = 50 * time.Millisecond
	longestPoll = time.Second
)

// smallPool decides whether a worker waits in the server or polls. If the pool of a pooler has fewer connections than there are workers,
// waits occupy the connections that heartbeats need. See "Small pools" in clients/CONTRACT.md.
type smallPool struct {
	pooled     bool
	mutex      sync.Mutex
	hasPolled  bool
	pollsUntil time.Time // zero if the worker waits in the server
	polls      int       // number of polls in a row
}

// answered makes a worker behind a pooler poll for a while if an answer was late.
func (w *Worker) answered(took time.Duration) {
	if !w.pool.pooled {
		return
	}
	limit := longestPoll
	for _, job := range w.held() {
		limit = min(limit, w.interval(job)/4)
	}
	if interval := w.intervalOfOptions(); interval > 0 {
		limit = min(limit, interval/4)
	}
	if took <= max(limit, 250*time.Millisecond) {
		return
	}
	pool := &w.pool
	pool.mutex.Lock()
	defer pool.mutex.Unlock()
	if pool.pollsUntil.IsZero() {
		log := w.log.Info
		if !pool.hasPolled {
			log = w.log.Warn
		}
		log(fmt.Sprintf("answers take %.1f s behind the connection pooler, whose pool may have fewer connections than there are workers: "+
			"polling instead of waiting", took.Seconds()))
	}
	pool.hasPolled = true
	pool.pollsUntil = time.Now().Add(time.Minute + rand.N(time.Minute))
}

// pollPause returns the pause after an empty claim, or 0 if the worker waits in the server.
func (w *Worker) pollPause() time.Duration {
	pool := &w.pool
	pool.mutex.Lock()
	defer pool.mutex.Unlock()
	longest := w.options.PollInterval
	if !pool.pollsUntil.IsZero() && time.Now().After(pool.pollsUntil) {
		pool.pollsUntil = time.Time{}
		if longest == 0 {
			pool.polls = 0
			w.log.Info("answers are fast again: waiting instead of polling")
		}
	}
	if longest == 0 && !pool.pollsUntil.IsZero() {
		longest = longestPoll
	}
	if longest == 0 {
		return 0
	}
	pool.polls++
	return min(longest, firstPoll<<min(pool.polls-1, 30))
}

// claimedJobs makes the next poll follow soon.
func (p *smallPool) claimedJobs() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.polls = 0
}
