package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is an agent behind the handler, on a real HTTP server.
type site struct {
	t      *testing.T
	kv     kvstore.Store
	store  *session.Store
	rn     *runner.Runner
	api    *httpapi.Handler
	server *httptest.Server
	logs   safeBuffer
	gate   chan struct{} // what the tool "slow" waits for
	paid   atomic.Int64  // what the tool "pay" was entered with

	transport *http.Transport // nil: the server's own
}

type siteOptions struct {
	config httpapi.Config
	runner runner.Options
	model  llm.Model
	// Change makes another agent of the one that there is.
	change func(*agent.Config)
	// Idle: no worker carries sessions on.
	idle bool
	// Tight: connections hold little of what isn't read.
	tight bool
	// Timeout is the server's, for reading and writing.
	timeout time.Duration
}

// photo is what the tool "report" makes.
var photo = []byte("0123456789")

func newSite(t *testing.T, o siteOptions) *site {
	t.Helper()
	s := &site{t: t, kv: kvstore.NewMemory(), gate: make(chan struct{})}
	if o.model == nil {
		o.model = fakellm.New(
			fakellm.When(fakellm.UserSays("build"), fakellm.Calls("build", `{}`), fakellm.Says("Built.")),
			fakellm.When(fakellm.UserSays("pay"), fakellm.Calls("pay", `{"cents":500}`),
				fakellm.Says("Paid.")),
			fakellm.When(fakellm.UserSays("ask"), fakellm.Calls("ask", `{}`), fakellm.Says("Thanks.")),
			fakellm.When(fakellm.UserSays("report"), fakellm.Calls("report", `{}`),
				fakellm.Says("Here it is.")),
			fakellm.When(fakellm.UserSays("slow"), fakellm.Calls("slow", `{}`), fakellm.Says("Slept.")),
			fakellm.When(nil, fakellm.Says("Hello.")))
	}
	s.store = session.NewStore(s.kv, nil)
	c := agent.Config{Name: "ops", Model: o.model, Tools: s.tools(),
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"pay"}})}}
	if o.change != nil {
		o.change(&c)
	}
	ag, err := agent.New(c)
	must(t, err)
	logger := slog.New(slog.NewTextHandler(&s.logs, nil))
	o.runner.Logger, o.config.Logger = logger, logger
	s.rn, err = runner.New(ag, s.store, &o.runner)
	must(t, err)
	if o.config.User == nil {
		o.config.User = signedIn
	}
	s.api, err = httpapi.New(s.rn, o.config)
	must(t, err)
	s.server = httptest.NewUnstartedServer(s.api)
	if o.tight {
		s.tighten()
	}
	s.server.Config.ReadTimeout, s.server.Config.WriteTimeout = o.timeout, o.timeout
	s.server.Start()
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		if !o.idle {
			_ = s.rn.Work(ctx, nil)
		}
	}()
	t.Cleanup(func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.api.Close(done)
		if s.transport != nil {
			s.transport.CloseIdleConnections()
		}
		s.server.Close()
		stop()
		<-worked
		s.rn.Close()
	})
	return s
}

// tighten has the kernel hold little of what a client doesn't read.
func (s *site) tighten() {
	s.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		must(s.t, c.(*net.TCPConn).SetWriteBuffer(64<<10))
		return ctx
	}
	s.transport = &http.Transport{ReadBufferSize: 4 << 10,
		DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, at)
			if err == nil {
				err = c.(*net.TCPConn).SetReadBuffer(64 << 10)
			}
			return c, err
		}}
}

// client is the one that speaks to the server.
func (s *site) client() *http.Client {
	if s.transport != nil {
		return &http.Client{Transport: s.transport}
	}
	return s.server.Client()
}

// signedIn believes a header, as only a test does.
func signedIn(r *http.Request) (runner.Actor, error) {
	if user := r.Header.Get("X-User"); user != "" {
		return runner.Actor(user), nil
	}
	return "", webhook.ErrNoUser
}

// request makes a request of ada's, with a body in JSON if there is one.
func (s *site) request(method, path, body string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path,
		strings.NewReader(body))
	must(s.t, err)
	r.Header.Set("X-User", "ada")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// response is what a client gets.
type response struct {
	status int
	header http.Header
	text   string
}

// do sends a request, and reads the whole answer.
func (s *site) do(r *http.Request) response {
	s.t.Helper()
	res, err := s.client().Do(r)
	must(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(s.t, err)
	if res.StatusCode >= 400 && res.Header.Get("Content-Type") != "application/problem+json" &&
		r.Method != http.MethodHead {
		s.t.Errorf("a %d is no problem: %s", res.StatusCode, text)
	}
	return response{res.StatusCode, res.Header, string(text)}
}

func (s *site) get(path string) response {
	s.t.Helper()
	return s.do(s.request(http.MethodGet, path, ""))
}

func (s *site) post(path, body string) response {
	s.t.Helper()
	return s.do(s.request(http.MethodPost, path, body))
}

// ok checks the status, and decodes the answer.
func (r response) ok(t *testing.T, status int, into any) {
	t.Helper()
	if r.status != status {
		t.Fatalf("got %d %s, want %d", r.status, r.text, status)
	}
	if into != nil {
		must(t, json.Unmarshal([]byte(r.text), into))
	}
}

// is checks that the answer is a problem.
func (r response) is(t *testing.T, status int, code string) {
	t.Helper()
	var p webhook.Problem
	_ = json.Unmarshal([]byte(r.text), &p)
	if r.status != status || p.Type != webhook.ProblemBase+code {
		t.Errorf("got %d %s, want %d with the problem %q", r.status, r.text, status, code)
	}
}

// begin begins a session, and returns its id.
func (s *site) begin(text string) string {
	s.t.Helper()
	var b struct{ Session string }
	s.post("/sessions", `{"text":"`+text+`"}`).ok(s.t, http.StatusCreated, &b)
	return b.Session
}

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

func mustJSON(t *testing.T, text string, into any) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), into))
}
