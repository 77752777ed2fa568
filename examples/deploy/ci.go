package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/examples/internal/stage"
)

// ciServer is a small CI service: POST /jobs starts a job, which reports its progress and its outcome to the job's callback. As
// real senders do, it tries again what failed, and delivers the outcome twice. It serves one job, and ends.
type ciServer struct {
	mu   sync.Mutex
	ids  map[string]string // by idempotency key
	done chan struct{}     // closed when a job was delivered, or could not be
	err  error             // why it could not; read after done
}

// job is the body of POST /jobs.
type job struct {
	DeployInput
	Callback string `json:"callback"`
}

// startJob is the client. The same key starts the same job, once.
func startJob(ctx context.Context, ci string, in DeployInput, callback, key string) (id string, err error) {
	body, err := json.Marshal(job{in, callback})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, ci+"/jobs", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", key)
	status, answer, err := send(r)
	if err != nil || status != http.StatusCreated {
		return "", fmt.Errorf("the CI server answered %d: %w", status, err)
	}
	return answer, nil
}

// serveCI is the role of the CI server.
func serveCI(ctx context.Context, _ []string) {
	s := &ciServer{ids: map[string]string{}, done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs", func(w http.ResponseWriter, r *http.Request) { s.start(ctx, w, r) })
	stage.Serve(ctx, mux, s.done, func() {})
	stage.Check(s.err)
}

func (s *ciServer) start(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var j job
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&j); err != nil {
		http.Error(w, "the job can't be read", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	id, known := s.ids[key]
	if !known && len(s.ids) > 0 {
		http.Error(w, "one job is all it takes", http.StatusConflict)
		return
	}
	if !known {
		id = fmt.Sprintf("job-%d", len(s.ids)+1)
		s.ids[key] = id
		go func() {
			s.err = j.run(ctx)
			close(s.done)
		}()
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, id)
}

// run is one job.
func (j job) run(ctx context.Context) error {
	begin := time.Now()
	for i, name := range []string{"build", "test", "roll out"} {
		if err := sleep(ctx, 400*time.Millisecond); err != nil {
			return err
		}
		body := fmt.Sprintf(`{"message": %q, "fraction": %.2f}`, name, float64(i+1)/4)
		if _, _, err := j.post(ctx, "/progress", body); err != nil {
			return fmt.Errorf("progress could not be reported: %w", err)
		}
	}
	path, body := "", stage.Must(json.Marshal(DeployOutput{
		URL:     "https://" + url.PathEscape(j.Service) + "." + j.Environment + ".example.com",
		Seconds: int(time.Since(begin) / time.Second),
	}))
	if strings.HasPrefix(j.Version, "v0.") {
		path, body = "/fail", stage.Must(json.Marshal(map[string]string{"message": "there is no build of " + j.Service + " " + j.Version}))
	}
	for n := 1; n <= 2; n++ {
		status, answer, err := j.post(ctx, path, string(body))
		if err != nil {
			return fmt.Errorf("delivery %d: %w", n, err)
		}
		stage.Line("answered", fmt.Sprintf("delivery %d", n), "%d %s", status, answer)
	}
	return nil
}

// post calls back, and tries again while the other side is down.
func (j job) post(ctx context.Context, path, body string) (status int, answer string, err error) {
	for try := range 5 {
		if try > 0 {
			if err := sleep(ctx, 500*time.Millisecond); err != nil {
				return 0, "", err
			}
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, j.Callback+path, strings.NewReader(body))
		if err != nil {
			return 0, "", errors.New("the callback is no URL")
		}
		r.Header.Set("Content-Type", "application/json")
		if status, answer, err = send(r); err == nil && status < 500 {
			return status, answer, nil
		}
	}
	return status, answer, errors.New("nobody takes it")
}

var client = &http.Client{Timeout: 10 * time.Second}

func send(r *http.Request) (status int, answer string, err error) {
	res, err := client.Do(r)
	if err != nil {
		return 0, "", errors.New("no connection") // the error itself has the callback's URL, and so the token, in it
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	return res.StatusCode, strings.TrimSpace(string(text)), err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
