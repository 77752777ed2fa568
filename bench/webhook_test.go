package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// BenchmarkWebhook sends 1,000 distinct signed webhooks over loopback, each for
// a session of its own, to a handler of webhook.ByKey on bbolt: 64 senders at
// once. They take turns with as many writers who make as many bare commits, of
// as many entries and bytes, through the same engine.
//
//	p50-ms, p99-ms    from the request to its 200
//	bare-p50, -p99    of the bare commits, in ms
//	x-p50, x-p99      the one over the other
func BenchmarkWebhook(b *testing.B) {
	const webhooks, senders, turns = 1000, 64, 5
	const each = webhooks / turns
	var took, bare []float64
	for b.Loop() {
		s := newHookSite(b, webhooks)
		s.kv.reset()
		for turn := range turns {
			first := turn * each
			took = append(took, timed(senders, each, func(i int) { s.send(b, first+i) })...)
			like := s.kv.bare()
			bare = append(bare, timed(senders, each, func(i int) {
				if _, err := s.db.Apply(context.Background(), like(fmt.Sprint(first+i))); err != nil {
					b.Error(err)
				}
			})...)
		}
		if got := s.kv.commits.Load(); got != webhooks {
			b.Errorf("%d webhooks took %d commits", webhooks, got)
		}
		s.close()
	}
	for name, share := range map[string]float64{"p50": .5, "p99": .99} {
		hook, commit := quantile(took, share), quantile(bare, share)
		b.ReportMetric(1000*hook, name+"-ms")
		b.ReportMetric(1000*commit, "bare-"+name)
		b.ReportMetric(hook/commit, "x-"+name)
	}
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// timed does something so many times, so many at once, and returns the seconds
// that each took.
func timed(atOnce, times int, do func(i int)) []float64 {
	took := make([]float64, times)
	var next atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < times; i = int(next.Add(1)) - 1 {
				begun := time.Now()
				do(i)
				took[i] = time.Since(begun).Seconds()
			}
		})
	}
	all.Wait()
	return took
}

// hookSite is sessions whose calls wait for webhooks, and a server that takes
// these.
type hookSite struct {
	db     *bolt.Store
	kv     *counting
	rn     *runner.Runner
	server *httptest.Server
}

var hookSecret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32))

func newHookSite(b *testing.B, sessions int) *hookSite {
	b.Helper()
	build := tool.Must(tool.Func(tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ struct{}) (tool.Result[json.RawMessage], error) {
			return tool.Pending[json.RawMessage](tool.Await{Key: tool.CallFrom(ctx).Session}), nil
		}))
	db := openBolt(b)
	s := &hookSite{db: db, kv: &counting{Exclusive: db}}
	s.rn = newRunner(b, session.NewStore(s.kv, nil), fakellm.New(
		fakellm.Calls("build", `{}`), fakellm.Says("Done.")), build)
	ci, err := webhook.StandardWebhooks(
		webhook.Secrets{Sender: "ci", Current: webhook.Fixed(hookSecret)})
	if err != nil {
		b.Fatal(err)
	}
	hook, err := webhook.ByKey(s.rn, webhook.KeyConfig{Verifier: ci, Tool: "build", Key: "/job"})
	if err != nil {
		b.Fatal(err)
	}
	s.server = httptest.NewServer(hook)
	s.server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	timed(64, sessions, func(i int) {
		drain(b, s.rn.Run(context.Background(), "ada", sessionID(i), llm.UserText("Go."), nil),
			event.FinishPaused)
	})
	return s
}

func (s *hookSite) close() {
	s.server.Close()
	_ = s.rn.Close()
	_ = s.db.Close()
}

// send sends the webhook of a session.
func (s *hookSite) send(b *testing.B, i int) {
	body := fmt.Appendf(nil, `{"job":%q,"state":"success"}`, sessionID(i))
	r, err := http.NewRequest(http.MethodPost, s.server.URL, bytes.NewReader(body))
	if err == nil {
		err = webhook.Sign(r.Header, hookSecret, fmt.Sprint("evt-", i), time.Now(), body)
	}
	if err != nil {
		b.Error(err)
		return
	}
	res, err := s.server.Client().Do(r)
	if err != nil {
		b.Error(err)
		return
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || err != nil {
		b.Errorf("webhook %d: %d %s, %v", i, res.StatusCode, text, err)
	}
}
