package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/llm"
)

func TestMedia(t *testing.T) {
	x := []byte("x")
	for _, c := range []struct{ in, want llm.Media }{
		{llm.Media{MediaType: "IMAGE/JPG", Data: x}, llm.Media{MediaType: "image/jpeg", Data: x}},
		{llm.Media{MediaType: "text/plain; charset=utf-8", Data: x, URL: "https://example.com"}, llm.Media{MediaType: "text/plain", Data: x}},
		{llm.Media{MediaType: "image/png", URL: "https://example.com"}, llm.Media{MediaType: "image/png", URL: "https://example.com"}},
		{llm.Media{MediaType: "image/png", URL: "DATA:image/png;base64,eA%3D%3D"}, llm.Media{MediaType: "image/png", Data: x}},
		{llm.Media{MediaType: "text/plain", URL: "data:,a%20b"}, llm.Media{MediaType: "text/plain", Data: []byte("a b")}},
	} {
		got, err := Media(c.in)
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%v: %v %s", c.in, err, d)
		}
	}
	for _, c := range []struct {
		in   llm.Media
		want string
	}{
		{llm.Media{Name: "a.png", Data: x}, `"a.png" has the media type ""`},
		{llm.Media{MediaType: "image", Data: x}, `"image", which is none`},
		{llm.Media{MediaType: "image/png"}, "neither bytes nor a URL"},
		{llm.Media{MediaType: "image/png", URL: "data:image/png;base64"}, "no comma"},
		{llm.Media{MediaType: "image/png", URL: "data:image/png;base64,"}, "nothing behind it"},
		{llm.Media{MediaType: "image/png", URL: "data:image/png;base64,???"}, "can't be read"},
	} {
		if _, err := Media(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.in, err, c.want)
		}
	}
}
