package jobq

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// mostInfo is the maximum length of the description of a worker, because the server accepts 4 kB.
const mostInfo = 3000

// describeWorker returns the argument worker_info, which the view jobq.workers shows, or nil if it would be too long. expiresIn is "" while
// the worker works.
func (w *Worker) describeWorker(expiresIn string) *string {
	info := map[string]any{
		"worker_id": w.options.WorkerID, "queues": w.options.Queues, "kinds": w.kinds, "slots": w.options.Slots,
		"client": "jobq-go " + Version, "started_at": w.startedAt.UTC().Format(time.RFC3339Nano),
	}
	// The server forgets a worker that has not been heard of for a minute.
	if w.options.PollInterval > 30*time.Second {
		info["expires_in"] = seconds(2 * w.options.PollInterval)
	}
	if expiresIn != "" {
		info["expires_in"] = expiresIn
	}
	text, err := json.Marshal(info)
	if len(text) > mostInfo {
		delete(info, "kinds")
		text, err = json.Marshal(info)
	}
	if err != nil || len(text) > mostInfo {
		return nil
	}
	encoded := string(text)
	return &encoded
}

// leave removes the worker from jobq.workers. It waits only briefly for the answer, and ignores it.
func (w *Worker) leave() {
	if w.info == nil {
		return
	}
	left := make(chan error, 1)
	go func() {
		left <- w.reports.do(time.Second, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SELECT jobq_heartbeat_many('{}', '{}', $1::text::jsonb)", w.describeWorker("0"))
			return err
		})
	}()
	select {
	case <-left:
	case <-time.After(2 * time.Second):
	}
}
