package apicheck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// client sends requests, and holds each, and its answer, against the
// description.
type client struct {
	t      *testing.T
	server *httptest.Server
	router routers.Router
	routes []route
}

// route is an operation of the description.
type route struct {
	method, name string
	path         *regexp.Regexp
	statuses     map[string]bool // that are described, each with whether it was seen
}

// begin begins a server, and reads its description.
func begin(t *testing.T) *client {
	t.Helper()
	report := tool.Must(tool.Func(tool.Spec{Name: "report"},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.With(tool.Done("made"), tool.Action{Artifact: &tool.Artifact{
				Name: "a.txt", MediaType: "text/plain", Data: []byte("0123456789")}}), nil
		}))
	ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{report},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Tools: []string{"report"}})},
		Model: fakellm.New(fakellm.When(fakellm.UserSays("report"), fakellm.Calls("report", `{}`),
			fakellm.Says("Here it is.")), fakellm.When(nil, fakellm.Says("Hello.")))})
	must(t, err)
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	must(t, err)
	api, err := httpapi.New(rn, httpapi.Config{
		User: func(*http.Request) (runner.Actor, error) { return "ada", nil }})
	must(t, err)
	server := httptest.NewServer(api)
	ctx, stop := context.WithCancel(context.Background())
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		_ = rn.Work(ctx, nil)
	}()
	t.Cleanup(func() {
		_ = api.Close(ctx)
		server.Close()
		stop()
		<-worked
		rn.Close()
	})
	c := &client{t: t, server: server}
	c.read()
	return c
}

// read reads the description, and takes what an answer has beside it for wrong:
// the description that clients get leaves room for members that are added.
func (c *client) read() {
	c.t.Helper()
	res, err := c.server.Client().Get(c.server.URL + "/openapi.json")
	must(c.t, err)
	defer res.Body.Close()
	var document map[string]any
	must(c.t, json.NewDecoder(res.Body).Decode(&document))
	closed(document["components"])
	for path, methods := range document["paths"].(map[string]any) {
		at := regexp.MustCompile("^" + regexp.MustCompile(`\\\{\w+\\\}`).
			ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
		for method, one := range methods.(map[string]any) {
			r := route{strings.ToUpper(method), method + " " + path, at, map[string]bool{}}
			for status := range one.(map[string]any)["responses"].(map[string]any) {
				r.statuses[status] = false
			}
			c.routes = append(c.routes, r)
		}
	}
	text, err := json.Marshal(document)
	must(c.t, err)
	d, err := openapi3.NewLoader().LoadFromData(text)
	must(c.t, err)
	must(c.t, d.Validate(c.t.Context()))
	c.router, err = gorillamux.NewRouter(d)
	must(c.t, err)
}

// closed excludes members that a schema doesn't list.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, one := range v {
			closed(one)
		}
	case []any:
		for _, one := range v {
			closed(one)
		}
	}
}

// do sends a request, and checks it and its answer, whose body it reads.
func (c *client) do(
	method, path, media, body string, status int, header ...string,
) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+path,
		strings.NewReader(body))
	must(c.t, err)
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.server.Client().Do(r)
	must(c.t, err)
	text, err := io.ReadAll(res.Body)
	must(c.t, errors.Join(err, res.Body.Close()))
	if res.StatusCode != status {
		c.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	c.saw(r, res)
	r.Body = io.NopCloser(strings.NewReader(body))
	if err := c.fits(r, res, text); err != nil {
		c.t.Errorf("%s %s: %d: %v", method, path, status, err)
	}
	res.Body = io.NopCloser(bytes.NewReader(text))
	return res
}

// fits returns what of a request, or of its answer, is not as it is described.
func (c *client) fits(r *http.Request, res *http.Response, body []byte) error {
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return err
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true,
			// Files are described in words.
			ExcludeRequestBody: strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/")}}
	if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
		return err
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in,
		Status: res.StatusCode, Header: res.Header, Options: &openapi3filter.Options{
			IncludeResponseStatus: true, MultiError: true,
			ExcludeResponseBody: !strings.HasSuffix(res.Header.Get("Content-Type"), "json")}}
	return openapi3filter.ValidateResponse(r.Context(), out.SetBodyBytes(body))
}

// saw notes an answer that is described.
func (c *client) saw(r *http.Request, res *http.Response) {
	for _, one := range c.routes {
		if one.method != r.Method || !one.path.MatchString(r.URL.Path) {
			continue
		}
		if status := res.Status[:3]; res.StatusCode < 400 {
			if _, described := one.statuses[status]; !described {
				c.t.Errorf("%s: a %s is not described", one.name, status)
			}
			one.statuses[status] = true
		}
		return
	}
	c.t.Errorf("%s %s is not described", r.Method, r.URL.Path)
}

func (c *client) json(method, path, body string, status int, into any) {
	c.t.Helper()
	media := ""
	if body != "" {
		media = "application/json"
	}
	res := c.do(method, path, media, body, status)
	if into != nil {
		must(c.t, json.NewDecoder(res.Body).Decode(into))
	}
}

// stream reads a stream to its end.
func (c *client) stream(method, path, body string, status int) {
	c.t.Helper()
	media := ""
	if body != "" {
		media = "application/json"
	}
	res := c.do(method, path, media, body, status, "Accept", "text/event-stream")
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		c.t.Errorf("%s %s is %s", method, path, got)
	}
}

// upload returns a body with a file, and its type.
func upload(t *testing.T) (media, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	must(t, w.WriteField("text", "Look."))
	part, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {"image/png"},
		"Content-Disposition": {`form-data; name="file"; filename="a.png"`}})
	must(t, err)
	_, err = part.Write([]byte("x"))
	must(t, errors.Join(err, w.Close()))
	return w.FormDataContentType(), b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
