package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/misfit"
	"github.com/fermata-ai/fermata/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is an agent with a tool that waits for an outside job, behind a real
// HTTP server.
type site struct {
	t      *testing.T
	o      siteOptions
	kv     kvstore.Store
	store  *session.Store
	rn     *runner.Runner
	server *httptest.Server
	logs   safeBuffer
	tokens []string // all that were handed out
}

type siteOptions struct {
	path    string // of a bbolt file; empty: in memory
	wrap    func(kvstore.Store) kvstore.Store
	session *session.Options
	runner  runner.Options
	webhook webhook.Config
	byKey   *webhook.KeyConfig // mounted at /key
	effect  tool.Effect
	timeout bool   // the pause has a deadline
	sender  string // whose answers alone the pause takes
	// heartbeat is how often the job must be heard of.
	heartbeat time.Duration
	body      func(s *site, token string) // runs in the tool's body, before it pauses
	// permits are those of the job's token. Nil: all that a job can have.
	// Empty: those that a tool gets without asking.
	permits []tool.Permit
	tools   []tool.Tool // beside the job
	layers  interceptor.Chain
	model   llm.Model
}

const chat = "chat-1"

type jobInput struct {
	Name string `json:"name"`
}

type jobOutput struct {
	URL string `json:"url"`
}

func newSite(t *testing.T, o siteOptions) *site {
	t.Helper()
	s := &site{t: t, o: o}
	if s.o.model == nil {
		s.o.model = fakellm.New(fakellm.Calls("job", `{"name":"build"}`), fakellm.Says("Built."))
	}
	if s.o.permits == nil {
		s.o.permits = []tool.Permit{tool.PermitComplete, tool.PermitFail, tool.PermitProgress,
			tool.PermitCancel}
	}
	s.open()
	t.Cleanup(func() {
		s.close()
		for _, token := range s.tokens {
			if strings.Contains(s.logs.String(), token) {
				t.Errorf("the log has a token:\n%s", s.logs.String())
			}
		}
	})
	return s
}

func (s *site) open() {
	s.t.Helper()
	if s.o.path == "" {
		if m, ok := s.kv.(*kvstore.Memory); ok {
			s.kv = m.Reopen()
		} else {
			s.kv = kvstore.NewMemory()
		}
	} else {
		db, err := bolt.Open(s.o.path, nil)
		must(s.t, err)
		s.kv = db
	}
	kv := s.kv
	if s.o.wrap != nil {
		kv = s.o.wrap(kv)
	}
	s.store = session.NewStore(kv, s.o.session)
	ag, err := agent.New(agent.Config{Name: "ops", Model: s.o.model,
		Tools: append(s.o.tools, s.job()), Interceptors: s.o.layers})
	must(s.t, err)
	logger := slog.New(slog.NewTextHandler(&s.logs, nil))
	s.o.runner.Logger, s.o.webhook.Logger = logger, logger
	s.rn, err = runner.New(ag, s.store, &s.o.runner)
	must(s.t, err)
	h, err := webhook.New(s.rn, s.o.webhook)
	must(s.t, err)
	mux := http.NewServeMux()
	mux.Handle("/", h)
	if s.o.byKey != nil {
		s.o.byKey.Logger = logger
		keyed, err := webhook.ByKey(s.rn, *s.o.byKey)
		must(s.t, err)
		mux.Handle("/key", keyed)
	}
	s.server = httptest.NewServer(mux)
}

func (s *site) close() {
	s.server.Close()
	s.rn.Close()
	s.kv.Close()
}

// restart opens the store anew, as when a process ends and another one begins.
func (s *site) restart() {
	s.close()
	s.open()
}

// job is the tool under test. It starts nothing: the test is the outside
// system.
func (s *site) job() tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "job", Effect: s.o.effect, MayPause: true},
		func(ctx context.Context, in jobInput) (tool.Result[jobOutput], error) {
			token := tool.CallFrom(ctx).Token(s.o.permits...)
			s.tokens = append(s.tokens, token)
			if s.o.body != nil {
				s.o.body(s, token)
			}
			await := tool.Await{Key: "job-1", Sender: s.o.sender, Heartbeat: s.o.heartbeat}
			if s.o.timeout {
				await.Timeout = deadline
			}
			return tool.Pending[jobOutput](await), nil
		}))
}

// run takes a user's message to the agent and returns how that ended.
func (s *site) run() event.End {
	s.t.Helper()
	return s.drain(func(yield func(event.Event, error) bool) {
		s.rn.Run(s.t.Context(), "ada", chat, llm.UserText("Build it."), nil)(yield)
	})
}

// carryOn drives the session as a worker would.
func (s *site) carryOn() event.End {
	s.t.Helper()
	return s.drain(s.rn.Continue(s.t.Context(), chat, "ada"))
}

func (s *site) drain(events func(func(event.Event, error) bool)) (end event.End) {
	s.t.Helper()
	for ev, err := range events {
		must(s.t, err)
		if e, ok := ev.(event.End); ok {
			end = e
		}
	}
	return end
}

// paused runs until the job waits, and returns its token.
func (s *site) paused() string {
	s.t.Helper()
	if end := s.run(); end.Finish != event.FinishPaused {
		s.t.Fatalf("the run ended as %s, not paused", end.Finish)
	}
	return s.tokens[len(s.tokens)-1]
}

// call returns the one call of the session.
func (s *site) call() runner.CallDetails {
	s.t.Helper()
	transcript, err := s.rn.Show(s.t.Context(), chat, "ada")
	must(s.t, err)
	status, err := s.rn.Call(s.t.Context(), chat, transcript.History[1].ToolCalls()[0].ID, "ada")
	must(s.t, err)
	return status
}

// response is the response to a sender.
type response struct {
	status int
	header http.Header
	text   string

	Status    any            `json:"status"` // accepted, or the number of a refusal
	Duplicate bool           `json:"duplicate"`
	Call      string         `json:"call"`
	Pause     string         `json:"pause"`
	Fate      string         `json:"fate"`
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Detail    string         `json:"detail"`
	Faults    []misfit.Fault `json:"faults"`
}

// post sends JSON to .../hooks/{path}.
func (s *site) post(path, body string) response {
	s.t.Helper()
	r := s.request(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return s.send(r)
}

func (s *site) request(method, path string, body io.Reader) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+"/hooks/"+path, body)
	must(s.t, err)
	return r
}

// send delivers as a sender does. Any goroutine may call it.
func (s *site) send(r *http.Request) response {
	s.t.Helper()
	res, err := s.server.Client().Do(r)
	if err != nil {
		s.t.Errorf("%s: %v", r.Method, err)
		return response{}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Errorf("%s: %v", r.Method, err)
	}
	out := response{status: res.StatusCode, header: res.Header, text: string(text)}
	if err := json.Unmarshal(text, &out); err != nil {
		s.t.Errorf("the response is no JSON: %v\n%s", err, text)
	}
	media := "application/json"
	if out.status != http.StatusOK {
		media = "application/problem+json"
		if out.Status != float64(out.status) || out.Title == "" {
			s.t.Errorf("a %d is no problem detail: %s", out.status, out.text)
		}
	}
	if got := out.header.Get("Content-Type"); got != media {
		s.t.Errorf("a %d comes as %s", out.status, got)
	}
	if again := out.header.Get("Retry-After"); (again != "") !=
		(out.status == http.StatusServiceUnavailable || out.status == http.StatusTooManyRequests) {
		s.t.Errorf("a %d has Retry-After %q", out.status, again)
	}
	for _, token := range s.tokens {
		if strings.Contains(out.text, token) {
			s.t.Errorf("a response has a token: %s", out.text)
		}
	}
	return out
}

// is checks the status and the word of a response.
func (r response) is(t *testing.T, status int, code string) {
	t.Helper()
	if r.status != status || r.Type != webhook.ProblemBase+code {
		t.Errorf("got %d %s, want %d with the problem %q", r.status, r.text, status, code)
	}
}

// accepted checks that the response is an acceptance.
func (r response) accepted(t *testing.T, duplicate bool) {
	t.Helper()
	if r.status != http.StatusOK || r.Status != "accepted" || r.Duplicate != duplicate {
		t.Errorf("got %d %s, want 200, accepted, duplicate: %v", r.status, r.text, duplicate)
	}
}

func boltFile(t *testing.T) string { return filepath.Join(t.TempDir(), "fermata.db") }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// work runs a worker until a run ends otherwise than paused, and sends that
// end.
func (s *site) work() <-chan event.End {
	ended := make(chan event.End, 1)
	ctx, cancel := context.WithCancel(s.t.Context())
	go func() {
		s.rn.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
			if end, ok := ev.(event.End); ok && end.Finish != event.FinishPaused {
				cancel()
				ended <- end
			}
		}})
	}()
	return ended
}
