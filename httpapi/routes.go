package httpapi

import (
	"net/http"
	"path"
	"slices"
	"sync"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// route is one operation: what a request has to be, what serves it, and what
// /openapi.json tells of it. The table of routes is all that is known of them.
type route struct {
	method, path string // the path stands below Config.Path
	id           string // of the operation
	summary      string
	// Open: it needs no user, and none is asked for.
	open  bool
	serve func(*visit) error

	query   []parameter
	body    *form   // nil: a body is not read
	files   *form   // of multipart/form-data in place of the body; the fields beside the files
	status  int     // where all is well
	answer  *shape  // nil: there is no body
	streams bool    // with Accept: text/event-stream, or always if there is no answer
	also    []other // further answers
}

// parameter is one of a request's query.
type parameter struct {
	name, schema, about string
}

// other is an answer that is no JSON.
type other struct {
	status int
	media  string
	about  string
}

// table lists the routes. It is made once: to look at the Go types takes a
// while.
var table = sync.OnceValues(func() ([]route, error) {
	var f forms
	routes := []route{
		{method: "POST", path: "sessions", id: "beginSession", serve: (*visit).begin,
			summary: "Begins a session with a message.", streams: true,
			body: formOf[newSession](&f), files: formOf[newSession](&f),
			status: http.StatusCreated, answer: shapeOf[begun](&f)},
		{method: "GET", path: "sessions", id: "listSessions", serve: (*visit).list,
			summary: "Lists the user's sessions by id, a page of them.",
			query: []parameter{
				{"agent", textSchema, "Those of this agent."},
				{"after", textSchema, "Those behind this id: the next of the page before."},
				limitParameter,
			},
			status: http.StatusOK, answer: shapeOf[sessions](&f)},
		{method: "GET", path: "sessions/{session}", id: "showSession", serve: (*visit).show,
			summary: "Shows a session with its messages.",
			status:  http.StatusOK, answer: shapeOf[runner.Transcript](&f)},
		{method: "DELETE", path: "sessions/{session}", id: "deleteSession", serve: (*visit).delete,
			summary: "Deletes a session.", status: http.StatusNoContent},
		{method: "POST", path: "sessions/{session}/messages", id: "sendMessage",
			serve:   (*visit).send,
			summary: "Sends a message. It is stored, and waits if the session is busy.",
			streams: true, body: formOf[newMessage](&f), files: formOf[newMessage](&f),
			status: http.StatusAccepted, answer: shapeOf[runner.Sent](&f)},
		{method: "GET", path: "sessions/{session}/messages/{message}", id: "showMessage",
			serve: (*visit).sent, summary: "Tells how a message stands that was sent.",
			status: http.StatusOK, answer: shapeOf[runner.Sent](&f)},
		{method: "POST", path: "sessions/{session}/continue", id: "continueSession",
			serve:   (*visit).carryOn,
			summary: "Carries a session on, in place of a worker.", streams: true,
			status: http.StatusAccepted, answer: shapeOf[runner.Session](&f)},
		{method: "POST", path: "sessions/{session}/cancel", id: "cancelSession",
			serve: (*visit).cancel, summary: "Cancels all that a session does.",
			body: formOf[reason](&f), status: http.StatusOK, answer: shapeOf[runner.Session](&f)},
		{method: "GET", path: "sessions/{session}/events", id: "followSession",
			serve: (*visit).follow, summary: "Streams what happens in a session, as server-sent " +
				"events. Each has the JSON of an event for its data.", streams: true,
			query: []parameter{
				{"from", numberSchema, "The number of the first message to show; default 0."},
				{"after", textSchema, "In place of the header Last-Event-ID."},
				{"stay", flagSchema, "Whether to stay when a run has ended; default true."},
			},
			status: http.StatusOK},
		{method: "GET", path: "sessions/{session}/calls/{call}", id: "showCall",
			serve: (*visit).call, summary: "Shows a call.",
			status: http.StatusOK, answer: shapeOf[runner.CallDetails](&f)},
		{method: "POST", path: "sessions/{session}/calls/{call}/cancel", id: "cancelCall",
			serve: (*visit).cancelCall, summary: "Cancels a call, or ends its pause.",
			body: formOf[reason](&f), status: http.StatusOK, answer: shapeOf[accepted](&f)},
		{method: "GET", path: "sessions/{session}/calls/{call}/artifacts/{artifact}",
			id: "getArtifact", serve: (*visit).artifact, summary: "A file that a call made.",
			status: http.StatusOK, also: []other{
				{http.StatusOK, "*/*", "The file, as an attachment."},
				{http.StatusPartialContent, "*/*", "The range that was asked for."},
				{http.StatusNotModified, "", "It is the one that the client has."},
			}},
		{method: "GET", path: "pauses", id: "listPauses", serve: (*visit).pauses,
			summary: "Lists what waits for people in the user's sessions, the oldest first.",
			query:   pauseQuery, status: http.StatusOK, answer: shapeOf[pauses](&f)},
		{method: "GET", path: "sessions/{session}/pauses", id: "listSessionPauses",
			serve:   (*visit).pauses,
			summary: "Lists what waits in a session, and for people below it.",
			query:   pauseQuery, status: http.StatusOK, answer: shapeOf[pauses](&f)},
		{method: "GET", path: "sessions/{session}/pauses/{pause}", id: "showPause",
			serve: (*visit).pause, summary: "Shows a pause. One that is over has no await.",
			status: http.StatusOK, answer: shapeOf[tool.Pause](&f)},
		{method: "POST", path: "sessions/{session}/pauses/{pause}/answer", id: "answerPause",
			serve:   (*visit).resume,
			summary: "Answers a pause. The same answer again is a duplicate.", streams: true,
			body: formOf[reply](&f), status: http.StatusOK, answer: shapeOf[accepted](&f)},
		aguiRoute(),
		{method: "GET", path: "health", id: "health", open: true, serve: (*visit).health,
			summary: "Tells that the process runs.",
			status:  http.StatusOK, answer: shapeOf[health](&f)},
		{method: "GET", path: "ready", id: "ready", open: true, serve: (*visit).ready,
			summary: "Tells whether the handler takes new runs.",
			status:  http.StatusOK, answer: shapeOf[health](&f)},
		{method: "GET", path: "openapi.json", id: "openAPI", open: true,
			serve: (*visit).document, summary: "This description.",
			status: http.StatusOK, answer: &shape{schema: []byte(`{"type":"object"}`)}},
	}
	return routes, f.err
})

// The schemas of parameters.
const (
	textSchema   = `{"type":"string"}`
	numberSchema = `{"type":"integer","minimum":0}`
	flagSchema   = `{"type":"boolean"}`
)

var (
	limitParameter = parameter{"limit", `{"type":"integer","minimum":1,"maximum":200}`,
		"How many at most; default 50."}
	pauseQuery = []parameter{
		{"tool", textSchema, "Those of calls of this tool."},
		{"reason", textSchema, "Those of this reason."},
		limitParameter,
	}
)

// resource is what stands at one path: its routes, by method.
type resource struct {
	h       *Handler
	methods map[string]*route
}

// mount lays the routes out in a mux, which finds them by path alone.
func (h *Handler) mount() {
	h.mux = http.NewServeMux()
	at := map[string]*resource{}
	for i := range h.routes {
		r := &h.routes[i]
		if at[r.path] == nil {
			at[r.path] = &resource{h, map[string]*route{}}
			h.mux.Handle(h.config.Path+r.path, at[r.path])
		}
		at[r.path].methods[r.method] = r
	}
	h.mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webhook.WriteError(w, refuse("no_such_path", "there is nothing at this path; "+
			h.config.Path+"openapi.json lists what there is"))
	}))
}

// allows lists the methods of a resource.
func (s *resource) allows() []string {
	out := []string{http.MethodOptions}
	for method, r := range s.methods {
		if out = append(out, method); method == http.MethodGet && !r.streams {
			out = append(out, http.MethodHead)
		}
	}
	slices.Sort(out)
	return out
}

// route returns the one of a method; nil: it isn't taken.
func (s *resource) route(method string) *route {
	if method == http.MethodHead {
		if r := s.methods[http.MethodGet]; r != nil && !r.streams {
			return r
		}
	}
	return s.methods[method]
}

// plain reports whether a path, as it came, is one that the mux takes as it is.
// The mux would redirect another one.
func plain(escaped string) bool {
	if escaped == "" || escaped[0] != '/' {
		return false
	}
	clean := path.Clean(escaped)
	return escaped == clean || clean != "/" && escaped == clean+"/"
}
