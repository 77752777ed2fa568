package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// answer is the body of every response.
type answer struct {
	Status    string         `json:"status"` // accepted or refused
	Duplicate bool           `json:"duplicate,omitempty"`
	Call      string         `json:"call,omitempty"`
	Pause     string         `json:"pause,omitempty"`
	Event     string         `json:"event,omitempty"` // of an event: its name
	ID        string         `json:"id,omitempty"`    // and its id
	At        time.Time      `json:"at,omitzero"`     // when it was accepted first
	Fate      session.Fate   `json:"fate,omitempty"`  // what became of it, if not what it asked for
	Error     string         `json:"error,omitempty"` // a word to branch on
	Detail    string         `json:"detail,omitempty"`
	Faults    []misfit.Fault `json:"faults,omitempty"` // what does not fit, place by place
}

const (
	statusAccepted = "accepted"
	statusRefused  = "refused"
)

// retryAfter is when a sender should try again, in seconds. By then a commit is
// likely to be over, or a store to be back.
const retryAfter = "2"

// refuse answers that a delivery is refused, and why. An error on this side
// goes to the log; the sender learns no more of it than whether to try again.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, d *delivery, err error) {
	status, code := classify(err)
	a := answer{Status: statusRefused, Error: code, Detail: Detail(err)}
	if d.token.Call != "" {
		a.Call, a.Pause = d.token.Call, d.pause()
	}
	switch {
	case status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer") // RFC 9110, section 15.5.2
	case errors.Is(err, session.ErrNotYetKnown):
		// It passes, and any sender can bring it about: it is not logged.
	case status >= 500:
		h.config.Logger.ErrorContext(r.Context(), "a webhook delivery was not taken",
			"session", d.token.Session, "call", d.token.Call, "operation", d.op.permit,
			"status", status, "error", err)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	var invalid *misfit.Error
	if errors.As(err, &invalid) {
		a.Faults = invalid.Faults
	}
	reply(w, status, &a)
}

// Detail returns an error of Runner.Resume, Progress, Cancel, Find or Run in
// words for an outside system. It is for handlers written by hand. It names no
// people, and nothing of what went wrong inside.
func Detail(err error) string {
	if err == nil {
		return ""
	}
	status, _ := classify(err)
	var about interface{ Impersonal() string }
	switch e := asRequestError(err); {
	case e != nil:
		return e.detail
	case errors.Is(err, runner.ErrBadToken):
		return "the token is not valid" // and no hint at why
	case errors.Is(err, runner.ErrNotAllowed):
		return "it is not allowed" // the authorizer's reason is for its operator
	case status >= 500:
		return "it could not be taken now"
	case errors.As(err, &about):
		return about.Impersonal()
	}
	return err.Error()
}

func reply(w http.ResponseWriter, status int, a *answer) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(a) // a sender that has gone away will ask again
}
