package fakellm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/llm"
)

// events returns what a model of one turn streams.
func events(t testing.TB, turn fakellm.Turn) []llm.Event {
	t.Helper()
	var out []llm.Event
	for ev, err := range fakellm.New(turn).Generate(t.Context(), request(user("x"))) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}

func TestStreams(t *testing.T) {
	d := func(index int, id, name, args string) llm.ToolCallDelta {
		return llm.ToolCallDelta{Index: index, ProviderID: id, Name: name, Arguments: args}
	}
	end, wait := llm.Finish{Reason: llm.StopEnd}, llm.Finish{Reason: llm.StopToolCalls}
	sig := llm.Reasoning{Text: "hm", Native: &llm.Native{Provider: "acme", Data: raw("1")}}
	usage := llm.Usage{Input: 7, Output: 3}
	for _, c := range []struct {
		name string
		turn fakellm.Turn
		want []llm.Event
	}{
		{"text", fakellm.Says("hello"), []llm.Event{llm.TextDelta{Text: "hello"}, end}},
		{"nothing", fakellm.Says(""), []llm.Event{end}},
		{"the zero turn", fakellm.Turn{}, []llm.Event{end}},
		{"text in chunks, cut between characters", fakellm.Says("aé水𝄐bc").Chunks(2), []llm.Event{
			llm.TextDelta{Text: "a"}, llm.TextDelta{Text: "é"}, llm.TextDelta{Text: "水"}, llm.TextDelta{Text: "𝄐"}, llm.TextDelta{Text: "bc"}, end}},
		{"invalid UTF-8 in chunks", fakellm.Says("\xff\x80\x80").Chunks(1), []llm.Event{
			llm.TextDelta{Text: "\xff"}, llm.TextDelta{Text: "\x80"}, llm.TextDelta{Text: "\x80"}, end}},
		{"calls", fakellm.Calls("f", `{"p":1}`).And("g", ``), []llm.Event{d(0, "call_0", "f", `{"p":1}`), d(1, "call_1", "g", ``), wait}},
		{"arguments in chunks, cut anywhere", fakellm.Calls("f", `"é"`).Chunks(2), []llm.Event{
			d(0, "call_0", "f", ""), d(0, "", "", "\"\xc3"), d(0, "", "", "\xa9\""), wait}},
		{"arguments that are no JSON", fakellm.Calls("f", `{"p`), []llm.Event{d(0, "call_0", "f", `{"p`), wait}},
		{"calls side by side", fakellm.Calls("f", `123`).And("g", `4`).Chunks(1).Interleaved(), []llm.Event{
			d(0, "call_0", "f", ""), d(1, "call_1", "g", ""), d(0, "", "", "1"), d(1, "", "", "4"),
			d(0, "", "", "2"), d(0, "", "", "3"), wait}},
		{"repeating ids", fakellm.Calls("f", `{}`).And("f", `{}`).IDs("a", "a"), []llm.Event{d(0, "a", "f", `{}`), d(1, "a", "f", `{}`), wait}},
		{"missing ids", fakellm.Calls("f", `{}`).And("f", `{}`).IDs("a"), []llm.Event{d(0, "a", "f", `{}`), d(1, "", "f", `{}`), wait}},
		{"no ids", fakellm.Calls("f", `{}`).IDs(), []llm.Event{d(0, "", "f", `{}`), wait}},
		{"reasoning and text beside calls", fakellm.Reasons("hm").Says("on it").And("f", `{}`).Says("done").And("g", `{}`), []llm.Event{
			llm.ReasoningDelta{Text: "hm"}, llm.TextDelta{Text: "on it"}, d(0, "call_0", "f", `{}`), llm.TextDelta{Text: "done"}, d(1, "call_1", "g", `{}`), wait}},
		{"whole parts", fakellm.Reasons("hm").Part(sig).Part(llm.Text{Text: "x"}), []llm.Event{
			llm.ReasoningDelta{Text: "hm"}, llm.PartDone{Part: sig}, llm.PartDone{Part: llm.Text{Text: "x"}}, end}},
		{"a whole call", fakellm.Turn{}.Part(llm.ToolCall{Name: "f"}), []llm.Event{llm.PartDone{Part: llm.ToolCall{Name: "f"}}, wait}},
		{"stop reason and usage", fakellm.Says("x").Stop(llm.StopLength).Usage(usage), []llm.Event{llm.TextDelta{Text: "x"}, llm.Finish{Reason: llm.StopLength, Usage: usage}}},
		{"cut", fakellm.Says("abc").Chunks(1).Cut(2), []llm.Event{llm.TextDelta{Text: "a"}, llm.TextDelta{Text: "b"}}},
		{"cut at once", fakellm.Says("abc").Cut(0), nil},
		{"cut right before the end", fakellm.Says("abc").Cut(9), []llm.Event{llm.TextDelta{Text: "abc"}}},
		{"given event by event", fakellm.Events(d(3, "", "", "?"), end, end), []llm.Event{d(3, "", "", "?"), end, end}},
		{"given, without an end", fakellm.Events(llm.TextDelta{Text: "x"}), []llm.Event{llm.TextDelta{Text: "x"}}},
		{"given and cut", fakellm.Events(llm.TextDelta{Text: "x"}, end).Cut(1), []llm.Event{llm.TextDelta{Text: "x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, events(t, c.turn)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// However a turn is streamed, it is the same message.
func TestEveryStreamingCollectsToTheSame(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		turn := fakellm.Turn{}
		for range rapid.IntRange(0, 4).Draw(rt, "pieces") {
			switch rapid.IntRange(0, 3).Draw(rt, "piece") {
			case 0:
				turn = turn.Says("a" + rapid.String().Draw(rt, "text"))
			case 1:
				turn = turn.Reasons("a" + rapid.String().Draw(rt, "reasoning"))
			default:
				turn = turn.And("f", fmt.Sprintf("{%q:[1,2]}", rapid.StringMatching(`[a-zé水𝄐]{0,5}`).Draw(rt, "key")))
			}
		}
		if rapid.Bool().Draw(rt, "no ids") {
			turn = turn.IDs()
		}
		plain := slices.Values(events(t, turn))
		streamed := turn.Chunks(rapid.IntRange(0, 5).Draw(rt, "chunk"))
		if rapid.Bool().Draw(rt, "interleaved") {
			streamed = streamed.Interleaved()
		}
		for _, ev := range events(t, streamed) {
			if d, ok := ev.(llm.TextDelta); ok && !utf8.ValidString(d.Text) {
				rt.Fatalf("text cut within a character: %q", d.Text)
			}
		}
		collect := func(events func(func(llm.Event) bool)) (llm.Message, llm.Finish, error) {
			return llm.Collect(func(yield func(llm.Event, error) bool) {
				events(func(e llm.Event) bool { return yield(e, nil) })
			})
		}
		want, wantFin, err := collect(plain)
		if err != nil {
			rt.Fatal(err)
		}
		got, gotFin, err := collect(slices.Values(events(t, streamed)))
		if d := cmp.Diff(want, got); d != "" || err != nil || wantFin != gotFin {
			rt.Fatalf("%v, %v, %v (-want +got):\n%s", err, wantFin, gotFin, d)
		}
	})
}

func TestDelayTakesNoRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakellm.New(fakellm.Says("abc").Chunks(1).Delay(time.Hour, time.Minute))
		start := time.Now()
		var at []time.Duration
		for _, err := range m.Generate(t.Context(), request(user("x"))) {
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(start))
		}
		at = append(at, time.Since(start)) // at the end, at once
		want := []time.Duration{time.Hour, time.Hour + time.Minute, time.Hour + 2*time.Minute, time.Hour + 3*time.Minute, time.Hour + 3*time.Minute}
		if !slices.Equal(at, want) {
			t.Errorf("events at %v, want %v", at, want)
		}
	})
}

func TestCancelledContextEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fakellm.New(fakellm.Says("abc").Chunks(1).Delay(0, time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		start := time.Now()
		msg, _, err := llm.Collect(m.Generate(ctx, request(user("x"))))
		if !errors.Is(err, context.DeadlineExceeded) || msg.Text() != "ab" || time.Since(start) != 90*time.Minute {
			t.Errorf("%q, %v, after %v", msg.Text(), err, time.Since(start))
		}
		if _, _, err := llm.Collect(m.Generate(ctx, request(user("x")))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that had ended: %v", err)
		}
		if n := len(m.Requests()); n != 1 {
			t.Errorf("%d requests on record: one with a context that has ended isn't sent", n)
		}
	})
	m := fakellm.New(fakellm.Says("abc").Chunks(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range m.Generate(ctx, request(user("x"))) {
		if n++; n == 1 {
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("event %d after the cancel: %v", n, err)
		}
	}
	if n != 2 {
		t.Errorf("%d events", n)
	}
}

func TestSleepIsInjectable(t *testing.T) {
	boom := errors.New("boom")
	var slept []time.Duration
	m := fakellm.New(fakellm.Says("abc").Chunks(1).Delay(time.Hour, time.Minute))
	m.Sleep = func(_ context.Context, d time.Duration) error {
		if slept = append(slept, d); len(slept) == 3 { // before the third of four events
			return boom
		}
		return nil
	}
	if got := said(m, request(user("x"))); got != "error: boom" {
		t.Error(got)
	}
	if want := []time.Duration{time.Hour, time.Minute, time.Minute}; !slices.Equal(slept, want) {
		t.Errorf("%v, want %v", slept, want)
	}
}

func TestHookSeesEachEventAndTheBreak(t *testing.T) {
	for _, c := range []struct {
		turn fakellm.Turn
		want []int
	}{
		{fakellm.Says("ab").Chunks(1), []int{0, 1, 2}}, // the third is the Finish
		{fakellm.Says("ab").Chunks(1).Cut(1), []int{0, 1}},
		{fakellm.Says("ab").Chunks(1).Cut(9), []int{0, 1, 2}},
		{fakellm.Fails(errors.New("boom")), []int{0}},
	} {
		var got []int
		m := fakellm.New(c.turn.Hook(func(_ context.Context, n int) error { got = append(got, n); return nil }))
		_ = said(m, request(user("x")))
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

func TestHookHoldsTheStream(t *testing.T) {
	reached, release := make(chan int), make(chan struct{})
	m := fakellm.New(fakellm.Says("abc").Chunks(1).Hook(func(ctx context.Context, n int) error {
		if n == 2 {
			reached <- n
			<-release
		}
		return nil
	}))
	done := make(chan string)
	go func() { done <- said(m, request(user("x"))) }()
	<-reached
	select {
	case got := <-done:
		t.Fatalf("finished before it was let go: %s", got)
	default:
	}
	close(release)
	if got := <-done; got != "abc" {
		t.Error(got)
	}

	boom := errors.New("boom")
	m = fakellm.New(fakellm.Says("abc").Chunks(1).Hook(func(_ context.Context, n int) error {
		if n == 1 {
			return boom
		}
		return nil
	}))
	if msg, _, err := llm.Collect(m.Generate(t.Context(), request(user("x")))); err != boom || msg.Text() != "a" {
		t.Errorf("%q, %v", msg.Text(), err)
	}
}

func TestLeavingTheStreamEndsIt(t *testing.T) {
	n := 0
	m := fakellm.New(fakellm.Says("abc").Chunks(1).Hook(func(context.Context, int) error { n++; return nil }))
	for range m.Generate(t.Context(), request(user("x"))) {
		break
	}
	if n != 1 {
		t.Errorf("%d events were prepared", n)
	}
}

func TestFailsHandsTheErrorOnAsItIs(t *testing.T) {
	limited := &llm.Error{Kind: llm.ErrRateLimited, RetryAfter: time.Second}
	var got []error
	m := fakellm.New(fakellm.Fails(limited))
	for _, err := range m.Generate(t.Context(), request(user("x"))) {
		got = append(got, err)
	}
	if len(got) != 1 || got[0] != error(limited) {
		t.Error(got)
	}
}
