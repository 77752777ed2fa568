package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/llm"
)

// Calls may be alike and have no ids; the first one is signed, and stays the
// signed one.
func TestCallsThatAreAlikeStayApart(t *testing.T) {
	const signed, plain = `{"functionCall":{"name":"roll","args":{}},"thoughtSignature":"cm9sbA=="}`, `{"functionCall":{"name":"roll","args":{}}}`
	for _, parts := range [][]string{{signed, plain}, {plain, signed}, {plain, plain}, {signed, signed}} {
		s := serve(t, stream(says("", parts[0]), says("STOP", parts[1])))
		m, fin, err := s.ask(t, Options{Model: "gemini-2.5-flash"})
		if err != nil || fin.Reason != llm.StopToolCalls || len(m.ToolCalls()) != 2 {
			t.Fatalf("%v, %v, %v", m, fin, err)
		}
		for i, c := range m.ToolCalls() {
			if c.ProviderID != "" || (c.Native != nil) != (parts[i] == signed) {
				t.Errorf("call %d of %q is %+v", i, parts, c)
			}
		}
		if _, _, err := s.ask(t, Options{Model: "gemini-2.5-flash"}, m); err != nil {
			t.Fatal(err)
		}
		if want := `[{"role":"model","parts":[` + strings.Join(parts, ",") + `]}]`; s.contents(t) != want {
			t.Errorf("contents are\n%s\nwant\n%s", s.contents(t), want)
		}
	}
}

func TestPartsOfAllKinds(t *testing.T) {
	code := `{"executableCode":{"language":"PYTHON","code":"1+1"},"thoughtSignature":"Y29kZQ=="}`
	for _, c := range []struct {
		part string
		want llm.Part
	}{
		{`{"text":"a","thought":true}`, llm.Reasoning{Text: "a"}},
		{`{"text":"a","thought":false}`, llm.Text{Text: "a"}},
		{`{"text":"a","thought":true,"thoughtSignature":"YQ=="}`, llm.Reasoning{Text: "a", Native: native([]byte(`{"text":"a","thought":true,"thoughtSignature":"YQ=="}`))}},
		{`{"thought":true,"thoughtSignature":"YQ=="}`, llm.Reasoning{Native: native([]byte(`{"thought":true,"thoughtSignature":"YQ=="}`))}},
		{`{ "thoughtSignature" : "YQ==" }`, llm.Opaque{Native: *native([]byte(`{"thoughtSignature":"YQ=="}`))}},
		{code, llm.Opaque{Native: *native([]byte(code))}},
		{`{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}`, llm.Media{MediaType: "image/png", Data: []byte("\x89PNG")}},
		{`{"fileData":{"mimeType":"image/png","fileUri":"https://x/y"}}`, llm.Media{MediaType: "image/png", URL: "https://x/y"}},
		{`{"functionCall":{"name":"f"}}`, llm.ToolCall{Name: "f", Arguments: []byte(`{}`)}},
		{`{"functionCall":{"name":"f","args":null}}`, llm.ToolCall{Name: "f", Arguments: []byte(`{}`)}},
		{`{"functionCall":{"name":"f","id":"i","args":{ "n" : 1.0, "m": 1e3, "s": "\u003c&" }}}`, llm.ToolCall{Name: "f", ProviderID: "i", Arguments: []byte(`{"n":1.0,"m":1e3,"s":"\u003c&"}`)}},
		{`{"functionCall":{"id":"i"}}`, llm.ToolCall{ProviderID: "i", Arguments: []byte(`{}`)}},
		{`{"text":" \n","thoughtSignature":"YQ=="}`, llm.Opaque{Native: *native([]byte(`{"text":" \n","thoughtSignature":"YQ=="}`))}},
		{`{}`, nil},
		{`{"text":""}`, nil},
		{`{"text":null}`, nil}, // the API refuses to be sent a part of nothing
		{`{"functionCall":null,"thoughtSignature":null}`, nil},
	} {
		for _, whole := range []bool{false, true} {
			answer := stream(says("STOP", c.part))
			if whole {
				answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, says("STOP", c.part)) }
			}
			m, _, err := serve(t, answer).ask(t, Options{Whole: whole})
			if err != nil {
				t.Errorf("%s: %v", c.part, err)
				continue
			}
			var want []llm.Part
			if c.want != nil {
				want = []llm.Part{c.want}
			}
			if d := cmp.Diff(want, m.Parts); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.part, d)
			}
		}
	}
}

func TestFinishReasons(t *testing.T) {
	const roll = `{"functionCall":{"name":"roll","args":{}}}`
	for _, c := range []struct {
		reason, part string
		want         llm.StopReason
		kind         llm.ErrorKind
	}{
		{"STOP", `{"text":"a"}`, llm.StopEnd, ""},
		{"STOP", roll, llm.StopToolCalls, ""},
		{"MAX_TOKENS", `{"text":"a"}`, llm.StopLength, ""},
		{"MAX_TOKENS", roll, llm.StopLength, ""},
		{"SAFETY", roll, llm.StopRefusal, ""},
		{"RECITATION", "", llm.StopRefusal, ""},
		{"BLOCKLIST", "", llm.StopRefusal, ""},
		{"PROHIBITED_CONTENT", "", llm.StopRefusal, ""},
		{"SPII", "", llm.StopRefusal, ""},
		{"IMAGE_SAFETY", "", llm.StopRefusal, ""},
		{"MODEL_ARMOR", roll, llm.StopRefusal, ""},
		{"LANGUAGE", "", llm.StopOther, ""},
		{"OTHER", `{"text":"a"}`, llm.StopOther, ""},
		{"FUNCTION_CALL", roll, llm.StopToolCalls, ""},
		{"OTHER", roll, llm.StopOther, ""},
		{"TOO_MANY_TOOL_CALLS", roll, llm.StopOther, ""},
		{"SOMETHING_NEW", roll, llm.StopOther, ""},
		{"SOMETHING_NEW", "", llm.StopOther, ""},
		{"MALFORMED_FUNCTION_CALL", "", "", llm.ErrTruncated},
		{"UNEXPECTED_TOOL_CALL", roll, "", llm.ErrTruncated},
		{"MISSING_THOUGHT_SIGNATURE", "", "", llm.ErrInvalid},
		{"", `{"text":"a"}`, "", llm.ErrTruncated},
		{"FINISH_REASON_UNSPECIFIED", `{"text":"a"}`, "", llm.ErrTruncated},
	} {
		parts := []string{c.part}
		if c.part == "" {
			parts = nil
		}
		_, fin, err := serve(t, stream(says(c.reason, parts...))).ask(t, Options{})
		if err == nil && fin.Word != c.reason {
			t.Errorf("%s: the word is %q", c.reason, fin.Word)
		}
		if fin.Reason != c.want || kind(err) != c.kind || (err != nil) != (c.kind != "") {
			t.Errorf("%s with %s: %q, %v", c.reason, c.part, fin.Reason, err)
		}
	}
}

func TestABlockedPromptIsRefused(t *testing.T) {
	s := serve(t, stream(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}`))
	if _, _, err := s.ask(t, Options{}); kind(err) != llm.ErrRefused || !strings.Contains(err.Error(), "PROHIBITED_CONTENT") {
		t.Error(err)
	}
}

// What isn't as documented is an error, and no panic; the SDK's own reader
// panics on some of these.
func TestStreamsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		body string
		want llm.ErrorKind
	}{
		{"", llm.ErrTruncated},
		{"\r\n\r\n\r\n", llm.ErrTruncated},
		{": ping\n\nevent: x\nid: 1\nretry: 5\n\n", llm.ErrTruncated},
		// Cut off before its blank line.
		{"data: " + says("STOP", `{"text":"a"}`), llm.ErrTruncated},
		// And within the line's end.
		{"data: " + says("STOP", `{"text":"a"}`) + "\r", llm.ErrTruncated},
		{"data: " + says("STOP", `{"text":"a"}`) + "\r\n", llm.ErrTruncated},
		{"data: " + says("STOP", `{"text":"a"}`) + "\n", llm.ErrTruncated},
		{"data: {}\n\n", llm.ErrTruncated},
		{"data: null\n\n", llm.ErrTruncated},
		{"data: {\"candidates\":null}\n\n", llm.ErrTruncated},
		{"data\n\n", llm.ErrMalformed},
		{"data: {\n\n", llm.ErrMalformed},
		{"data: [DONE]\n\n", llm.ErrMalformed},
		{"data: []\n\n", llm.ErrMalformed},
		{"data: {\"candidates\":{}}\n\n", llm.ErrMalformed},
		{"data: {\"candidates\":[null]}\n\n", llm.ErrMalformed},
		{"data: {\"candidates\":[{},{}]}\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", "null") + "\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", "[]") + "\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", `{"text":1}`) + "\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", `{"inlineData":{"data":"***"}}`) + "\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", `{"inlineData":{}}`) + "\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", `{"functionCall":{}}`) + "\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", `{"functionCall":{"name":"f","willContinue":true}}`) + "\n\n", llm.ErrMalformed},
		{"data: " + says("STOP", `{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"$.a"}]}}`) + "\n\n", llm.ErrMalformed},
		{"<!DOCTYPE html>\n<p>Log in to this network", llm.ErrOverloaded},
		{"<!DOCTYPE html><p>Log in to this network", llm.ErrOverloaded},
		{"hello\n", llm.ErrOverloaded},
		{"{\"candidates\":[", llm.ErrTruncated},
		{"[" + says("", `{"text":"a"}`) + ",\n", llm.ErrTruncated},
		{"[" + says("", `{"text":"a"}`) + "]", llm.ErrTruncated},
		{"[1]", llm.ErrMalformed},
		{"[]", llm.ErrTruncated},
		{"{},{}", llm.ErrOverloaded},
		{`{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`, llm.ErrOverloaded},
		{"[{\n\"error\":{\"code\":429,\"message\":\"slow\",\"status\":\"RESOURCE_EXHAUSTED\"}}]", llm.ErrRateLimited},
		{"data: " + says("", `{"text":"a"}`) + "\n\n{\"error\":{\"code\":500,\n\"message\":\"broken\",\"status\":\"INTERNAL\"}}", llm.ErrOverloaded},
		{"data: {\"error\":{\"status\":\"INVALID_ARGUMENT\",\"message\":\"wrong\"}}\n\n", llm.ErrInvalid},
		{"data: {\"error\":{\"message\":\"wrong\"}}\n\n", llm.ErrOverloaded},
		{"data: {\"error\":{}}\n\n", llm.ErrOverloaded},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.body) })
		_, fin, err := s.ask(t, Options{})
		if kind(err) != c.want {
			t.Errorf("%q: %v, %v; want %s", c.body, fin, err, c.want)
		}
		if len(s.asked) != 1 { // the SDK may ask again for the rest of a reply
			t.Errorf("%q: %d requests", c.body, len(s.asked))
		}
	}
}

func TestStreamsThatAreOdd(t *testing.T) {
	for _, body := range []string{
		"data:" + says("STOP", `{"text":"a"}`) + "\n\n",
		"data: " + says("STOP", `{"text":"a"}`) + "\r\r",
		"\uFEFFdata: " + says("STOP", `{"text":"a"}`) + "\n\n",
		says("STOP", `{"text":"a"}`),
		"\n" + strings.ReplaceAll(says("STOP", `{"text":"a"}`), ",", ",\r\n"),
		"[" + says("", `{"text":"a"}`) + ",\r\n" + says("STOP") + "]",
		": hello\n\nevent: message\ndata: " + says("STOP", `{"text":"a"}`) + "\nid: 1\n\n",
		"data: {\"candidates\":[{\"finishReason\":\"STOP\",\ndata: \"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n",
		// The reason comes first.
		"data: " + says("STOP") + "\n\ndata: " + says("", `{"text":"a"}`) + "\n\n",
		"data: " + says("STOP", `{"text":"a"}`) + "\n\ndata: {\"usageMetadata\":{}}\n\n: bye",
	} {
		m, fin, err := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }).ask(t, Options{})
		if err != nil || m.Text() != "a" || fin.Reason != llm.StopEnd {
			t.Errorf("%q: %v, %v, %v", body, m, fin, err)
		}
	}
}

// A stream that is left, or whose context ends, closes its connection.
func TestLeavingAStream(t *testing.T) {
	gone := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream(says("", `{"text":"a"}`))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})
	req := llm.Request{Messages: []llm.Message{llm.UserText("Hello.")}}
	for range s.model(t, Options{}).Generate(t.Context(), req) {
		break
	}
	<-gone
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range s.model(t, Options{}).Generate(ctx, req) {
		if cancel(); err != nil && err != context.Canceled {
			t.Error(err)
		}
	}
	<-gone
	for _, o := range []Options{{Timeout: 20 * time.Millisecond}, {Client: &http.Client{Timeout: 20 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}}} {
		_, _, err := s.ask(t, o)
		if kind(err) != llm.ErrNetwork || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "HTTP client") != (o.Client != nil) {
			t.Error(err)
		}
		<-gone
	}
}

// One model serves many sessions at once: what one is sent never reaches
// another.
func TestManyAtOnce(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		said, _ := io.ReadAll(r.Body)
		text, _ := json.Marshal(map[string]string{"text": string(said)})
		for _, e := range []string{says("", `{"text":"<"}`), says("", string(text)), says("STOP", `{"text":">"}`)} {
			stream(e)(w, r)
			_ = http.NewResponseController(w).Flush()
		}
	})
	m := s.model(t, Options{})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			word := fmt.Sprintf("word-%d-", i)
			got, _, err := llm.Collect(m.Generate(t.Context(), llm.Request{Messages: []llm.Message{llm.UserText(word)}}))
			if text := got.Text(); err != nil || !strings.Contains(text, word) || !strings.HasPrefix(text, "<{") || !strings.HasSuffix(text, "}\n>") {
				t.Errorf("%s: %q, %v", word, text, err)
			}
		})
	}
	all.Wait()
}

// A call that came twice, by its id, runs once; calls that are merely alike are
// two.
func TestACallThatIsDeliveredTwice(t *testing.T) {
	const first, second = `{"functionCall":{"id":"a","name":"f","args":{"x":1}}}`, `{"functionCall":{"id":"b","name":"f","args":{"x":1}}}`
	const other, bare = `{"functionCall":{"id":"a","name":"f","args":{"x":2}}}`, `{"functionCall":{"name":"f","args":{"x":1}}}`
	for _, c := range []struct {
		parts []string
		want  int
	}{
		{[]string{first, first}, 1}, {[]string{first, second}, 2}, {[]string{first, second, first}, 2}, {[]string{first, other}, 2}, {[]string{bare, bare}, 2},
	} {
		var events []string
		for _, p := range c.parts {
			events = append(events, says("", p))
		}
		m, _, err := serve(t, stream(append(events, says("STOP", `{"text":""}`))...)).ask(t, Options{})
		if err != nil || len(m.ToolCalls()) != c.want {
			t.Errorf("%s: %d calls, want %d: %v", c.parts, len(m.ToolCalls()), c.want, err)
		}
	}
}

// Counts that make no sense lose no message.
func TestOddUsage(t *testing.T) {
	for odd, want := range map[string]llm.Usage{
		`null`: {}, `"many"`: {}, `[]`: {}, `{"promptTokenCount":"7"}`: {}, `{"promptTokenCount":7.5}`: {}, `{"promptTokenCount":-7,"candidatesTokenCount":2}`: {Output: 2},
	} {
		m, fin, err := serve(t, stream(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":`+odd+`}`)).ask(t, Options{})
		if err != nil || m.Text() != "a" || fin.Usage != want {
			t.Errorf("%s: %q, %+v, %v", odd, m.Text(), fin.Usage, err)
		}
	}
}
