package webhook

import (
	"errors"
	"net/http"
	"time"

	"github.com/fermata-ai/fermata/session"
)

// answer is the body of a response to a delivery that is accepted.
type answer struct {
	Status    string       `json:"status"` // accepted
	Duplicate bool         `json:"duplicate,omitempty"`
	Call      string       `json:"call,omitempty"`
	Pause     string       `json:"pause,omitempty"`
	Event     string       `json:"event,omitempty"` // of an event: its name
	ID        string       `json:"id,omitempty"`    // and its id
	At        time.Time    `json:"at,omitzero"`     // when it was accepted first
	Fate      session.Fate `json:"fate,omitempty"`  // what became of it, if not what it asked for

	// Of a heartbeat: the call was cancelled, or is to be; and until when the
	// next one must come.
	Cancelled bool      `json:"cancelled,omitempty"`
	Due       time.Time `json:"due,omitzero"`
}

const statusAccepted = "accepted"

// refuse answers that a delivery is refused, and why. An error on this side
// goes to the log; the sender learns no more of it than whether to try again.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, d *delivery, err error) {
	p := ProblemOf(err)
	if d.token.Call != "" && p.Status != http.StatusUnauthorized {
		p.Call, p.Pause = d.token.Call, d.pause()
	}
	// What is not yet known passes, and any sender can bring it about.
	if p.Status >= 500 && !errors.Is(err, session.ErrNotYetKnown) {
		h.logger.ErrorContext(r.Context(), "a webhook delivery was not taken",
			"session", d.token.Session, "call", d.token.Call, "operation", d.op.permit,
			"status", p.Status, "error", err)
	}
	writeProblem(w, err, p.Status, &p)
}

func accept(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, http.StatusOK, body)
}
