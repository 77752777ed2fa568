package llmtest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// Printed returns a value in all the ways in which it may come to a log.
func Printed(v any) map[string]string {
	all := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%s", "%#v", "%q", "%d"} {
		all[verb] = fmt.Sprintf(verb, v)
	}
	var text, json strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("printed", "value", v, "in",
		slog.GroupValue(slog.Any("value", v)))
	slog.New(slog.NewJSONHandler(&json, nil)).Info("printed", "value", v, "in",
		struct{ Value any }{v})
	all["slog's text"], all["slog's JSON"] = text.String(), json.String()
	return all
}

// secrets keeps the key where it belongs: out of what is printed, and away from
// where a service sends its callers on to. net/http would take along every
// header but those that it knows.
func secrets(t *testing.T, p Provider) {
	t.Run("printed", func(t *testing.T) {
		m := model(t, p, serve(t, atOnce, must(t, p, "text", false)), false)
		for verb, s := range Printed(m.Model) {
			if strings.Contains(s, APIKey) {
				t.Errorf("%s tells the key: %s", verb, clip(s))
			}
		}
	})
	for _, form := range forms {
		for _, status := range []int{http.StatusOK, http.StatusUnauthorized,
			http.StatusBadGateway} {
			for kind, body := range map[string]string{
				"text/html":         "<html>" + APIKey + "</html>",
				"application/json":  `{"type":"error","error":{"type":"` + APIKey + `","message":"` + APIKey + ` is unknown"}}`,
				"text/event-stream": "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"" + APIKey + " is unknown\"}}\n\n",
				"text/plain":        "data: " + APIKey + "\n\n",
			} {
				t.Run(fmt.Sprintf("quoted/%s/%d/%s", form.name, status, kind), func(t *testing.T) {
					srv := serve(t, atOnce, reply{status: status,
						header: http.Header{"Content-Type": {kind}}, body: []byte(body)})
					_, _, err := model(t, p, srv, form.whole).collect(t, scenarios[0].request())
					var e *llm.Error
					if !errors.As(err, &e) {
						t.Fatalf("%v, want an *llm.Error", err)
					}
					for verb, s := range Printed(err) {
						if strings.Contains(s, APIKey) {
							t.Errorf("%s tells the key: %s", verb, clip(s))
						}
					}
				})
			}
		}
	}
	t.Run("cut", func(t *testing.T) { cutSecrets(t, p) })
	for _, form := range forms {
		for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect} {
			t.Run(fmt.Sprintf("redirected/%s/%d", form.name, status), func(t *testing.T) {
				answer := reply{status: status,
					header: http.Header{"Location": {"http://localhost:1/elsewhere"}}}
				srv := serve(t, atOnce, answer)
				_, _, err := model(t, p, srv, form.whole).collect(t, scenarios[0].request())
				var e *llm.Error
				if !errors.As(err, &e) || e.Kind != llm.ErrInvalid ||
					!strings.Contains(err.Error(), "localhost:1") {
					t.Errorf("%v, want an error of kind %s that says where to", err, llm.ErrInvalid)
				}
				if n := len(srv.asked()); n != 1 {
					t.Errorf("%d requests were made", n)
				}
			})
		}
	}
}

// cutSecrets has a service quote the key where what is told of its answer ends,
// wherever that is.
func cutSecrets(t *testing.T, p Provider) {
	for _, form := range forms {
		service := &quoting{}
		m := adapter{p.New(t, Options{BaseURL: "http://memory.invalid", Whole: form.whole,
			Client: &http.Client{Transport: service}})}
		for before := 0; before < 400; before += 12 {
			quoted := strings.Repeat("x", before) + " " + APIKey
			for body, kind := range map[string]string{
				"<html>" + quoted + "</html>": "text/html",
				"{" + quoted:                  "application/json",
				`{"type":"` + quoted + `"}`:   "application/json",
				`{"type":"error","error":{"message":"` + quoted + `"}}`:                "application/json",
				"data: {" + quoted + "}\n\n":                                           "text/event-stream",
				`data: {"type":"` + quoted + "\"}\n\n":                                 "text/event-stream",
				"event: error\ndata: {\"error\":{\"message\":\"" + quoted + "\"}}\n\n": "text/event-stream",
			} {
				for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
					service.status, service.kind, service.body = status, kind, body
					_, _, err := m.collect(t, scenarios[0].request())
					if err == nil || strings.Contains(err.Error(), APIKey[:8]) {
						t.Fatalf("%s, status %d: %s: the error tells the key's beginning, or there is none: %v", form.name, status, body, err)
					}
				}
			}
		}
	}
}

// quoting is a service without a network, for many answers.
type quoting struct {
	status     int
	kind, body string
}

func (q *quoting) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: q.status, Header: http.Header{"Content-Type": {q.kind}},
		Body: io.NopCloser(strings.NewReader(q.body)), Request: r}, nil
}
