package bench

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// BenchmarkIdleStreams is what 1,000 streams of httpapi cost on which nothing
// happens, all of one session, over loopback. Their clients are connections
// without goroutines, in the same process.
func BenchmarkIdleStreams(b *testing.B) {
	const streams = 1000
	kv := &tally{Exclusive: openBolt(b)}
	rn := newRunner(b, session.NewStore(kv, nil), fakellm.Echo())
	drain(b, rn.Run(b.Context(), "ada", "chat", llm.UserText("Hi."), nil), event.FinishStop)
	api, err := httpapi.New(rn, httpapi.Config{
		User:    func(*http.Request) (runner.Actor, error) { return "ada", nil },
		Streams: httpapi.Streams{PerUser: streams, Heartbeat: time.Hour, Reauthorize: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()
	var memory, goroutines, reads float64
	for b.Loop() {
		before, running := inUse(), runtime.NumGoroutine()
		var all []net.Conn
		for range streams {
			all = append(all, openStream(b, server.Listener.Addr().String()))
		}
		kv.take(1)
		begun := time.Now()
		time.Sleep(time.Second)
		reads = kv.take(1).reads / time.Since(begun).Seconds()
		memory = (inUse() - before) / streams
		goroutines = float64(runtime.NumGoroutine()-running) / streams
		for _, c := range all {
			c.Close()
		}
		for runtime.NumGoroutine() > running+100 {
			time.Sleep(time.Millisecond)
		}
	}
	b.ReportMetric(memory/1000, "kB/stream")
	b.ReportMetric(goroutines, "goroutines/stream")
	b.ReportMetric(reads, "reads/s")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// inUse is the memory of heap and stacks.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// openStream follows the session, and reads up to its end.
func openStream(b *testing.B, at string) net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", at)
	if err == nil {
		_, err = io.WriteString(c, "GET /sessions/chat/events HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for in := bufio.NewReader(c); err == nil; {
		var line string
		if line, err = in.ReadString('\n'); strings.Contains(line, `"type":"end"`) {
			return c
		}
	}
	b.Fatal(err)
	return nil
}
