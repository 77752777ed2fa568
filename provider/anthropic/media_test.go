package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/llm"
)

// Media goes the same way into a message of the user's and into a result.
func TestMedia(t *testing.T) {
	base64 := func(kind, media string) string {
		return `{"source":{"data":"eA==","media_type":"` + media + `","type":"base64"},"type":"` + kind + `"}`
	}
	text := func(s string) string {
		return `{"source":{"data":"` + s + `","media_type":"text/plain","type":"text"},"type":"document"}`
	}
	x := []byte("x")
	for _, c := range []struct {
		name  string
		media llm.Media
		want  string
	}{
		{"jpeg", llm.Media{MediaType: "image/jpeg", Data: x}, base64("image", "image/jpeg")},
		{"jpg", llm.Media{MediaType: "IMAGE/JPG", Data: x}, base64("image", "image/jpeg")},
		{"webp", llm.Media{MediaType: "image/webp", Data: x}, base64("image", "image/webp")},
		{"bytes before a URL", llm.Media{MediaType: "image/gif", Data: x, URL: "https://example.com/a.gif"}, base64("image", "image/gif")},
		{"image by URL", llm.Media{MediaType: "image/png", URL: "https://example.com/a.png?b=1&c=2"}, `{"source":{"url":"https://example.com/a.png?b=1&c=2","type":"url"},"type":"image"}`},
		{"image in its URL", llm.Media{MediaType: "image/png", URL: "data:image/png;base64,eA=="}, base64("image", "image/png")},
		{"pdf", llm.Media{MediaType: "application/pdf", Data: x}, base64("document", "application/pdf")},
		{"pdf by URL", llm.Media{MediaType: "application/pdf", Name: "a.pdf", URL: "https://example.com/a.pdf"}, `{"source":{"url":"https://example.com/a.pdf","type":"url"},"title":"a.pdf","type":"document"}`},
		{"text", llm.Media{MediaType: "text/plain; charset=utf-8", Data: []byte("é")}, text("é")},
		{"csv", llm.Media{MediaType: "text/csv", Data: []byte("a;b")}, text("a;b")},
		{"json", llm.Media{MediaType: "application/ld+json", Data: []byte("{}")}, text("{}")},
		{"its own", llm.Media{MediaType: "image/png", Data: x, Native: native(`{"type":"image","source":{"type":"file","file_id":"file_1"}}`)}, `{"type":"image","source":{"type":"file","file_id":"file_1"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := llm.Request{Messages: []llm.Message{user(llm.Text{Text: "a"}, c.media),
				assistant(llm.ToolCall{ID: "c", Name: "look"}), results(llm.ToolResult{Call: "c", Output: json.RawMessage(`"seen"`), Media: []llm.Media{c.media}})}}
			want := `[{"content":[{"text":"a","type":"text"},` + c.want + `],"role":"user"},{"content":[{"id":"c","input":{},"name":"look","type":"tool_use"}],"role":"assistant"},` +
				`{"content":[{"tool_use_id":"c","content":[{"text":"seen","type":"text"},` + c.want + `],"type":"tool_result"}],"role":"user"}]`
			if d := cmp.Diff(want, put(t, Options{}, req, "messages")); d != "" {
				t.Errorf("the messages differ (-want +got):\n%s", d)
			}
		})
	}
}

func TestBadMedia(t *testing.T) {
	x := []byte("x")
	for _, c := range []struct {
		name  string
		media llm.Media
		words []string
	}{
		{"nothing", llm.Media{MediaType: "image/png"}, []string{"neither bytes nor a URL"}},
		{"no type", llm.Media{Data: x}, []string{"media type"}},
		{"a sound", llm.Media{MediaType: "audio/wav", Data: x}, []string{"audio/wav", "PDF"}},
		{"a drawing", llm.Media{MediaType: "image/svg+xml", Data: x}, []string{"image/svg+xml"}},
		{"text by URL", llm.Media{MediaType: "text/plain", URL: "https://example.com/a.txt"}, []string{"text/plain", "send the text"}},
		{"text that is none", llm.Media{MediaType: "text/plain", Data: []byte("\xff")}, []string{"UTF-8"}},
		{"blank text", llm.Media{MediaType: "text/plain", Data: []byte(" ")}, []string{"nothing in it"}},
		{"a file's URL", llm.Media{MediaType: "image/png", URL: "file:///etc/passwd"}, []string{`"file"`, "send the bytes"}},
		{"no URL", llm.Media{MediaType: "image/png", URL: "https://[::1"}, []string{"URL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, Options{}, llm.Request{Messages: []llm.Message{user(llm.Text{Text: "a"}, c.media)}}, append(c.words, "messages[0] parts[1]")...)
			// In a result it is for ever: it is told, and the session goes on.
			s := &service{body: events(begin, endTurn, stop)}
			collect(t, s.model(t, Options{}), llm.Request{Messages: []llm.Message{llm.UserText("a"), assistant(llm.ToolCall{ID: "c", Name: "look"}),
				results(llm.ToolResult{Call: "c", Media: []llm.Media{c.media}})}})
			if !strings.Contains(s.bodies[0], "can't be shown here") {
				t.Errorf("the request: %s", s.bodies[0])
			}
		})
	}
}
