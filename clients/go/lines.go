package jobq

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// mostLines is the maximum number of lines of a job that are kept until they are sent.
const mostLines = 500

// Level is the level of a line in the log of a job.
type Level string

const (
	Debug   Level = "debug"
	Info    Level = "info"
	Warning Level = "warning"
	Error   Level = "error"
)

// line is a line for the log of a job.
type line struct {
	level Level
	text  string
	at    time.Time
	more  int // number of lines that this line stands for, because there were too many
}

// Log writes a line to the log of the job. The worker sends the lines with the next heartbeat, and the last lines before the report.
// At most 500 lines are kept between two heartbeats.
func (j *Job) Log(level Level, text string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if len(j.lines) < mostLines {
		j.lines = append(j.lines, line{level: level, text: text, at: time.Now()})
		return
	}
	if len(j.lines) == mostLines {
		j.lines = append(j.lines, line{level: Warning})
	}
	last := &j.lines[mostLines]
	last.more++
	last.at = time.Now()
	last.text = fmt.Sprintf("%d lines were left out, because there were too many between two heartbeats", last.more)
}

// sendLines sends the lines of jobs. If the server rejects them, it logs this and drops the lines. It returns an error only if the lines
// need another try; then they stay with their jobs.
func (w *Worker) sendLines(link *link, jobs []*Job) error {
	var ids, leases []int64
	var texts, levels []string
	var ago []float64
	sent := map[*Job]int{}
	for _, job := range jobs {
		job.mutex.Lock()
		for _, line := range job.lines {
			ids, leases = append(ids, job.ID), append(leases, job.Lease)
			texts, levels = append(texts, clean(line.text)), append(levels, string(line.level))
			ago = append(ago, time.Since(line.at).Seconds())
		}
		sent[job] = len(job.lines)
		job.mutex.Unlock()
	}
	if len(ids) == 0 {
		return nil
	}
	send := func() error {
		return link.do(answeredWithin, func(ctx context.Context, conn *pgx.Conn) error {
			// The table of the lines may be locked, and must not delay heartbeats and reports.
			_, err := conn.Exec(ctx, `WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
				SELECT jobq_write_log($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::float8[]) FROM briefly`,
				ids, leases, texts, levels, ago)
			return err
		})
	}
	err := send()
	if isUnstorable(err) {
		for place, text := range texts {
			texts[place] = ascii(text)
		}
		err = send()
	}
	if needsRetry(err) && sqlState(err) != "55P03" {
		return err
	}
	if err != nil {
		w.log.Warn("log lines of jobs were refused", "jobs", len(jobs), "error", describe(err))
	}
	for job, number := range sent {
		job.mutex.Lock()
		job.lines = job.lines[number:]
		job.mutex.Unlock()
	}
	return nil
}

// sendLastLines sends the lines that are left before a statement that ends the attempt.
func (w *Worker) sendLastLines(job *Job) {
	for tries := 0; tries < 2; tries++ {
		if w.sendLines(&w.reports, []*Job{job}) == nil {
			return
		}
		time.Sleep(pauseAfter(tries))
	}
}
