// Package ci stands in for the outside world of the chat: a small CI service.
// POST /jobs starts a job, which reports its progress and its outcome to the
// job's callback. As real senders do, it repeats a delivery that failed, and
// delivers the outcome twice.
package ci

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config configures a server. The zero value keeps jobs in memory, whose steps
// take no time.
type Config struct {
	Pace time.Duration // of each of a job's three steps
	// File is where jobs are kept, so that they outlive the process; empty:
	// nowhere.
	File string
	// Hooks is the host and port that callbacks go to, where File has jobs that
	// were started for another one: those of examples change with each start.
	Hooks string
}

// Server is the service, as an HTTP handler. Each job runs in a goroutine of
// its own until ctx ends.
type Server struct {
	config Config
	ctx    context.Context // ends all jobs
	stop   context.CancelFunc
	jobs   sync.WaitGroup

	mu    sync.Mutex // guards known, and the file
	known []job      // all that there ever were
}

// New returns a server that goes on with the jobs in its file. They end with
// ctx, or with Close.
func New(ctx context.Context, c Config) (*Server, error) {
	s := &Server{config: c}
	if err := s.load(); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(ctx)
	for _, j := range s.known {
		if !j.Over {
			s.jobs.Go(func() { s.run(j) })
		}
	}
	return s, nil
}

// Close ends the jobs that run. With a file, the next server goes on with them.
func (s *Server) Close() {
	s.stop()
	s.jobs.Wait()
}

// ServeHTTP takes POST /jobs. The same Idempotency-Key starts the same job,
// once.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/jobs" {
		http.NotFound(w, r)
		return
	}
	var j job
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&j); err != nil {
		http.Error(w, "the job can't be read", http.StatusBadRequest)
		return
	}
	j.Key, j.Begun, j.Over = r.Header.Get("Idempotency-Key"), time.Now(), false
	id, err := s.start(j)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, id)
}

func (s *Server) start(j job) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.known, func(k job) bool { return k.Key == j.Key }); i >= 0 {
		return s.known[i].ID, nil
	}
	j.ID = fmt.Sprintf("job-%d", len(s.known)+1)
	s.known = append(s.known, j)
	if err := s.save(); err != nil {
		s.known = s.known[:len(s.known)-1]
		return "", err
	}
	s.jobs.Go(func() { s.run(j) })
	return j.ID, nil
}

// over notes that a job has ended.
func (s *Server) over(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.known, func(k job) bool { return k.ID == id })
	s.known[i].Over = true
	return s.save()
}
