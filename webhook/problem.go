package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// ProblemBase is what the type of every problem begins with; what follows is
// the problem's code. The whole is the address of the page that describes it.
const ProblemBase = "https://github.com/fermata-ai/fermata/blob/main/docs/problems.md#"

// Problem is the body of a refusal: a problem detail of RFC 9457, whose media
// type is application/problem+json. Type is what a program branches on, and
// keeps its meaning. Title is the same for all problems of a type; Detail is
// about this one. Members may be added.
//
// A Problem that was decoded is an error, like the one that it was made of:
// errors.Is holds for its sentinel, such as session.ErrBusy, and errors.As
// finds its facts, as far as they are told, such as a *session.BusyError. So a
// client handles refusals as it would within the process.
type Problem struct {
	Type   string         `json:"type"` // ProblemBase and a code
	Title  string         `json:"title"`
	Status int            `json:"status"` // of HTTP
	Detail string         `json:"detail,omitempty"`
	Call   string         `json:"call,omitempty"`
	Pause  string         `json:"pause,omitempty"`
	Faults []misfit.Fault `json:"faults,omitempty"` // what does not fit, place by place
	Facts
}

// ProblemOf returns an error as an outside system is told of it. It names no
// people, and nothing of what went wrong inside. The problem of nil is the zero
// Problem, and that of a Problem is itself.
func ProblemOf(err error) Problem {
	if err == nil {
		return Problem{}
	}
	if p, ok := errors.AsType[Problem](err); ok {
		return p
	}
	k := classify(err)
	p := Problem{Type: ProblemBase + k.code, Title: k.title, Status: k.status, Detail: Detail(err)}
	if invalid, ok := errors.AsType[*misfit.Error](err); ok {
		p.Faults = invalid.Faults
	}
	for _, f := range facts {
		if slices.Contains(f.of, k.code) && f.put(err, &p) {
			break
		}
	}
	return p
}

// Error returns the detail or, where there is none, the title.
func (p Problem) Error() string { return cmp.Or(p.Detail, p.Title, "webhook: a problem without words") }

// Unwrap returns the errors that the problem may have been made of: one with
// facts, which is the sentinel's; else the sentinels of its type. It is empty
// for a type that this version doesn't know.
func (p Problem) Unwrap() (all []error) {
	code := p.code()
	for _, f := range facts {
		if slices.Contains(f.of, code) {
			if err, ok := f.get(&p); ok {
				return []error{err}
			}
		}
	}
	for _, c := range classes {
		if c.code == code {
			all = append(all, c.err)
		}
	}
	return all
}

// code returns the end of the problem's type; empty where that isn't ours.
func (p Problem) code() string {
	code, ours := strings.CutPrefix(p.Type, ProblemBase)
	if !ours {
		return ""
	}
	return code
}

// WriteError answers a request with what became of it, in handlers written by
// hand: an error of Runner.Resume, Deliver, Progress, Cancel, Find or Run as a
// [Problem] with its [Status], and nil as a 200 without a body. It sets
// Retry-After with 503 and 429, and WWW-Authenticate with 401.
//
// Where a request has come so far without being authorized, give it an error
// that doesn't tell what exists: [ErrUnverified], say.
func WriteError(w http.ResponseWriter, err error) {
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	p := ProblemOf(err)
	writeProblem(w, err, p.Status, &p)
}

// writeProblem writes a body that holds a problem, with the headers that go
// with the error.
func writeProblem(w http.ResponseWriter, err error, status int, body any) {
	h := w.Header()
	switch status {
	case http.StatusUnauthorized: // RFC 9110, section 15.5.2
		h.Set("WWW-Authenticate", scheme(err))
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", retryAfter(err))
	}
	h.Set("Content-Type", "application/problem+json")
	write(w, status, body)
}

// scheme returns what a request without authorization lacks.
func scheme(err error) string {
	if errors.Is(err, ErrUnverified) {
		return "Signature"
	}
	return "Bearer"
}

// tryAgain is when a sender should try again. By then a commit is likely to be
// over, or a store to be back.
const tryAgain = 2 * time.Second

// retryAfter returns, in whole seconds, when a sender should try again.
func retryAfter(err error) string {
	wait := tryAgain
	var over *httpin.Limited
	if errors.As(err, &over) {
		wait = over.Wait
	}
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // a sender that has gone away will ask again
}

// Detail returns an error of Runner.Resume, Progress, Cancel, Find or Run in
// words for an outside system. It is for handlers written by hand. It names no
// people, and nothing of what went wrong inside, and has 4 KiB at most: an error
// may quote what a request brought.
func Detail(err error) string { return httpin.Cut(detail(err), 4<<10) }

func detail(err error) string {
	if err == nil {
		return ""
	}
	if p, ok := errors.AsType[Problem](err); ok {
		return p.Detail
	}
	var about interface{ Impersonal() string }
	switch e := httpin.AsRefusal(err); {
	case e != nil:
		return e.Detail
	case errors.Is(err, runner.ErrBadToken):
		return "the token is not valid" // and no hint at why
	case errors.Is(err, ErrUnverified):
		return "the request is not signed by a sender that is known here" // nor here
	case errors.Is(err, session.ErrOtherSender):
		return "what the call waits for is taken from one sender alone, who signs it"
	case errors.Is(err, runner.ErrNotAllowed):
		return "it is not allowed" // the authorizer's reason is for its operator
	case classify(err).status >= 500:
		return "it could not be taken now"
	case errors.As(err, &about):
		return about.Impersonal()
	}
	return err.Error()
}
