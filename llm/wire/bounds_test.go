package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

var blank = bytes.Repeat([]byte(" "), 64<<10)

// spaces are white space without end.
type spaces struct{ read int }

func (s *spaces) Read(p []byte) (int, error) {
	n := copy(p, blank)
	s.read += n
	return n, nil
}

func TestReadWholeIsBounded(t *testing.T) {
	exactly := io.LimitReader(new(spaces), MaxWhole)
	if data, err := ReadWhole("acme", exactly); err != nil || len(data) != MaxWhole {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	s := new(spaces)
	_, err := ReadWhole("acme", s)
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.ErrTooLong || e.Provider != "acme" || e.Retryable() || s.read > MaxWhole+1 {
		t.Errorf("after %d bytes: %v", s.read, err)
	}
	if _, err := ReadWhole("acme", io.MultiReader(bytes.NewReader([]byte("{")), failing{})); err != io.ErrClosedPipe {
		t.Error(err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// endless answers with a status, and a body that has no end.
type endless struct {
	status int
	body   *spaces
}

func (e endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: e.status, Body: io.NopCloser(e.body)}, nil
}

func TestErrorsAreReadToABound(t *testing.T) {
	for _, marked := range []bool{false, true} {
		ctx := t.Context()
		if marked {
			ctx = Stream(ctx, "acme", 0)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://acme.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := Client(&http.Client{Transport: endless{http.StatusBadGateway, new(spaces)}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(res.Body); err != nil || len(data) != maxError {
			t.Errorf("marked %v: %d bytes, %v", marked, len(data), err)
		}
		res.Body.Close()
	}
}
