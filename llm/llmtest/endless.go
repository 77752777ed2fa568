package llmtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// endless has a service answer without end: with a message at once, in place of
// a stream too, and with an error. The adapter reads no further than its bound.
// A short test has some of these answers for each form, and each for one.
func endless(t *testing.T, p Provider) {
	for i, form := range forms {
		cases := []struct {
			status int
			begins string
			kind   llm.ErrorKind
			most   int // bytes that are read, about
		}{
			{http.StatusOK, `{"type":"`, llm.ErrTooLong, wire.MaxWhole},
			{http.StatusOK, "{\n", llm.ErrTooLong, wire.MaxWhole},
			{http.StatusBadGateway, `{"error":{"message":"`, llm.ErrOverloaded, 1 << 20},
		}
		for j := range testlength.EachNth(2, len(cases)) {
			c := cases[(i+j)%len(cases)]
			t.Run(fmt.Sprintf("%s/%d/%q", form.name, c.status, c.begins), func(t *testing.T) {
				s := &ceaseless{status: c.status, begins: c.begins}
				m := adapter{p.New(t, Options{BaseURL: "http://memory.invalid", Whole: form.whole,
					Client: &http.Client{Transport: s}})}
				_, _, err := m.collect(t, scenarios[0].request())
				var e *llm.Error
				if !errors.As(err, &e) || e.Kind != c.kind || e.Provider != p.Name ||
					len(err.Error()) > 1000 {
					t.Errorf("%.1000v, want an error of kind %s", err, c.kind)
				}
				if s.read > c.most+1<<20 {
					t.Errorf("%d bytes were read", s.read)
				}
			})
		}
	}
}

var more = bytes.Repeat([]byte("x"), 64<<10)

// ceaseless is a service whose answers have no end.
type ceaseless struct {
	status int
	begins string
	read   int
}

func (c *ceaseless) RoundTrip(*http.Request) (*http.Response, error) {
	body := io.NopCloser(io.MultiReader(strings.NewReader(c.begins), c))
	return &http.Response{StatusCode: c.status,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}

func (c *ceaseless) Read(p []byte) (int, error) {
	n := copy(p, more)
	c.read += n
	return n, nil
}
